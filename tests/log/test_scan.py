"""`kafkapy.log.scan` gives a topic's records as Arrow record batches, without a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafkapy import Broker
from kafkapy.errors import UserError
from kafkapy.log import scan
from kafkapy.log.position import Position
from tests.log.reading import numbers_scanned, write_aborted_and_others
from tests.storage.log_harness import Logs

_RECORDS = 1000
_PARTITIONS = 3
_FIRST_MS = 1_700_000_000_000
"""The time of record 0; each record is a second later than the one before."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory whose broker runs; record `n` is in partition `n % 3`."""
    path = tmp_path_factory.mktemp("data")
    with Broker(data_dir=path, config={"num.partitions": _PARTITIONS}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(_RECORDS):
            producer.produce(
                "orders",
                key=b"k%d" % (number % 7),
                value=b"%d" % number,
                partition=number % _PARTITIONS,
                timestamp=_FIRST_MS + 1000 * number,
                headers=[("n", b"%d" % number)],
            )
        producer.flush()
        yield path


def values(directory: Path, **options: object) -> list[int]:
    table = scan(directory, "orders", **options).read_all()  # type: ignore[arg-type]
    return [int(each) for each in table.column("value").to_pylist()]


def numbers(*partitions: int) -> list[int]:
    """The records of some partitions, in the order of their offsets."""
    return [number for partition in partitions for number in range(partition, _RECORDS, _PARTITIONS)]


def test_all_rows_come_by_partition_and_offset(directory: Path) -> None:
    table = scan(directory, "orders").read_all()
    assert [int(each) for each in table.column("value").to_pylist()] == numbers(0, 1, 2)
    first = table.slice(0, 1).to_pylist()[0]
    assert first == {
        "key": b"k0",
        "value": b"0",
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(_FIRST_MS / 1000, UTC),
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"0"}],
    }


def test_headers_may_be_left_out(directory: Path) -> None:
    assert "headers" not in scan(str(directory), "orders", headers=False).schema.names


def test_some_partitions(directory: Path) -> None:
    assert values(directory, partitions=[2, 0]) == numbers(0, 2)


def test_one_key(directory: Path) -> None:
    assert sorted(values(directory, key=b"k3")) == list(range(3, _RECORDS, 7))


@pytest.mark.parametrize(
    ("starting", "ending", "first", "last"),
    [
        ({0: 10}, {0: 12}, 30, 33),
        ({0: -2}, {0: -1}, 0, 999),
        (_FIRST_MS + 30_000, _FIRST_MS + 36_000, 30, 33),
        (datetime.fromtimestamp(_FIRST_MS / 1000 + 30, UTC), "latest", 30, 999),
        ("2023-11-14T22:13:50", "2023-11-14T22:13:56+00:00", 30, 33),
        ("2023-11-14T22:13:50.0001", "2023-11-14T22:13:56.0001", 33, 36),
    ],
)
def test_positions(directory: Path, starting: Position, ending: Position, first: int, last: int) -> None:
    found = values(directory, partitions=[0], starting=starting, ending=ending)
    assert found == list(range(first, last + 1, _PARTITIONS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "order"}, "order"),
        ({"partitions": [3]}, "There is no partition 3 of orders"),
        ({"starting": "yesterday"}, "starting='yesterday': use earliest, latest, a time"),
        ({"starting": {0: 1}}, "starting leaves out orders-1"),
        ({"isolation": "committed"}, "isolation 'committed'"),
    ],
)
def test_what_cannot_be_read_is_said_at_once(
    directory: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        scan(directory, **{"topic": "orders", **options})  # type: ignore[arg-type]


def test_aborted_records_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write_aborted_and_others(logs.log)
    logs.stop()
    paths = [logs.root / name for name in logs.dirs]
    assert numbers_scanned(paths, "read_committed") == [2]
    assert numbers_scanned(paths, "read_uncommitted") == [1, 2, 3]


def test_a_reader_that_stops_early_leaves_no_thread(directory: Path) -> None:
    reader = scan(directory, "orders")
    assert reader.read_next_batch().num_rows
    del reader
    assert not [each for each in threading.enumerate() if each.name.startswith("kafkapy-scan")]


def test_a_long_segment_without_indexes_is_read_in_pieces(tmp_path: Path) -> None:
    value = bytes(900_000)
    with Broker(data_dir=tmp_path, config={"num.partitions": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 0})
        for _ in range(30):
            producer.produce("orders", value)
            producer.flush()
    (log,) = tmp_path.glob("orders-0/*.log")
    for index in log.parent.glob("*.*index"):
        index.unlink()
    reader = scan(tmp_path, "orders")
    assert reader.read_next_batch().num_rows
    with log.open("r+b") as file:  # What has been read so far is not read again.
        file.seek(-100_000, 2)
        file.write(b"damage")
    with pytest.raises(UserError, match="damaged"):
        reader.read_all()
