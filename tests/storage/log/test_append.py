"""Appending to a log: offsets, segments, indexes, epochs, and what a failing disk leaves."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import TimestampType
from kafkapy.storage.disk.errors import DiskFullError, StorageError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import (
    IO_ERROR,
    NO_SPACE,
    Fault,
    Logs,
    append,
    batch,
    fill,
    headers_in,
    names,
    offsets,
    read_bytes,
    records_in,
    values,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def test_records_get_the_next_offsets(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    first = append(log, batch(b"a", b"b"))
    second = append(log, batch(b"c"), leader_epoch=3)
    assert (first.first_offset, first.last_offset) == (0, 1)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert values(records_in(read_bytes(log))) == [b"a", b"b", b"c"]
    assert [header.partition_leader_epoch for header in headers_in(read_bytes(log))] == [0, 3]
    assert log.leader_epochs.entries == [(0, 0), (3, 2)]
    log.check()


def test_the_log_file_holds_the_batches_and_nothing_else(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a"))
    data = read_bytes(logs.log)
    assert (logs.path / "00000000000000000000.log").read_bytes() == data


def test_log_append_time_gives_records_the_brokers_time(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=LogConfig(message_timestamp_type="LogAppendTime")).log
    info = append(log, batch(b"a", b"b", timestamp=5), now_ms=START_MS + 7)
    assert info.log_append_time == START_MS + 7
    data = read_bytes(log)
    assert headers_in(data)[0].timestamp_type == TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in records_in(data)] == [START_MS + 7] * 2
    log.check()


def test_a_batch_that_was_written_before_is_answered_with_its_first_offsets(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"x"))
    data = batch(b"a", b"b", producer_id=7, epoch=0, sequence=0)
    first = append(log, bytearray(data))
    again = append(log, bytearray(data))
    assert (again.duplicate, again.first_offset, again.last_offset) == (
        True,
        first.first_offset,
        first.last_offset,
    )
    assert again.nbytes == 0
    assert log.log_end_offset == 3


def test_a_gap_in_a_producers_sequence_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(b"b", producer_id=7, epoch=0, sequence=2))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offsets(log) == [0]


def test_a_full_segment_is_closed_and_the_next_named_by_its_first_offset(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SMALL)
    fill(logs.log, 12)
    assert names(logs.path, ".log") == [
        "00000000000000000000.log",
        "00000000000000000005.log",
        "00000000000000000010.log",
    ]
    assert names(logs.path, ".snapshot") == ["00000000000000000005.snapshot", "00000000000000000010.snapshot"]
    logs.log.check()
    assert offsets(logs.log) == list(range(12))


def test_index_entries_hold_the_last_offset_and_the_position_of_an_append(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SMALL)
    fill(logs.log, 6)  # batches of 170 bytes: an entry is due when more than 200 came since the last
    index = (logs.path / "00000000000000000000.index").read_bytes()
    assert list(struct.iter_unpack(">ii", index)) == [(2, 340), (4, 680)]


def test_closing_a_segment_trims_its_indexes_and_completes_its_time_index(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    fill(logs.log, 6)
    logs.stop()
    assert (logs.path / "00000000000000000000.index").stat().st_size == 0
    for name, entry in (
        ("00000000000000000000", (START_MS + 4, 4)),
        ("00000000000000000005", (START_MS + 5, 0)),
    ):
        assert (logs.path / f"{name}.timeindex").read_bytes() == struct.pack(">qi", *entry)


def test_a_segment_is_closed_when_its_first_record_is_older_than_segment_ms(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_ms=1000))
    for timestamp in (START_MS, START_MS + 1000, START_MS + 1001, START_MS + 2000):
        append(logs.log, batch(b"x", timestamp=timestamp))
    assert names(logs.path, ".log") == ["00000000000000000000.log", "00000000000000000002.log"]


def test_a_segment_of_records_without_time_is_closed_by_the_brokers_clock(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_ms=1000))
    append(logs.log, batch(b"x", timestamp=-1), now_ms=START_MS)
    append(logs.log, batch(b"x", timestamp=-1), now_ms=START_MS + 1000)
    append(logs.log, batch(b"x", timestamp=-1), now_ms=START_MS + 1001)
    assert names(logs.path, ".log") == ["00000000000000000000.log", "00000000000000000002.log"]


def test_a_segment_is_closed_when_an_index_is_full(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_index_bytes=16, index_interval_bytes=0))
    fill(logs.log, 6)
    logs.log.check()
    # The first append gets no entry; a time index of one entry keeps its place for the end.
    assert names(logs.path, ".log")[:2] == ["00000000000000000000.log", "00000000000000000001.log"]
    assert offsets(logs.log) == list(range(6))


def test_an_index_too_small_for_one_entry_gives_every_batch_a_segment(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_index_bytes=4))
    fill(logs.log, 3)
    assert len(names(logs.path, ".log")) == 3
    assert offsets(logs.restart()) == [0, 1, 2]


def test_an_offset_that_does_not_fit_32_bits_begins_a_new_segment(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a"))
    for base_offset in (2**31 - 1, 2**31):
        data = batch(b"b")
        data[:8] = base_offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(data), now_ms=START_MS)
    assert names(logs.path, ".log") == ["00000000000000000000.log", "00000000002147483648.log"]
    assert offsets(logs.restart()) == [0, 2**31 - 1, 2**31]


def test_a_follower_keeps_the_leaders_offsets_and_epochs(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    leader = Logs(tmp_path, dirs=("leader",)).log
    append(leader, batch(b"a", b"b"), leader_epoch=1)
    append(leader, batch(b"c"), leader_epoch=4)
    log.append_as_follower(memoryview(bytearray(read_bytes(leader))), now_ms=START_MS)
    assert read_bytes(log) == read_bytes(leader)
    assert log.leader_epochs.entries == [(1, 0), (4, 2)]
    log.check()


def test_a_follower_refuses_offsets_that_it_has(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a", b"b"))
    with pytest.raises(KafkaError, match="Offset 0 where 2 is next"):
        log.append_as_follower(memoryview(batch(b"a")), now_ms=START_MS)
    assert offsets(log) == [0, 1]


def test_a_corrupt_batch_is_refused(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    data = batch(b"abc")
    data[-2] ^= 1
    with pytest.raises(KafkaError) as refused:
        append(log, data)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.size == 0


def test_preallocated_segments_are_cut_to_their_batches_when_closed(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(preallocate=True, segment_bytes=1000))
    fill(logs.log, 6)
    sizes = [(logs.path / name).stat().st_size for name in names(logs.path, ".log")]
    assert sizes == [850, 1000]
    assert offsets(logs.restart()) == list(range(6))


# --- a disk that is full or fails --------------------------------------------------------------------------


def test_on_a_full_disk_an_append_is_refused_and_the_log_goes_on_when_there_is_space(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    fill(log, 3)
    logs.files.faults = [Fault("write", NO_SPACE, ".log", partial=50)]
    for _ in range(2):
        with pytest.raises(DiskFullError) as refused:
            append(log, batch(b"lost"))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (logs.path / "00000000000000000000.log").stat().st_size == log.size
    assert offsets(log) == [0, 1, 2]
    logs.files.faults = []
    fill(log, 1)
    assert offsets(logs.restart(clean=False)) == [0, 1, 2, 3]


def test_a_batch_refused_for_lack_of_space_is_not_taken_for_a_duplicate_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0))
    logs.files.faults = [Fault("write", NO_SPACE, ".log", times=1)]
    data = batch(b"b", producer_id=7, epoch=0, sequence=1)
    with pytest.raises(DiskFullError):
        append(log, bytearray(data))
    assert not append(log, bytearray(data)).duplicate
    assert offsets(log) == [0, 1]


@pytest.mark.parametrize("operation", ["create", "open"])
def test_a_segment_that_cannot_be_made_for_lack_of_space_leaves_nothing(
    tmp_path: Path, operation: str
) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000, preallocate=operation == "open"))
    log = logs.log
    fill(log, 5)
    logs.files.faults = [Fault(operation, NO_SPACE, "5.log", times=1)]
    with pytest.raises(DiskFullError):
        append(log, batch(b"x" * 100))
    assert names(logs.path, ".log") == ["00000000000000000000.log"]
    fill(log, 2)
    assert offsets(logs.restart(clean=False)) == list(range(7))


def test_an_index_entry_that_finds_no_space_is_left_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(index_interval_bytes=100))
    logs.files.faults = [Fault("write", NO_SPACE, ".index", times=3)]
    fill(logs.log, 10)
    logs.log.check()
    assert logs.log.segments.active.indexes.offset_index.entries == 6
    assert offsets(logs.log) == list(range(10))


def test_any_other_error_takes_the_log_directory_offline(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    fill(log, 1)
    heard: list[StorageError] = []
    logs.manager.on_directory_failure = heard.append
    logs.files.faults = [Fault("write", IO_ERROR, ".log", times=1)]
    with pytest.raises(StorageError) as failed:
        append(log, batch(b"lost"))
    assert failed.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert failed.value.log_dir == tmp_path / "data"
    assert heard == [failed.value]
    with pytest.raises(StorageError, match="offline"):
        append(log, batch(b"lost"))
    with pytest.raises(StorageError, match="offline"):
        log.read(0, 100, upper_bound=1)
    assert logs.manager.offline_dirs == [tmp_path / "data"]


def test_what_is_appended_survives_the_failure_of_the_directory(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    logs.files.faults = [Fault("write", IO_ERROR, ".log", times=1, partial=100)]
    with pytest.raises(StorageError):
        append(logs.log, batch(b"lost"))
    assert offsets(logs.restart(clean=False)) == [0, 1, 2]


def test_clients_may_not_use_the_space_kept_for_the_broker(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    logs.files.free = log.log_directory.space.limit - 1
    with pytest.raises(DiskFullError):
        append(log, batch(b"x"))
    append(log, batch(b"offsets"), origin=AppendOrigin.COORDINATOR)
    logs.files.free = None
    append(log, batch(b"y"))
    assert offsets(log) == [0, 1]


def test_a_coordinators_append_takes_half_of_the_reserve_when_the_disk_is_full_to_the_last_byte(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"x"))
    reserve = tmp_path / "data" / ".kafkapy_reserve"
    whole = reserve.stat().st_blocks
    logs.files.faults = [Fault("write", NO_SPACE, ".log", times=1)]
    append(log, batch(b"offsets"), origin=AppendOrigin.COORDINATOR)
    assert 0 < reserve.stat().st_blocks <= whole // 2 + 8
    logs.files.faults = [Fault("write", NO_SPACE, ".log")]
    with pytest.raises(DiskFullError):
        append(log, batch(b"offsets"), origin=AppendOrigin.COORDINATOR)
    assert reserve.stat().st_blocks > 0
    logs.files.faults = []
    append(log, batch(b"y"))
    assert reserve.stat().st_blocks == whole
    assert offsets(log) == [0, 1, 2]


def test_with_durability_os_no_space_is_reserved(tmp_path: Path) -> None:
    append(Logs(tmp_path, durability="os").log, batch(b"x"))
    assert not (tmp_path / "data" / ".kafkapy_reserve").exists()
