"""A filter gives the rows that are wanted of those that a reader without it gets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kafkapy.log.plan import plan_batch
from kafkapy.log.range_reader import read_range
from kafkapy.log.record_filter import ALL_RECORDS, Interval, RecordFilter
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.records import Record, build_batch, iter_headers
from kafkapy.storage.disk.checkpoints import LOG_START_OFFSETS, write_offsets
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.offline.offline_error import LogSourceError
from tests.log.reading import FILES, Row, contents, options, rows
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TP, Logs, append


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """A log of many segments, whose timestamps go to and fro."""
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=2000))
    random = Random(7)
    codecs = [Compression.NONE, Compression.ZSTD, Compression.LZ4]
    for first in range(0, 600, 6):
        records = [
            Record(
                timestamp=START_MS - 1000 + first * 3 + random.randrange(-50, 50),
                key=random.choice([None, b"", b"k%d" % (number % 20), b"long key %d" % number]),
                value=b"%d" % number,
            )
            for number in range(first, first + 6)
        ]
        append(logs.log, build_batch(records, compression=random.choice(codecs)))
    return logs


def found(logs: Logs, only: RecordFilter) -> list[Row]:
    ranges = plan_batch(FILES, replace(options(logs), only=only))
    return rows(batch for each in ranges for batch in read_range(FILES, each, headers=True, only=only))


@pytest.mark.parametrize(
    "offsets", [Interval(17, 17), Interval(None, 40), Interval(590, None), Interval(9, 3)]
)
def test_offsets(logs: Logs, offsets: Interval) -> None:
    assert found(logs, RecordFilter(offsets=offsets)) == [row for row in contents(logs) if row[0] in offsets]


@pytest.mark.parametrize(
    ("first", "last"), [(None, -800), (-800, None), (-500, -480), (-200, -200), (5000, None), (None, -9000)]
)
def test_timestamps(logs: Logs, first: int | None, last: int | None) -> None:
    times = Interval(first and START_MS + first, last and START_MS + last)
    assert found(logs, RecordFilter(timestamps=times)) == [row for row in contents(logs) if row[1] in times]


@pytest.mark.parametrize("keys", [{b"k7"}, {b""}, {b"k1", b"k19", b"long key 33"}, {b"none"}, set()])
def test_keys(logs: Logs, keys: set[bytes]) -> None:
    wanted = [row for row in contents(logs) if row[2] in keys]
    assert found(logs, ALL_RECORDS.with_keys(keys)) == wanted


def test_batches_without_the_bytes_of_a_wanted_key_are_passed_over() -> None:
    octets = b"....k7;..k17;...."
    some = ALL_RECORDS.with_keys({b"k7;", b"none"})
    assert some.may_have_key(octets, 0, 9)
    assert not some.may_have_key(octets, 5, len(octets))
    assert ALL_RECORDS.with_keys({b""}).may_have_key(octets, 5, 9)
    assert not ALL_RECORDS.with_keys(set()).may_have_key(octets, 0, len(octets))
    assert ALL_RECORDS.may_have_key(octets, 5, 9)
    assert ALL_RECORDS.with_keys(b"%d" % number for number in range(100)).may_have_key(octets, 5, 9)


def test_times_of_the_broker_choose_batches() -> None:
    records = [Record(timestamp=START_MS + number) for number in range(3)]
    (created,) = [header for _, header in iter_headers(build_batch(records))]
    appended = created._replace(attributes=created.attributes | 8)
    before = RecordFilter(timestamps=Interval(None, START_MS + 1))
    assert before.may_have(created)
    assert not before.may_have(appended)
    assert RecordFilter(timestamps=Interval(START_MS + 2, START_MS + 2)).may_have(appended)


def test_all_at_once(logs: Logs) -> None:
    only = RecordFilter(
        offsets=Interval(100, 500),
        timestamps=Interval(START_MS - 600, START_MS - 100),
        keys=frozenset({b"k3"}),
    )
    wanted = [
        row
        for row in contents(logs)
        if row[0] in only.offsets and row[1] in only.timestamps and row[2] == b"k3"
    ]
    assert wanted
    assert found(logs, only) == wanted


def test_partitions_and_topics_are_not_opened_in_vain(logs: Logs) -> None:
    for only in (RecordFilter(partitions=Interval(1, None)), ALL_RECORDS.with_topics(["other"])):
        assert plan_batch(FILES, replace(options(logs), only=only)) == []


def test_one_record_is_one_batch_of_work(logs: Logs) -> None:
    (wanted,) = plan_batch(FILES, replace(options(logs), only=RecordFilter(offsets=Interval(300, 300))))
    assert (wanted.start, wanted.end) == (300, 301)
    assert wanted.nbytes < 3000


def test_the_option_key(logs: Logs) -> None:
    assert options(logs, key="k7").only == ALL_RECORDS.with_keys([b"k7"])


def test_a_time_does_not_hide_that_records_are_deleted(logs: Logs) -> None:
    write_offsets(FileSystem(), str(logs.root / "data" / LOG_START_OFFSETS), {TP: 400})
    given = options(logs, startingOffsets=json.dumps({TP.topic: {"0": 17}}))
    recent = replace(given, only=RecordFilter(timestamps=Interval(START_MS + 500, None)))
    with pytest.raises(LogSourceError, match="Offsets 17 to 399 of events-0 are deleted"):
        plan_batch(FILES, recent)
    later = replace(given, only=RecordFilter(offsets=Interval(450, None)))
    assert next(iter(plan_batch(FILES, later))).start == 450
