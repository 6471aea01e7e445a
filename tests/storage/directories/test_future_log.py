"""A log moves to another log directory.

What the copy holds is tested, and what a crash at any moment leaves.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.records import Record, build_batch
from kafkapy.storage.damage.policy import TRUNCATE_AND_REFETCH
from kafkapy.storage.directories.future_log import REPLACES, FutureLog
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import DiskFullError, StorageError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.virtual.disk_trace import Disk, TracingFiles
from tests.crash.hooked_files import HookedFiles
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.storage.cleaning.harness import compact_fully, records_of
from tests.storage.descriptors import open_below
from tests.storage.log_harness import (
    IO_ERROR,
    NO_SPACE,
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
    records_in,
    values,
)

EVERY = int(os.environ.get("KAFKAPY_CRASH_EVERY", "8"))
"""Of the changes while a copy is made, one in so many; of those when it takes over, each."""

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=400)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path, dirs=("a", "b"), config=CONFIG)


def start(manager: LogManager) -> FutureLog:
    """Begin to move TP to the other directory."""
    log = manager.logs[TP]
    target = next(each for each in manager.directories if each is not log.log_directory)
    return FutureLog(log, manager.moves.create_copy(TP, target))


def catch_up(move: FutureLog) -> None:
    while (piece := move.next_piece()) is not None:
        try:
            move.write(piece)
        finally:
            piece.release()


def take_over(manager: LogManager, move: FutureLog) -> None:
    """All of the rest of a move."""
    catch_up(move)
    move.sync()
    move.mark()
    manager.moves.take_over(move)
    manager.logs[TP].flush()
    manager.moves.delete_replaced(TP)()


# --- what the copy holds -----------------------------------------------------------------------------------


def test_a_log_that_is_truncated_at_damage_meanwhile_is_copied_up_to_there(logs: Logs) -> None:
    fill(logs.log, 60)
    log = logs.restart()
    log.adopt_damage_policy(TRUNCATE_AND_REFETCH)
    segment = log.segments.floor(33)
    place = segment.find(33)
    assert place is not None
    data = bytearray(Path(segment.path).read_bytes())
    data[place.position + 80] ^= 1
    Path(segment.path).write_bytes(data)
    move = start(logs.manager)
    catch_up(move)
    assert move.copy.log_end_offset == log.log_end_offset == 33
    assert read_bytes(move.copy) == read_bytes(log)


def test_a_moved_log_holds_the_same_bytes(logs: Logs, tmp_path: Path) -> None:
    fill(logs.log, 60)
    logs.log.leader_epochs.assign(3, 60)
    before = read_bytes(logs.log)
    take_over(logs.manager, start(logs.manager))
    log = logs.log
    assert log.directory == tmp_path / "b" / "events-0"
    assert read_bytes(log) == before
    assert (log.high_watermark, log.log_end_offset, log.flushed_offset) == (60, 60, 60)
    assert log.end_offset_for_epoch(3) == (3, 60)
    log.check()
    assert len(names(tmp_path / "a", "-delete")) == 1
    assert REPLACES not in names(tmp_path / "b" / "events-0")
    for clean in (True, False):
        log = logs.restart(clean=clean)
        assert log.directory == tmp_path / "b" / "events-0"
        assert read_bytes(log) == before


def test_a_log_that_has_no_files_yet_moves(logs: Logs, tmp_path: Path) -> None:
    assert logs.log.new_files is not None
    take_over(logs.manager, start(logs.manager))
    log = logs.log
    assert log.directory == tmp_path / "b" / "events-0"
    assert [name for name in names(tmp_path / "a") if name.startswith("events")] == []
    assert logs.manager.without_files(10) == []
    fill(log, 3)
    assert offsets(logs.restart(clean=False)) == [0, 1, 2]


def test_the_copy_follows_what_is_written_meanwhile(logs: Logs) -> None:
    fill(logs.log, 30)
    move = start(logs.manager)
    catch_up(move)
    fill(logs.log, 30)
    assert logs.log.log_end_offset - move.copy.log_end_offset == 30
    take_over(logs.manager, move)
    assert offsets(logs.log) == list(range(60))
    fill(logs.log, 5)
    assert offsets(logs.log) == list(range(65))


def test_old_records_are_read_from_a_copy_that_went_on_after_a_restart(logs: Logs) -> None:
    fill(logs.log, 10)
    move = start(logs.manager)
    catch_up(move)
    move.sync()
    log = logs.restart(clean=False)
    again = FutureLog(log, logs.manager.moves.copies[TP])
    again.resume()
    take_over(logs.manager, again)
    for epoch in (1, 2):
        append(logs.log, batch(b"x"), leader_epoch=epoch)
    assert offsets(logs.log) == list(range(12))


def test_producers_are_known_after_a_move(logs: Logs) -> None:
    first = batch(b"a", b"b", producer_id=9, epoch=0, sequence=0)
    append(logs.log, bytearray(first))
    take_over(logs.manager, start(logs.manager))
    assert append(logs.log, bytearray(first)).duplicate
    append(logs.log, batch(b"c", producer_id=9, epoch=0, sequence=2))
    log = logs.restart(clean=False)
    assert append(log, bytearray(first)).duplicate


def test_a_copy_begins_with_the_batch_that_holds_the_log_start_offset(logs: Logs) -> None:
    log = logs.log
    for _ in range(4):
        append(log, batch(b"a", b"b", b"c"))
    log.advance_high_watermark(12)
    log.advance_log_start_offset(4)
    move = start(logs.manager)
    take_over(logs.manager, move)
    assert (logs.log.log_start_offset, logs.log.log_end_offset) == (4, 12)
    assert offsets(logs.log) == list(range(3, 12))
    assert logs.restart(clean=False).log_start_offset in (3, 4)


def test_a_copy_that_retention_overtook_begins_anew(logs: Logs) -> None:
    fill(logs.log, 30)
    move = start(logs.manager)
    piece = move.next_piece()
    assert piece is not None
    move.write(piece)
    piece.release()
    fill(logs.log, 60)
    logs.log.advance_log_start_offset(80)
    logs.log.delete_old_segments(logs.clock.now_ms())
    take_over(logs.manager, move)
    assert logs.log.log_start_offset == 80
    assert offsets(logs.log) == list(range(80, 90))


def test_an_empty_log_moves_and_so_does_one_without_records_left(logs: Logs) -> None:
    assert logs.log.log_end_offset == 0
    take_over(logs.manager, start(logs.manager))
    fill(logs.log, 10)
    logs.log.advance_log_start_offset(10)
    logs.log.roll()
    logs.log.delete_old_segments(logs.clock.now_ms())
    take_over(logs.manager, start(logs.manager))
    assert (logs.log.log_start_offset, logs.log.log_end_offset) == (10, 10)
    fill(logs.log, 2)
    assert offsets(logs.restart(clean=False)) == [10, 11]


def test_aborted_transactions_move_along(logs: Logs) -> None:
    log = logs.log
    append(log, batch(b"x", producer_id=5, epoch=0, sequence=0, transactional=True))

    key, value = struct.pack("!hh", 0, 0), struct.pack("!hi", 0, 7)  # ABORT
    marker = build_batch(
        [Record(key=key, value=value)], producer_id=5, producer_epoch=0, transactional=True, control=True
    )
    append(log, marker, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    before = log.aborted_transactions(0, 2)
    assert len(before) == 1
    take_over(logs.manager, start(logs.manager))
    assert logs.log.aborted_transactions(0, 2) == before
    assert logs.log.last_stable_offset == 2


def test_a_name_without_room_for_the_suffix_is_refused(logs: Logs) -> None:
    long = TP._replace(topic="t" * 240)
    logs.manager.create(long, TOPIC_ID, CONFIG, new=True)
    with pytest.raises(KafkaError, match="too long"):
        logs.manager.moves.create_copy(long, logs.manager.directories[1])


# --- restarts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_an_interrupted_move_goes_on_where_it_was(logs: Logs, clean: bool) -> None:
    fill(logs.log, 40)
    logs.log.flush()
    move = start(logs.manager)
    catch_up(move)
    move.sync()
    log = logs.restart(clean=clean)
    copy = logs.manager.moves.copies[TP]
    assert copy.log_end_offset == 40
    again = FutureLog(log, copy)
    again.resume()
    assert copy.log_end_offset == 40
    fill(log, 3)
    take_over(logs.manager, again)
    assert offsets(logs.log) == list(range(43))


def test_a_copy_that_knows_more_than_its_log_is_cut(logs: Logs) -> None:
    log = logs.log
    for epoch, count in ((0, 5), (1, 5), (2, 5)):
        for _ in range(count):
            append(log, batch(b"x"), leader_epoch=epoch)
    move = start(logs.manager)
    catch_up(move)
    log.truncate_to(7)
    for _ in range(4):
        append(log, batch(b"y"), leader_epoch=3)
    move.resume()
    assert move.copy.log_end_offset == 7
    catch_up(move)
    assert values(records_in(read_bytes(move.copy))) == [b"x"] * 7 + [b"y"] * 4


def test_no_file_of_a_copy_is_closed_under_the_hands_of_the_thread_that_writes_it(logs: Logs) -> None:
    open_files = logs.manager.files.open_files
    open_files.serve_this_thread()
    fill(logs.log, 30)
    move = start(logs.manager)
    with ThreadPoolExecutor(1) as thread:
        while (piece := move.next_piece()) is not None:
            thread.submit(move.write, piece).result()
            piece.release()
    append(logs.log, batch(b"last"))
    piece = move.next_piece()
    assert piece is not None
    move.write(piece)
    piece.release()
    move.hand_over()
    logs.log.close_files()
    assert len(open_files) == 0


def test_a_copy_of_a_compacted_log_is_made_anew(logs: Logs) -> None:
    fill(logs.log, 5)
    logs.log.config = LogConfig(cleanup_policy=frozenset({"compact"}))
    move = start(logs.manager)
    catch_up(move)
    move.resume()
    assert move.copy.log_end_offset == 0
    catch_up(move)
    assert move.copy.log_end_offset == 5


def test_the_copy_of_a_compacted_log_has_no_gaps_that_look_like_losses(logs: Logs) -> None:
    log = logs.log
    logs.config = log.config = replace(CONFIG, cleanup_policy=frozenset({"compact"}))
    chance = random.Random(1)
    for _ in range(400):
        record = Record(-1, START_MS, b"key-%d" % chance.randrange(120), b"v" * chance.randrange(30, 200))
        append(log, build_batch([record]))
    log.advance_high_watermark(log.log_end_offset)
    compact_fully(logs.manager, log)
    before = records_of(log)
    move = start(logs.manager)
    move.piece_bytes = 300
    take_over(logs.manager, move)
    assert len(logs.log.segments) > 2
    log = logs.restart(clean=False)
    assert records_of(log) == before


def test_a_damaged_copy_goes(logs: Logs, tmp_path: Path) -> None:
    fill(logs.log, 40)
    move = start(logs.manager)
    catch_up(move)
    move.sync()
    path = Path(move.copy.path)
    logs.save_recovery_points()
    logs.crash()
    for segment in path.glob("*.log"):
        segment.write_bytes(bytes(segment.stat().st_size))
    logs.manager = logs.new_manager()
    assert TP not in logs.manager.moves.copies
    assert offsets(logs.log) == list(range(40))
    assert not path.exists()


def test_a_copy_takes_the_place_of_a_log_that_is_nowhere(logs: Logs, tmp_path: Path) -> None:
    fill(logs.log, 40)
    move = start(logs.manager)
    catch_up(move)
    move.sync()
    logs.crash()
    shutil.rmtree(tmp_path / "a")
    meta = tmp_path / "b" / "meta.properties"
    kept = [line for line in meta.read_text().splitlines() if not line.endswith("/a")]
    meta.write_text("\n".join(kept))
    logs.manager = logs.new_manager()
    logs.manager.moves.promote(TP, bytes(16))
    assert TP in logs.manager.moves.copies
    logs.manager.moves.promote(TP, TOPIC_ID)
    assert offsets(logs.log) == list(range(40))
    assert logs.log.directory == tmp_path / "b" / "events-0"


# --- failing disks -----------------------------------------------------------------------------------------


def test_a_full_target_leaves_the_log_where_it_is(logs: Logs) -> None:
    fill(logs.log, 20)
    move = start(logs.manager)
    logs.files.faults = [Fault("write", NO_SPACE, ".log")]
    with pytest.raises(DiskFullError):
        catch_up(move)
    logs.files.faults = []
    take_over(logs.manager, move)
    assert offsets(logs.log) == list(range(20))


def test_a_target_that_fails_takes_only_the_copy_along(logs: Logs, tmp_path: Path) -> None:
    fill(logs.log, 20)
    move = start(logs.manager)
    logs.files.faults = [Fault("write", IO_ERROR, ".log", times=1)]
    with pytest.raises(StorageError):
        catch_up(move)
    logs.manager.moves.delete_copy(TP)
    assert logs.manager.offline_dirs == [tmp_path / "b"]
    fill(logs.log, 1)
    assert offsets(logs.log) == list(range(21))
    with pytest.raises(StorageError):
        start(logs.manager)


def test_a_source_that_fails_last_of_all_loses_nothing(logs: Logs, tmp_path: Path) -> None:
    fill(logs.log, 20)
    move = start(logs.manager)
    catch_up(move)
    move.sync()
    move.mark()
    logs.manager.moves.take_over(move)
    fill(logs.log, 5)
    logs.log.flush()
    logs.files.faults = [Fault("rename", IO_ERROR, "-delete")]
    logs.manager.moves.delete_replaced(TP)()
    assert logs.manager.offline_dirs == [tmp_path / "a"]
    assert not [path for path in open_below(tmp_path / "a") if path.endswith(".log")]
    logs.files.faults = []
    log = logs.restart(clean=False)
    assert log.directory == tmp_path / "b" / "events-0"
    assert offsets(log) == list(range(25))
    assert len(names(tmp_path / "a", "-delete")) == 1


def test_two_logs_of_a_partition_without_a_mark_are_the_operators_matter(logs: Logs, tmp_path: Path) -> None:
    fill(logs.log, 2)
    logs.stop()
    shutil.copytree(tmp_path / "a" / "events-0", tmp_path / "b" / "events-0")
    with pytest.raises(LogDirectoryError, match="in both"):
        logs.new_manager()


# --- crashes at every change -------------------------------------------------------------------------------


class Died(BaseException):
    """The process is gone."""


class Story:
    """A move from `a` to `b`, with records before, during and after it.

    What was acknowledged is noted.
    """

    def __init__(self, files: FileSystem, root: Path) -> None:
        self._files = files
        self.root = root
        self.acknowledged: list[tuple[int, int]] = []
        """How many changes there were, and the offset below which all was acknowledged from then on."""
        self.phase = ""

    def manager(self) -> LogManager:
        manager = LogManager(
            [self.root / "a", self.root / "b"], defaults=CONFIG, clock=TurnedClock(), files=self._files
        )
        manager.open()
        manager.load("a-cluster", 1)
        return manager

    def run(self) -> None:
        manager = self.manager()
        self.phase = "copying"
        try:
            log = manager.create(TP, TOPIC_ID, CONFIG, new=True)
            self._write(log, 25)
            self._acknowledge(log)
            move = start(manager)
            catch_up(move)
            self._write(log, 5)
            self._acknowledge(log)
            for write in (manager.checkpoint_recovery_points(), manager.checkpoint_log_start_offsets()):
                write()
            catch_up(move)
            move.sync()
            self.phase = "taking over"
            move.mark()
            self._write(log, 2)
            catch_up(move)
            manager.moves.take_over(move)
            log = manager.logs[TP]
            self._write(log, 2)
            log.flush()
            settle = manager.moves.delete_replaced(TP)
            self._acknowledge(log)
            settle()
            self._write(log, 3)
            self._acknowledge(log)
        finally:
            manager.close(clean=False)

    def _write(self, log: PartitionLog, count: int) -> None:
        for _ in range(count):
            append(log, batch(b"%d" % log.log_end_offset + b"." * 90))

    def _acknowledge(self, log: PartitionLog) -> None:
        log.flush()
        log.advance_high_watermark(log.log_end_offset)
        if isinstance(self._files, TracingFiles):
            self.acknowledged.append((len(self._files.trace), log.log_end_offset))

    def check(self, changes: int) -> None:
        """Start after a crash that follows so many changes, continue the move, and start again."""
        promised = max((end for since, end in self.acknowledged if since <= changes), default=0)
        end = 0
        for _ in range(2):
            manager = self.manager()
            try:
                log = manager.get(TP)
                if log is None:
                    assert promised == 0
                    return
                log.check()
                assert log.log_end_offset >= max(promised, end), (log, promised, end)
                found = records_in(read_bytes(log))
                assert [record.offset for record in found] == list(range(log.log_end_offset))
                assert all(
                    record.value is not None and int(record.value.rstrip(b".")) == record.offset
                    for record in found
                )
                log.advance_high_watermark(log.log_end_offset)
                if TP in manager.moves.copies:
                    move = FutureLog(log, manager.moves.copies[TP])
                    move.resume()
                    take_over(manager, move)
                end = manager.logs[TP].log_end_offset
            finally:
                manager.close(clean=False)
        assert not list(self.root.glob(f"*/events-0/{REPLACES}"))
        assert len(list(self.root.glob("*/events-0"))) == 1


def dying_at(root: Path, number: int, when: str) -> tuple[Story, list[str]]:
    """A story that ends before or after a change, and the phase of each change it made."""
    root.mkdir()
    made: list[str] = []

    def hook(_: str) -> None:
        if story.phase:
            made.append(story.phase)
            if len(made) == number:
                raise Died

    files = HookedFiles(root, before=hook) if when == "before" else HookedFiles(root, after=hook)
    story = Story(files, root)
    return story, made


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_at_any_change_of_a_move_has_lost_nothing(tmp_path: Path, when: str) -> None:
    story, made = dying_at(tmp_path / "whole", -1, when)
    story.run()
    points = [n for n, phase in enumerate(made, 1) if phase == "taking over" or n % EVERY == 0]
    story.check(10**9)
    for number in points:
        story, _ = dying_at(tmp_path / f"at-{number}", number, when)
        with pytest.raises(Died):
            story.run()
        after = Story(TracingFiles(story.root), story.root)
        after.acknowledged = story.acknowledged
        after.check(10**9)
        shutil.rmtree(story.root)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_any_change_of_a_move_loses_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = tmp_path / "whole"
    whole.mkdir()
    files = TracingFiles(whole)
    story = Story(files, whole)
    story.run()
    for changes in range(seed, len(files.trace) + 1, 3):
        disk = Disk()
        disk.play(files.trace[:changes])
        root = tmp_path / f"cut-{changes}"
        disk.lose_power(root, chance)
        after = Story(TracingFiles(root), root)
        after.acknowledged = story.acknowledged
        after.check(changes)
        shutil.rmtree(root)
