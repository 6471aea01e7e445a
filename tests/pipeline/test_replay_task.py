"""One task of a replay, against a broker.

The order, the partitions, the headers, the rate and the failures are tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafkapy
from kafkapy.pipeline.replay.task import COLUMNS, Pace, ReplayTask
from kafkapy.pipeline.topics import Topics
from tests.loop.turned_clock import TurnedClock


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with kafkapy.Broker() as broker:
        yield broker.bootstrap_servers


def batch(*records: tuple[Any, ...]) -> pa.RecordBatch:
    columns = list(zip(*records, strict=True)) if records else [()] * len(COLUMNS)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary(), header]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(COLUMNS))


def record(
    offset: int, *, key: bytes | None = None, value: bytes | None = b"v", **more: Any
) -> tuple[Any, ...]:
    place = (more.get("topic", "orders"), more.get("partition", 0), offset)
    return (*place, 1_000 + offset, key, value, more.get("headers"))


def replayed(
    bootstrap: str, topic: str, *batches: pa.RecordBatch, partitions: int = 1, **more: Any
) -> dict[str, Any]:
    Topics(bootstrap).create(topic, partitions, more.pop("configs", None))
    task = ReplayTask(
        target=topic,
        partitions=partitions,
        client={"bootstrap.servers": bootstrap, **more.pop("client", {})},
        **more,
    )
    (answer,) = list(task(iter(batches)))
    rows: list[dict[str, Any]] = answer.to_pylist()
    return rows[0]


def test_records_keep_their_key_value_timestamp_headers_and_order(bootstrap: str) -> None:
    headers = [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}]
    records = [record(n, key=b"k", value=None if n == 1 else b"%d" % n, headers=headers) for n in range(3)]
    answer = replayed(bootstrap, "kept", batch(*records[:2]), batch(*records[2:]))
    assert answer == {"written": 3, "source": None, "error": None}
    found = list(Topics(bootstrap).consume("kept"))
    assert [message.value() for message in found] == [b"0", None, b"2"]
    assert [message.timestamp()[1] for message in found] == [1_000, 1_001, 1_002]
    assert found[2].key() == b"k"
    assert found[2].headers() == [("trace", b"1"), ("empty", None), ("kafkapy.source", b"orders-0-2")]


def test_a_replay_of_a_replay_names_the_nearer_source(bootstrap: str) -> None:
    headers = [{"key": "kafkapy.source", "value": b"first-0-9"}]
    replayed(bootstrap, "nearer", batch(record(4, topic="second", headers=headers)))
    (found,) = Topics(bootstrap).consume("nearer")
    assert found.headers() == [("kafkapy.source", b"second-0-4")]


def test_keys_go_where_javas_producers_put_them(bootstrap: str) -> None:
    # by kafka-clients' UtilsTest murmur2 of "21" is -973932308; the sign is dropped
    replayed(bootstrap, "keyed", batch(record(0, key=b"21")), partitions=4)
    (found,) = Topics(bootstrap).consume("keyed")
    assert found.partition() == (-973932308 & 0x7FFFFFFF) % 4


def test_records_without_a_key_stay_with_their_partition(bootstrap: str) -> None:
    records = [record(n, partition=n % 3) for n in range(9)]
    replayed(bootstrap, "keyless", batch(*records), partitions=2)
    found = list(Topics(bootstrap).consume("keyless"))
    assert {(message.timestamp()[1] - 1_000) % 3 % 2 - message.partition() for message in found} == {0}


def test_a_failed_delivery_ends_the_task_with_the_count_that_was_written(bootstrap: str) -> None:
    records = [record(n, value=b"x" * (5_000 if n == 2 else 10)) for n in range(4)]
    # A broker refuses whole batches: let each record be one.
    answer = replayed(
        bootstrap,
        "small",
        batch(*records),
        configs={"max.message.bytes": "1000"},
        client={"batch.num.messages": 1},
    )
    assert answer["source"] == "orders-0-2"
    assert "too large" in answer["error"]
    assert answer["written"] == len(list(Topics(bootstrap).consume("small"))) >= 2


def test_a_record_that_the_client_refuses_ends_the_task_too(bootstrap: str) -> None:
    answer = replayed(bootstrap, "refused", batch(record(7, value=b"x" * 2_000_000)))
    assert (answer["written"], answer["source"]) == (0, "orders-0-7")
    assert "too large" in answer["error"]


def test_no_rows_are_an_answer_of_none_written(bootstrap: str) -> None:
    assert replayed(bootstrap, "nothing")["written"] == 0


def test_a_pace_spreads_events_evenly() -> None:
    clock = TurnedClock()
    pace = Pace(100, burst=0.05, clock=clock.monotonic, sleep=clock.turn)
    times = []
    for _ in range(301):
        pace.next()
        times.append(clock.seconds)
    assert times[-1] == pytest.approx(3.0, abs=0.06)
    for start in range(0, 200, 10):
        assert sum(start / 100 <= time < start / 100 + 1 for time in times) <= 106


def test_a_pace_does_not_make_up_for_lost_time() -> None:
    clock = TurnedClock()
    pace = Pace(100, burst=0.05, clock=clock.monotonic, sleep=clock.turn)
    pace.next()
    clock.seconds = 60.0
    for _ in range(100):
        pace.next()
    assert clock.seconds == pytest.approx(60.9, abs=0.06)
