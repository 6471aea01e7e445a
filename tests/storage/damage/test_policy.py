"""Damage in a log that another replica leads.

The log ends before it, and continues as the leader's.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import Record, build_batch
from kafkapy.storage.damage.damage import DAMAGED_OFFSETS, DamagedOffsetsError
from kafkapy.storage.damage.policy import SERVE_AROUND, TRUNCATE_AND_REFETCH
from kafkapy.storage.disk.checkpoints import RECOVERY_POINTS, read_offsets
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.crash.bit_rot import spoil
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import IO_ERROR, TP, ColdPages, Fault, Logs, fill, names, offsets

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)
COUNT = 24
FIELDS = {"offset": 7, "length": 11, "epoch": 15, "magic": 16, "crc": 17, "attributes": 22, "record": 65}


def lead(tmp_path: Path) -> Logs:
    """A leader's log, in four epochs.

    Its transactions have two batches and a marker, and each second one is aborted.
    """
    logs = Logs(tmp_path / "leader", config=CONFIG)
    for offset in range(COUNT):
        is_marker = offset % 3 == 2
        kind = ControlType.ABORT if offset % 2 else ControlType.COMMIT
        record = (
            Record(-1, START_MS + offset, control_record_key(kind), end_txn_marker_value(0))
            if is_marker
            else Record(-1, START_MS + offset, b"key", (b"%d" % offset).ljust(100, b"."))
        )
        data = build_batch(
            [record],
            producer_id=7,
            producer_epoch=0,
            base_sequence=-1 if is_marker else offset - offset // 3,
            transactional=True,
            control=is_marker,
            base_offset=offset,
            leader_epoch=offset // 6,
        )
        logs.log.append_as_follower(memoryview(data), now_ms=START_MS)
    logs.log.advance_high_watermark(COUNT)
    return logs


def follow(log: PartitionLog, leader: PartitionLog) -> None:
    """Fetch what the log lacks, batch by batch."""
    while log.log_end_offset < COUNT:
        read = leader.read(log.log_end_offset, 1, upper_bound=COUNT)
        assert read is not None
        log.append_as_follower(memoryview(bytearray(read.slice.read())), now_ms=START_MS)
        read.slice.release()
    log.advance_high_watermark(leader.high_watermark)


def read_all(log: PartitionLog) -> None:
    """Read a log until nothing more is wrong: what was not read at the start is checked then."""
    while True:
        try:
            assert offsets(log) == list(range(log.log_end_offset))
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        else:
            break


def is_like(log: PartitionLog, leader: PartitionLog, end: int) -> None:
    """Whether a log is the leader's up to `end`, in all that is known of it."""
    assert log.log_end_offset == end
    assert log.high_watermark <= end
    assert log.recovery_point <= end
    assert log.leader_epochs.entries == [each for each in leader.leader_epochs.entries if each[1] < end]
    log.check()
    expected = [each for each in leader.aborted_transactions(0, COUNT) if each.last_offset < end]
    assert log.aborted_transactions(0, COUNT) == expected
    assert not any(segment.damage for segment in log.segments)
    assert log.last_stable_offset == min(log.high_watermark, end - end % 3)
    data = [offset for offset in range(end) if offset % 3 != 2]
    sequences = [state.last_sequence for state in log.producers.copy_producers().values()]
    assert sequences == ([data[-1] - data[-1] // 3] if data else [])


def files_of(logs: Logs) -> dict[str, bytes]:
    """The files that say what a log holds, after a clean stop."""
    kept = (".log", ".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint")
    return {name: (logs.path / name).read_bytes() for name in names(logs.path) if name.endswith(kept)}


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x81
    path.write_bytes(data)


def place_of(logs: Logs, offset: int) -> tuple[Path, int]:
    """The file in which a batch lies, and where."""
    segment = logs.log.segments.floor(offset)
    place = segment.find(offset)
    assert place is not None
    return Path(segment.path), place.position


def replica(tmp_path: Path, leader: Logs) -> Logs:
    """A follower that has all, on disk and known to be."""
    logs = Logs(tmp_path / "follower", config=CONFIG)
    follow(logs.log, leader.log)
    logs.log.flush()
    logs.save_recovery_points()
    logs.manager.checkpoint_high_watermarks()()
    return logs


def reopened(logs: Logs) -> PartitionLog:
    logs.manager = logs.new_manager()
    return logs.log


def goes_on(logs: Logs, leader: Logs) -> None:
    """Whether a log that was truncated becomes the leader's again.

    It must stay so, whoever opens it.
    """
    follow(logs.log, leader.log)
    is_like(logs.log, leader.log, COUNT)
    log = logs.restart(clean=False)
    assert not (logs.path / DAMAGED_OFFSETS).exists()
    is_like(log, leader.log, COUNT)
    assert offsets(log) == list(range(COUNT))
    logs.stop()
    leader.stop()
    assert files_of(logs) == files_of(leader)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", [0, 3, 8, 21, 22])
def test_a_follower_that_reopens_a_damaged_log_fetches_from_there_on(
    tmp_path: Path, lost: int, field: str, *, clean: bool
) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    path, position = place_of(logs, lost)
    (logs.stop if clean else logs.crash)()
    flip(path, position + FIELDS[field])
    log = reopened(logs)
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    read_all(log)
    assert log.log_end_offset == lost
    is_like(log, leader.log, log.log_end_offset)
    goes_on(logs, leader)


@pytest.mark.parametrize("lost", [0, 3, 8, 21, 23])
def test_a_follower_whose_reader_meets_damage_ends_its_log_there(tmp_path: Path, lost: int) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    log = logs.restart()
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    path, position = place_of(logs, lost)
    flip(path, position + FIELDS["record"])
    assert log.read(lost, 1 << 20, upper_bound=COUNT) is None
    with pytest.raises(KafkaError) as refused:
        log.read(lost + 1, 1 << 20, upper_bound=COUNT)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    is_like(log, leader.log, lost)
    goes_on(logs, leader)


def test_a_truncation_at_damage_is_not_cut_off_by_pages_that_are_to_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    log = logs.restart()
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    path, position = place_of(logs, 8)
    flip(path, position + FIELDS["record"])
    with monkeypatch.context() as patch:
        assert ColdPages(patch).read(log, 8) is None
    is_like(log, leader.log, 8)
    goes_on(logs, leader)


def test_what_lies_before_the_damage_is_read_when_it_is_found(tmp_path: Path) -> None:
    logs = replica(tmp_path, lead(tmp_path))
    log = logs.restart()
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    path, position = place_of(logs, 2)
    flip(path, position + FIELDS["record"])
    read = log.read(0, 1 << 20, upper_bound=COUNT)
    assert read is not None
    assert read.end_offset == log.log_end_offset == 2
    read.slice.release()


def test_a_log_that_was_served_around_damage_ends_there_when_another_leads(tmp_path: Path) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    path, position = place_of(logs, 8)
    logs.stop()
    flip(path, position + FIELDS["record"])
    log = reopened(logs)
    with pytest.raises(DamagedOffsetsError):
        log.read(8, 1 << 20, upper_bound=COUNT)
    assert log.log_end_offset == COUNT
    log = logs.restart()
    log.adopt_damage_policy(SERVE_AROUND)
    assert log.log_end_offset == COUNT
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    is_like(log, leader.log, 8)
    goes_on(logs, leader)


def cut_short(logs: Logs) -> int:
    path, position = place_of(logs, COUNT - 1)
    path.write_bytes(path.read_bytes()[:position])
    return COUNT - 1


def without_a_segment(logs: Logs) -> int:
    segment = list(logs.log.segments)[1]
    Path(segment.path).unlink()
    return segment.base_offset


def with_a_long_segment(logs: Logs) -> int:
    segment = list(logs.log.segments)[1]
    with Path(segment.path).open("ab") as file:
        file.write(b"\2" * 70)
    return list(logs.log.segments)[2].base_offset


@pytest.mark.parametrize("spoil", [cut_short, without_a_segment, with_a_long_segment])
def test_a_follower_fetches_again_what_is_missing(tmp_path: Path, spoil: Callable[[Logs], int]) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    lost = spoil(logs)
    logs.crash()
    log = reopened(logs)
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    read_all(log)
    is_like(log, leader.log, lost)
    goes_on(logs, leader)


def test_damage_further_down_that_producers_were_read_from_ends_the_log_there(tmp_path: Path) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    places = [place_of(logs, offset) for offset in (1, 15)]
    log = logs.restart()
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    for path in logs.path.glob("*.snapshot"):
        path.unlink()
    log.snapshots.delete_all()
    for path, position in places:
        flip(path, position + 8)
    with pytest.raises(KafkaError):
        log.read(15, 1 << 20, upper_bound=COUNT)
    is_like(log, leader.log, 1)
    goes_on(logs, leader)


def test_the_recovery_point_is_lower_on_disk_before_the_log_is_truncated(tmp_path: Path) -> None:
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    log = logs.restart()
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    path, position = place_of(logs, 8)
    flip(path, position + FIELDS["record"])
    logs.files.faults = [Fault("truncate", IO_ERROR, ".log")]
    with pytest.raises(StorageError):
        log.read(8, 1 << 20, upper_bound=COUNT)
    logs.files.faults = []
    assert read_offsets(logs.files, str(logs.path.parent / RECOVERY_POINTS))[TP] <= 8
    logs.crash()
    log = reopened(logs)
    is_like(log, leader.log, 8)
    goes_on(logs, leader)


def test_a_truncated_log_forgets_the_damage_that_it_had_there(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs.log, 12)
    logs.stop()
    flip(logs.path / f"{5:020d}.log", 170 * 2 + 100)
    log = reopened(logs)
    with pytest.raises(DamagedOffsetsError):
        log.read(7, 1 << 20, upper_bound=12)
    log.truncate_to(7)
    assert log.log_end_offset == 7
    fill(log, 5)
    assert offsets(log) == list(range(12))
    assert offsets(logs.restart(clean=False)) == list(range(12))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_rots_a_follower_becomes_as_its_leader_again(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    leader = lead(tmp_path)
    logs = replica(tmp_path, leader)
    chance.choice((logs.stop, logs.crash))()
    for _ in range(chance.randrange(1, 4)):
        spoil(chance.choice([logs.path / name for name in names(logs.path, ".log")]), chance)
    log = reopened(logs)
    if chance.random() < 0.5:
        with contextlib.suppress(DamagedOffsetsError):
            offsets(log)  # served around the damage, as long as it leads
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    read_all(log)
    is_like(log, leader.log, log.log_end_offset)
    goes_on(logs, leader)
