"""Loading logs after a clean stop, after a crash and with damage.

The damage must not be taken for either.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.disk.errors import CorruptLogError, StorageError
from kafkapy.storage.log.log_config import LogConfig
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import (
    IO_ERROR,
    TOPIC_ID,
    TP,
    Fault,
    Logs,
    append,
    batch,
    fill,
    names,
    offsets,
    read_bytes,
    search,
)

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200)
BATCH = 170
FIRST = "00000000000000000000.log"


def damage(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def stopped(tmp_path: Path, *, flushed: int, count: int = 12, durability: str = "fsync") -> Logs:
    """A log of 5, 5 and 2 batches that crashed with its recovery point at `flushed`."""
    logs = Logs(tmp_path, config=SEGMENTS_OF_5, durability=durability)  # type: ignore[arg-type]
    fill(logs.log, flushed)
    logs.log.flush()
    logs.save_recovery_points()
    fill(logs.log, count - flushed)
    logs.crash()
    return logs


def start(logs: Logs) -> None:
    logs.manager = logs.new_manager()


# --- after a crash -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault("open", IO_ERROR, ".timeindex", after=1),
        Fault("open", IO_ERROR, ".txnindex"),
        Fault("write", IO_ERROR, ".index"),
        Fault("truncate", IO_ERROR, ".timeindex"),
    ],
)
def test_a_log_that_cannot_be_loaded_leaves_no_file_open(tmp_path: Path, fault: Fault) -> None:
    logs = stopped(tmp_path, flushed=3)
    (logs.path / FIRST).with_suffix(".txnindex").touch()
    logs.files.faults = [fault]
    with pytest.raises(StorageError):
        start(logs)
    open_files = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists()]
    assert [each for each in open_files if each.startswith(str(logs.path))] == []


@pytest.mark.parametrize("flushed", [0, 3, 5, 12])
def test_everything_that_was_written_is_there_after_a_kill(tmp_path: Path, flushed: int) -> None:
    logs = stopped(tmp_path, flushed=flushed)
    start(logs)
    logs.log.check()
    assert offsets(logs.log) == list(range(12))
    assert logs.log.flushed_offset == 12
    fill(logs.log, 3)
    assert offsets(logs.restart()) == list(range(15))


def test_with_durability_os_recovery_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=3, durability="os")
    start(logs)
    assert logs.log.flushed_offset == 3


@pytest.mark.parametrize("torn", [1, 11, 12, 60, 61, 169])
def test_a_torn_last_batch_is_cut_off(tmp_path: Path, torn: int) -> None:
    logs = stopped(tmp_path, flushed=3, count=4)
    with (logs.path / FIRST).open("r+b") as file:
        file.truncate(3 * BATCH + torn)
    start(logs)
    logs.log.check()
    assert offsets(logs.log) == [0, 1, 2]
    assert (logs.path / FIRST).stat().st_size == 3 * BATCH


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xff" * 100, b"x", struct.pack(">qi", 4, 2**31 - 1)])
def test_garbage_behind_the_last_batch_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    logs = stopped(tmp_path, flushed=3, count=4)
    with (logs.path / FIRST).open("ab") as file:
        file.write(tail)
    start(logs)
    logs.log.check()
    assert offsets(logs.log) == [0, 1, 2, 3]


@pytest.mark.parametrize("field", [0, 8, 16, 17, 21, 23, 57, 100])
def test_a_bad_batch_above_the_recovery_point_ends_the_log(tmp_path: Path, field: int) -> None:
    logs = stopped(tmp_path, flushed=3)
    original = (logs.path / "00000000000000000005.log").read_bytes()
    flipped = bytes([original[BATCH + field] ^ 0x81])
    damage(logs.path / "00000000000000000005.log", BATCH + field, flipped)
    start(logs)
    logs.log.check()
    assert offsets(logs.log) == [0, 1, 2, 3, 4, 5]
    assert names(logs.path, ".log") == [FIRST, "00000000000000000005.log"]
    fill(logs.log, 2)
    assert offsets(logs.restart(clean=False)) == list(range(8))


def test_recovery_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=3)
    damage(logs.path / "00000000000000000005.log", BATCH + 100, b"!")
    start(logs)
    data = read_bytes(logs.log)
    logs.crash()
    start(logs)
    assert read_bytes(logs.log) == data


def test_recovery_builds_indexes_epochs_and_producers_anew(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    for sequence in range(12):
        data = batch(b"x" * 100, timestamp=START_MS + sequence, producer_id=7, epoch=0, sequence=sequence)
        append(logs.log, data, leader_epoch=sequence // 4)
    log = logs.restart(clean=False)
    log.check()
    assert log.leader_epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert append(log, batch(b"x" * 100, producer_id=7, epoch=0, sequence=11)).duplicate
    assert append(log, batch(b"y", producer_id=7, epoch=0, sequence=12)).first_offset == 12
    for segment in log.segments:
        assert segment.indexes.offset_index.entries or segment.size < 500


def test_what_recovery_accepted_is_synced_before_it_is_served(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=3)
    logs.files.synced.clear()
    start(logs)
    done = {path.rpartition("/")[2] for path in logs.files.synced}
    assert {
        FIRST,
        "00000000000000000005.log",
        "00000000000000000010.log",
        "00000000000000000005.index",
    } <= done


def test_only_segments_that_reach_above_the_recovery_point_are_read(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=12)
    logs.files.synced.clear()
    start(logs)
    done = {path.rpartition("/")[2] for path in logs.files.synced}
    assert "00000000000000000010.log" in done
    assert FIRST not in done


def test_a_log_without_a_segment_begins_anew(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"x"))
    logs.crash()
    (logs.path / FIRST).unlink()
    start(logs)
    assert logs.log.log_end_offset == 0
    assert names(logs.path, ".index") == []


def test_a_partition_whose_creation_was_cut_short_is_empty(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    (tmp_path / "data" / str(TP)).mkdir()
    log = logs.restart(clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    logs.manager.create(TP, TOPIC_ID, LogConfig())
    append(log, batch(b"x"))
    assert log.topic_id == TOPIC_ID


# --- damage below the recovery point -----------------------------------------------------------------------


def is_refused(logs: Logs, first: int, last: int) -> None:
    """The partition is not served, and the message names the offsets.

    The log file is as it was.
    """
    before = {name: (logs.path / name).read_bytes() for name in names(logs.path, ".log")}
    for _ in range(2):
        start(logs)
        with pytest.raises(CorruptLogError, match=f"Offsets {first} to {last} may be damaged") as refused:
            logs.manager.get(TP)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        logs.stop()
        assert {name: (logs.path / name).read_bytes() for name in names(logs.path, ".log")} == before


def test_a_log_that_ends_below_the_recovery_point_stays_offline(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=12)
    with (logs.path / "00000000000000000010.log").open("r+b") as file:
        file.truncate(BATCH)
    is_refused(logs, 11, 11)


def test_other_partitions_are_served_beside_a_damaged_one(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=12)
    damage(logs.path / "00000000000000000010.log", 100, b"!")
    start(logs)
    other = logs.manager.create(TP._replace(partition=1), bytes(16), LogConfig(), new=True)
    append(other, batch(b"x"))
    assert offsets(other) == [0]


def test_giving_up_the_recovery_point_cuts_the_damage_off(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=12)
    with (logs.path / "00000000000000000010.log").open("r+b") as file:
        file.truncate(BATCH + 100)
    start(logs)
    logs.stop()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    start(logs)
    assert offsets(logs.log) == list(range(11))


def test_messages_of_the_old_formats_are_not_taken_for_garbage(tmp_path: Path) -> None:
    logs = stopped(tmp_path, flushed=0, count=2)
    body = struct.pack(">bbqi", 1, 0, START_MS, -1) + struct.pack(">i", 3) + b"abc"
    message = struct.pack(">I", zlib.crc32(body)) + body
    (logs.path / FIRST).write_bytes(struct.pack(">qi", 0, len(message)) + message)
    start(logs)
    with pytest.raises(CorruptLogError, match="format 1"):
        logs.manager.get(TP)


# --- after a clean stop ------------------------------------------------------------------------------------


def test_after_a_clean_stop_nothing_is_read_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.stop()
    damage(logs.path / FIRST, BATCH + 100, b"!")
    start(logs)
    assert logs.log.log_end_offset == 12
    logs.log.truncate_to(12)
    assert logs.log.high_watermark == 12


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "odd", "zeros", "behind"])
def test_a_bad_index_is_built_anew_and_equals_the_lost_one(tmp_path: Path, suffix: str, how: str) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.stop()
    for stem in ("00000000000000000000", "00000000000000000010"):
        path = logs.path / (stem + suffix)
        if how == "missing":
            path.unlink()
        elif how == "odd":
            path.write_bytes(path.read_bytes() + b"\0")
        elif how == "zeros":
            path.write_bytes(path.read_bytes() + bytes(24))
        else:
            path.write_bytes(
                struct.pack(">ii", 1, 10**6) if suffix == ".index" else bytes(12) + bytes([255] * 12)
            )
    start(logs)
    logs.log.check()
    assert offsets(logs.log) == list(range(12))
    first, *_, last = logs.log.segments
    assert (first.indexes.offset_index.entries, last.indexes.offset_index.entries) == (2, 0)
    found = search(logs.log, START_MS + 11)
    assert found is not None
    assert found.offset == 11


def test_an_index_without_a_segment_is_deleted(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.stop()
    (logs.path / "00000000000000000077.index").write_bytes(b"")
    start(logs)
    assert names(logs.path, ".index") == ["00000000000000000000.index"]


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n5\n1 1\n", b"\xff\xfe"])
def test_damaged_leader_epochs_are_taken_from_the_batches(tmp_path: Path, content: bytes) -> None:
    logs = Logs(tmp_path)
    for epoch in (1, 1, 4):
        append(logs.log, batch(b"x"), leader_epoch=epoch)
    logs.stop()
    (logs.path / "leader-epoch-checkpoint").write_bytes(content)
    start(logs)
    expected = [] if content == b"" else [(1, 0), (4, 2)]
    assert logs.log.leader_epochs.entries == expected


@pytest.mark.parametrize("content", [b"", b"garbage", b"version: 0\ntopic_id: x"])
def test_a_damaged_partition_metadata_does_not_keep_the_broker_from_starting(
    tmp_path: Path, content: bytes
) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.stop()
    (logs.path / "partition.metadata").write_bytes(content)
    start(logs)
    log = logs.manager.get(TP)
    assert log is not None
    assert log.topic_id is None
    again = logs.manager.create(TP, TOPIC_ID, LogConfig())
    assert again is log
    assert offsets(logs.restart()) == [0]
    assert logs.log.topic_id == TOPIC_ID


def test_producers_are_known_after_a_clean_stop(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"x", producer_id=7, epoch=0, sequence=0))
    log = logs.restart()
    assert append(log, batch(b"x", producer_id=7, epoch=0, sequence=0)).duplicate


def test_the_high_watermark_is_the_checkpointed_one_but_within_the_log(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    append(logs.log, batch(b"not committed"))
    assert logs.restart().high_watermark == 5


# --- compaction that was interrupted -----------------------------------------------------------------------


def test_an_unfinished_compaction_is_forgotten(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.stop()
    segment = (logs.path / FIRST).read_bytes()
    (logs.path / (FIRST + ".cleaned")).write_bytes(segment[:BATCH])
    (logs.path / "00000000000000000005.log.swap").write_bytes(segment[:BATCH])
    start(logs)
    assert [name for name in names(logs.path) if name.endswith((".cleaned", ".swap"))] == []
    assert offsets(logs.log) == list(range(12))


def test_a_compaction_in_its_last_step_is_completed(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.stop()
    first = (logs.path / FIRST).read_bytes()
    second = (logs.path / "00000000000000000005.log").read_bytes()
    # Segments 0 and 5 were compacted into one that keeps offsets 2 and 9.
    (logs.path / (FIRST + ".swap")).write_bytes(first[2 * BATCH : 3 * BATCH] + second[4 * BATCH :])
    (logs.path / "00000000000000000000.index.swap").write_bytes(b"")
    (logs.path / "00000000000000000000.timeindex.swap").write_bytes(b"")
    start(logs)
    assert names(logs.path, ".log") == [FIRST, "00000000000000000010.log"]
    assert offsets(logs.log) == [2, 9, 10, 11]


def test_a_disk_error_while_loading_takes_the_directory_offline_and_no_other(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("data", "more"))
    fill(logs.log, 3)
    logs.manager.create(TP._replace(partition=1), bytes(16), LogConfig(), new=True).make_files()
    logs.crash()
    logs.files.faults = [
        Fault("read", IO_ERROR, "events-0/" + FIRST),
        Fault("open", IO_ERROR, "events-0/" + FIRST),
    ]
    start(logs)
    assert logs.manager.offline_dirs == [tmp_path / "data"]
    assert logs.manager.get(TP) is None
    assert logs.manager.get(TP._replace(partition=1)) is not None
    with pytest.raises(KafkaError) as refused:
        logs.manager.create(TP, bytes(16), LogConfig())
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
