"""What Spark's Kafka source is told for a topic and its positions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Self

import pytest

from kafkapy.errors import UserError
from kafkapy.spark import read_topic

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Told(dict[str, str]):
    """Stands for a DataFrame."""

    schema = None


class Reader:
    """Stands for a DataFrameReader: keeps what it is told."""

    def __init__(self, kind: str) -> None:
        self.told = Told(kind=kind)

    def format(self, name: str) -> Self:
        self.told["format"] = name
        return self

    def options(self, **options: str) -> Self:
        self.told.update(options)
        return self

    def load(self) -> Told:
        return self.told


class Session:
    @property
    def read(self) -> Reader:
        return Reader("batch")

    @property
    def readStream(self) -> Reader:  # noqa: N802
        return Reader("stream")


def told(**arguments: Any) -> Mapping[str, str]:
    options: Mapping[str, str] = read_topic(Session(), "orders", bootstrap="localhost:9092", **arguments)
    return options


def test_all_of_a_topic_is_read_with_headers_committed_records_large_polls_and_short_waits() -> None:
    assert told() == {
        "kind": "batch",
        "format": "kafka",
        "subscribe": "orders",
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "20000",
        "kafka.fetch.max.wait.ms": "10",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
    }


def test_a_stream_has_a_start_and_no_end() -> None:
    options = told(stream=True, starting="latest", max_offsets_per_trigger=100)
    assert options["kind"] == "stream"
    assert options["startingOffsets"] == "latest"
    assert options["maxOffsetsPerTrigger"] == "100"
    assert not [name for name in options if name.startswith("ending")]


def test_offsets_are_given_by_partition() -> None:
    options = told(starting={0: 5, 1: -2}, ending={0: 9, 1: -1})
    assert json.loads(options["startingOffsets"]) == {"orders": {"0": 5, "1": -2}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"0": 9, "1": -1}}


@pytest.mark.parametrize(
    "time",
    [
        int(NOON.timestamp() * 1000),
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=2))),
        "2026-01-31T12:00:00",
        "2026-01-31 12:00",
        "2026-01-31T13:00:00+01:00",
    ],
)
def test_a_time_is_milliseconds_or_a_date_in_utc_unless_it_names_a_zone(time: Any) -> None:
    options = told(starting=time, ending=time)
    assert options["startingTimestamp"] == options["endingTimestamp"] == str(int(NOON.timestamp() * 1000))
    assert "startingOffsets" not in options


def test_options_of_the_source_win() -> None:
    options = told(options={"minPartitions": "8", "kafka.max.poll.records": "10"})
    assert options["minPartitions"] == "8"
    assert options["kafka.max.poll.records"] == "10"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"starting": "tomorrow"}, "starting='tomorrow': use earliest, latest, a time such as"),
        ({"starting": "latest"}, "there is nothing to read"),
        ({"ending": "earliest"}, "there is nothing to read"),
        ({"stream": True, "ending": 5}, "a stream has no end"),
        ({"isolation": "serializable"}, "use read_committed or read_uncommitted"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        told(**arguments)


def test_a_name_that_no_topic_can_have_is_refused() -> None:
    with pytest.raises(UserError, match="topic name is invalid: 'a,b'"):
        read_topic(Session(), "a,b", bootstrap="localhost:9092")
