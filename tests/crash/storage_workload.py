"""Random operations of a log manager, and what must survive a crash at any moment.

`promises` has what was promised from which operation of the trace on: a flushed record is there, at its
offset. Any other record that is found must have been appended at that offset at some time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest import mock

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.records import Record, build_batch, decode_records
from kafkapy.protocol.types import TopicPartition, Uuid, random_uuid
from kafkapy.storage.directories import epoch_saves
from kafkapy.storage.directories.log_loading import RETRIES, Retries
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.virtual.disk_trace import TracingFiles
from tests.loop.turned_clock import START_MS, TurnedClock

CLUSTER = "cluster-of-crash-tests"
IN_FLIGHT = 4
"""Batches that a client sends before it waits for an answer; the log knows the last five again."""

CONFIG = LogConfig(
    segment_bytes=6000, index_interval_bytes=200, segment_index_bytes=800, file_delete_delay_ms=0
)
PRODUCER = 7


@dataclass(slots=True)
class Batch:
    """A batch as a client sent it, to be sent again."""

    data: bytes = field(repr=False)
    first_offset: int


@dataclass(slots=True)
class Model:
    """What was done to one log."""

    topic_id: Uuid
    leader_epoch: int = 0
    """The leader epoch in the cluster's metadata; it never falls, even if the log is truncated."""
    sequence: int = 0
    boundaries: dict[int, int] = field(default_factory=lambda: {0: 0})
    """Where batches begin, and the end, each with the sequence number that follows."""
    contents: dict[int, set[bytes]] = field(default_factory=dict)
    """Values ever appended at an offset."""
    start: int = 0
    flushed: int = 0
    end: int = 0
    last_flushed: Batch | None = None
    unflushed: list[Batch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Promise:
    """A log holds every offset from `start` to `end`, exclusive."""

    topic_id: Uuid = field(repr=False)
    start: int
    end: int
    last: Batch | None
    """The last batch; the log must recognize it as a duplicate if it is sent again."""


Promises = dict[TopicPartition, Promise]


def new_manager(files: TracingFiles, retries: Retries = RETRIES) -> LogManager:
    """A manager of the one log directory on a disk."""
    return LogManager(
        [f"{files.root}/data"], defaults=CONFIG, clock=TurnedClock(), files=files, retries=retries
    )


def load(manager: LogManager) -> None:
    """Load the logs."""
    manager.open()
    manager.load(CLUSTER, 1)


class Workload:
    """Runs random operations on a log manager."""

    retries = RETRIES

    def __init__(self, files: TracingFiles, chance: random.Random) -> None:
        self._files = files
        self._chance = chance
        self._models: dict[TopicPartition, Model] = {}
        self.contents: dict[Uuid, dict[int, set[bytes]]] = {}
        """Of each topic id, also of deleted ones."""
        self.promises: list[tuple[int, Promises]] = []
        self._manager: LogManager | None = None

    def run(self, steps: int) -> None:
        """Open, do `steps` random operations, among them clean restarts; end as a crash does."""
        self._promise()
        self._reopen()
        self._create()
        for action in self._actions(steps):
            action()
        self._logs.close(clean=False)

    def run_until_offline(self, steps: int) -> None:
        """Do the same on a disk that fails, until the log directory is offline."""
        self._promise()
        for action in [self._reopen, self._create, *self._actions(steps)]:
            try:
                action()
            except KafkaError:
                if self._logs.offline_dirs:
                    break
        self._logs.close(clean=False)

    def _actions(self, steps: int) -> list[Callable[[], None]]:
        actions = [
            (self._append, 40),
            (self._flush, 15),
            (self._checkpoint, 6),
            (self._roll, 3),
            (self._delete_records, 3),
            (self._retain, 2),
            (self._create, 2),
            (self._new_leader, 2),
            (self._delete, 1),
            (self._truncate, 1),
            (self._restart, 1),
        ]
        kinds, weights = zip(*actions, strict=True)
        return self._chance.choices(kinds, weights, k=steps)

    @property
    def _logs(self) -> LogManager:
        assert self._manager is not None
        return self._manager

    def _promise(self) -> None:
        """Note what is promised from now on."""
        promises = {
            tp: Promise(model.topic_id, model.start, model.flushed, model.last_flushed)
            for tp, model in self._models.items()
            if model.flushed > model.start
        }
        self.promises.append((len(self._files.trace), promises))

    def _pick(self) -> tuple[PartitionLog, Model] | None:
        if not self._models:
            return None
        tp = self._chance.choice(sorted(self._models))
        return self._log_of(tp), self._models[tp]

    def _log_of(self, tp: TopicPartition) -> PartitionLog:
        """Return the log; create it if that failed before, because the disk was full."""
        model, log = self._models[tp], self._logs.get(tp)
        if log is None:
            assert not model.sequence, f"{tp} is gone"  # an append that failed leaves no files either
            log = self._logs.create(tp, model.topic_id, CONFIG)
        return log

    def _reopen(self) -> None:
        self._manager = new_manager(self._files, self.retries)
        load(self._manager)
        for tp in self._models:
            self._log_of(tp)

    def _restart(self) -> None:
        self._logs.close()
        for model in self._models.values():
            self._settle(model, model.end)
        self._promise()
        self._reopen()

    def _create(self) -> None:
        tp = TopicPartition(self._chance.choice("abc"), self._chance.randrange(2))
        if tp not in self._models:
            topic_id = random_uuid()
            model = Model(topic_id)
            self._logs.create(tp, topic_id, CONFIG, new=True)
            self._models[tp] = model
            self.contents[topic_id] = model.contents

    def _delete(self) -> None:
        if len(self._models) > 1:
            tp = self._chance.choice(sorted(self._models))
            del self._models[tp]
            self._promise()
            self._logs.delete(tp)
            self._logs.delete_expired_files(2**62)

    def _append(self) -> None:
        if (picked := self._pick()) is None:
            return
        log, model = picked
        if len(model.unflushed) >= IN_FLIGHT:
            self._flush_log(log, model)
        values = [
            self._chance.randbytes(self._chance.randrange(1, 900))
            for _ in range(self._chance.randrange(1, 5))
        ]
        batch = bytes(
            build_batch(
                [Record(-1, START_MS, b"k", value) for value in values],
                producer_id=PRODUCER,
                producer_epoch=0,
                base_sequence=model.sequence,
            )
        )
        for offset, value in enumerate(values, log.log_end_offset):
            model.contents.setdefault(offset, set()).add(value)
        info = log.append(
            memoryview(bytearray(batch)),
            leader_epoch=model.leader_epoch,
            origin=AppendOrigin.CLIENT,
            now_ms=START_MS,
        )
        model.sequence += len(values)
        model.end = info.last_offset + 1
        model.boundaries[model.end] = model.sequence
        model.unflushed.append(Batch(batch, info.first_offset))

    def _settle(self, model: Model, flushed: int) -> None:
        model.flushed = flushed
        while model.unflushed and model.unflushed[0].first_offset < flushed:
            model.last_flushed = model.unflushed.pop(0)

    def _flush(self) -> None:
        if (picked := self._pick()) is not None:
            self._flush_log(*picked)

    def _flush_log(self, log: PartitionLog, model: Model) -> None:
        ticket = log.prepare_flush()
        if ticket is not None:
            try:
                ticket.run()
            except StorageError as error:
                log.abort_flush(ticket, error)
                raise
            log.complete_flush(ticket)
        log.advance_high_watermark(log.flushed_offset)
        self._settle(model, log.flushed_offset)
        self._promise()

    def _roll(self) -> None:
        if (picked := self._pick()) is not None:
            picked[0].roll()

    def _checkpoint(self) -> None:
        for write in (
            self._logs.checkpoint_recovery_points(),
            self._logs.checkpoint_log_start_offsets(),
            self._logs.checkpoint_high_watermarks(),
        ):
            with mock.patch.object(epoch_saves, "MANY", self._chance.choice((1, 100))):
                write()

    def _delete_records(self) -> None:
        if (picked := self._pick()) is not None:
            log, model = picked
            if log.high_watermark > model.start:
                model.start = self._chance.randrange(model.start, log.high_watermark + 1)
                self._promise()
                log.advance_log_start_offset(model.start)

    def _retain(self) -> None:
        if (picked := self._pick()) is not None:
            picked[0].delete_old_segments(START_MS)
            self._logs.delete_expired_files(2**62)

    def _new_leader(self) -> None:
        if (picked := self._pick()) is not None:
            log, model = picked
            model.leader_epoch += 1
            log.leader_epochs.assign(model.leader_epoch, log.log_end_offset)

    def _truncate(self) -> None:
        """As a follower does that finds other records on its leader."""
        if (picked := self._pick()) is None:
            return
        log, model = picked
        offset = self._chance.choice(
            [each for each in model.boundaries if each >= model.start] or [model.start]
        )
        model.flushed = min(model.flushed, offset)
        model.last_flushed, model.unflushed = None, []
        self._promise()
        log.truncate_to(offset)  # which changes nothing if the disk is full
        model.boundaries = {each: after for each, after in model.boundaries.items() if each <= offset}
        model.end = log.log_end_offset
        # As a client whose batches are gone. The log may have forgotten what is below its start offset, and a
        # recovery remembers it.
        model.sequence = model.boundaries[model.end]
        entry = log.producers.get(PRODUCER)
        assert entry is None or entry.last_sequence + 1 == model.sequence


def promised_at(promises: list[tuple[int, Promises]], operations: int) -> Promises:
    """Return what is promised after so many operations of the trace."""
    held: Promises = {}
    for since, promise in promises:
        if since > operations:
            break
        held = promise
    return held


def check_recovered(
    files: TracingFiles, promises: Promises, contents: dict[Uuid, dict[int, set[bytes]]]
) -> dict[TopicPartition, int]:
    """Load a log directory after a crash, check all promises, and return the end of each log."""
    manager = new_manager(files)
    try:
        load(manager)
        assert not manager.offline_dirs
        for tp, promise in promises.items():
            log = manager.get(tp)
            assert log is not None, f"{tp} is gone"
            assert log.topic_id in (promise.topic_id, None), f"{tp} has topic id {log.topic_id!r}"
            assert log.log_start_offset <= promise.start, f"{log} lost its start, {promise}"
            assert log.log_end_offset >= promise.end, f"{log} lost its end, {promise}"
        ends = {}
        for tp, log in manager.logs.items():
            log.advance_high_watermark(log.log_end_offset)
            # A part of a log that was being deleted may come back; nothing is promised about it.
            if tp in promises:
                log.check()
                ends[tp] = log.log_end_offset
                _check_records(log, promises[tp], contents[promises[tp].topic_id])
        for tp, promise in promises.items():
            if promise.last is not None:
                _check_retry(manager.logs[tp], promise.last)
        return ends
    finally:
        manager.close(clean=False)


def _check_records(log: PartitionLog, promise: Promise, contents: dict[int, set[bytes]]) -> None:
    found: set[int] = set()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, upper_bound=log.log_end_offset)
        assert read is not None, f"{log} holds nothing from {offset} on"
        data = read.slice.read()
        read.slice.release()
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            for record in decode_records(data[position : position + size]):
                assert record.value in contents.get(record.offset, ()), f"{log} invented {record.offset}"
                found.add(record.offset)
            position += size
        offset = read.end_offset
    missing = set(range(max(promise.start, log.log_start_offset), log.log_end_offset)) - found
    assert not missing, f"{log} has holes, {sorted(missing)[:10]}, {promise}"


def _check_retry(log: PartitionLog, batch: Batch) -> None:
    """Check that a batch that a client sends again is recognized."""
    try:
        info = log.append(
            memoryview(bytearray(batch.data)), leader_epoch=99, origin=AppendOrigin.CLIENT, now_ms=START_MS
        )
    except KafkaError as error:
        raise AssertionError(f"{log} refuses a batch it has: {error}") from error
    assert info.duplicate, f"{log} wrote a batch again"
    assert info.first_offset == batch.first_offset, f"{log} says {info}, {batch.first_offset} was promised"
