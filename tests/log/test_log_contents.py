"""What is read of a log: its records, each once.

Segments and the way the work is split make no difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.log.splits import group
from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.offline.offline_error import LogSourceError
from tests.log.reading import (
    Transactions,
    contents,
    offsets,
    plan,
    plan_in_pieces,
    read,
    rows,
    rows_of,
    snapshot,
)
from tests.loop.turned_clock import START_MS
from tests.protocol.record_strategies import records
from tests.storage.log_harness import Logs, append, batch, fill, read_bytes, records_in

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, message_timestamp_after_max_ms=2**62)


def test_every_record_of_every_segment_is_read_in_order(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SMALL)
    fill(logs.log, 100)
    assert len(logs.log.segments) > 5
    expected = rows_of(records_in(read_bytes(logs.log)))
    assert contents(logs) == expected  # while the broker runs
    logs.stop()
    assert contents(logs) == expected


def test_a_log_without_records_has_no_rows(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.log.make_files()
    assert contents(logs) == []
    logs.stop()
    assert contents(logs) == []


def test_reading_changes_nothing_on_disk(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SMALL)
    fill(logs.log, 60)
    Transactions(logs.log).write(1, b"open")
    logs.crash()
    for path in logs.path.glob("*index"):
        path.unlink()
    before = snapshot(tmp_path)
    contents(logs, startingTimestamp=str(START_MS + 10))
    assert snapshot(tmp_path) == before


def test_control_records_are_no_rows(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    writer = Transactions(logs.log)
    writer.write(1, b"a")
    writer.end(1, abort=False)
    writer.plain(b"b")
    assert offsets(logs) == [0, 2]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(records, st.sampled_from(Compression), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 2000),
    st.data(),
)
def test_any_log_cut_into_any_pieces_gives_its_records(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[Record], Compression, bool]],
    range_bytes: int,
    data: st.DataObject,
) -> None:
    config = LogConfig(
        index_interval_bytes=data.draw(st.integers(0, 500)), message_timestamp_after_max_ms=2**62
    )
    logs = Logs(tmp_path_factory.mktemp("logs"), config=config)
    for found, compression, roll in batches:
        for record in found:
            record.timestamp = min(record.timestamp, 2**52)  # microseconds have no room for more
        append(logs.log, build_batch(found, compression=compression))
        if roll:
            logs.log.roll()
    logs.log.advance_high_watermark(logs.log.log_end_offset)
    expected = rows_of(records_in(read_bytes(logs.log)))
    end = logs.log.log_end_offset
    logs.stop() if data.draw(st.booleans()) else logs.crash()
    first = data.draw(st.integers(0, end))
    last = data.draw(st.integers(first, end))
    bounds = {
        "startingOffsets": json.dumps({"events": {"0": first}}),
        "endingOffsets": json.dumps({"events": {"0": last}}),
    }
    ranges = plan_in_pieces(logs, range_bytes, **bounds)
    pieces = [each for split in group(ranges, cores=data.draw(st.integers(1, 4))) for each in split]
    for several in (ranges, pieces):
        assert [each.start for each in several[1:]] == [each.end for each in several[:-1]]
        assert rows(read(several)) == expected[first:last]


def test_pieces_are_cut_where_batches_begin(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(index_interval_bytes=0))
    for number in range(50):
        append(logs.log, batch(*[b"%d" % number] * 10))
    logs.log.advance_high_watermark(500)
    ranges = plan_in_pieces(logs, 1000)
    assert len(ranges) > 5
    assert all(each.start % 10 == 0 for each in ranges)
    assert sum(each.nbytes for each in ranges) == logs.log.size


def test_a_time_bounds_by_the_first_record_that_is_as_new(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SMALL)
    fill(logs.log, 100, step=10)
    for _ in range(2):
        assert offsets(logs, startingTimestamp=str(START_MS + 501))[0] == 51
        assert offsets(logs, endingTimestamp=str(START_MS + 501))[-1] == 50
        assert offsets(logs, startingTimestamp=str(START_MS + 991)) == []
        assert offsets(logs, endingTimestamp=str(START_MS)) == []
        assert offsets(logs, endingTimestamp=str(START_MS + 5000)) == list(range(100))
        logs.stop()


def test_bounds_outside_the_log_are_refused(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    with pytest.raises(
        LogSourceError, match="startingOffsets asks for offset 6 of events-0, but it ends at 5"
    ):
        plan(logs, startingOffsets='{"events": {"0": 6}}')
    with pytest.raises(LogSourceError, match="endingOffsets asks for offset 9 of events-0, but it ends at 5"):
        plan(logs, endingOffsets='{"events": {"0": 9}}')
    with pytest.raises(LogSourceError, match="startingOffsets leaves out events-0: name every partition"):
        plan(logs, startingOffsets='{"other": {"0": 9}}')
