"""A random schedule of everything that happens to a share coordinator.

A model of its states runs beside it.

The model knows single offsets, and nothing of records, snapshots and updates. A request changes it when its
record is committed, or when the next leader finds the record in the log. So what is loaded must be the model,
whatever was deleted from the log, and what is in memory must be the model with the requests that wait.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import pytest

from kafkapy.coordination.errors import coordinator_error
from kafkapy.coordination.runtime import MAX_RETRY_SECONDS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.records import BatchHeader
from kafkapy.protocol.types import Uuid
from kafkapy.share.in_flight import RecordState
from kafkapy.share.share_coordinator import PRUNE_SECONDS
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import UNKNOWN, ShareState
from kafkapy.share.state_records import ShareKey
from kafkapy.storage.log.verification import Verification
from tests.groups.memory_log import MemoryLog
from tests.share.states_world import (
    MAX_UPDATES,
    PARTITIONS_OF_TOPIC,
    StatesWorld,
    initial,
    records_of,
    written,
)

STEPS: Final = 2000
OFTEN: Final = (
    ErrorCode.NONE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What requests are answered."""
LOADED_EVERY: Final = 20
"""The steps after which the log is read, which takes long."""
PARTITIONS: Final = 3
WRITE_SECONDS: Final = 5.0
"""How long a client waits for a commit."""


@dataclass(frozen=True)
class Model:
    """The state of a share partition."""

    start_offset: int
    state_epoch: int
    leader_epoch: int
    delivery_complete_count: int
    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The delivery count and state of each offset."""

    @classmethod
    def of(cls, state: ShareState) -> Model:
        epochs = state.state_epoch, state.leader_epoch
        model = cls(UNKNOWN, *epochs, UNKNOWN)
        return model.written(state.batches, state.start_offset, state.delivery_complete_count)

    def written(self, batches: Sequence[StoredBatch], start_offset: int, complete: int) -> Model:
        start = self.start_offset if start_offset == UNKNOWN else start_offset
        records = dict(self.records)
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                records[offset] = max(records.get(offset, (0, 0)), (count, int(state)))
        kept = {offset: rank for offset, rank in records.items() if offset >= start}
        return replace(self, start_offset=start, delivery_complete_count=complete, records=kept)


Change = Callable[[Model | None], Model | None]


@dataclass(eq=False)
class Asked:
    """What is asked for."""

    change: Change
    at: float = 0.0
    """The time, in seconds."""
    refusal: ErrorCode = ErrorCode.NONE
    """The error with which the log refuses it at once."""
    is_committed: bool = False
    is_in_time: bool = False
    """Whether it was committed while the client waited."""


class Expected(NamedTuple):
    """A request, its error, and what it changes if there is none."""

    request: Coroutine[Any, Any, object]
    error: ErrorCode
    change: Change | None


class SimulatedLog(MemoryLog):
    """A log that knows what the records in it stand for."""

    def __init__(self, chance: random.Random, now: Callable[[], float]) -> None:
        super().__init__(PARTITIONS)
        self.hold = True
        self.asked: Asked | None = None
        """What is written next; None if the coordinator decides it by itself."""
        self.committed: dict[int, dict[ShareKey, Model]] = defaultdict(dict)
        self.waiting: dict[int, list[tuple[ShareKey, Asked]]] = defaultdict(list)
        self._random = chance
        self._now = now
        self._changed = asyncio.Event()
        """Set when fewer appends wait; there is another one then."""

    def append(
        self,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        *,
        verification: Verification | None = None,
    ) -> ErrorCode | None:
        asked, self.asked = self.asked, None
        if asked is not None and asked.refusal:
            return asked.refusal
        ((_, key, value),) = records_of(batch)
        if asked is None:  # a topic was deleted, or a state has been without a snapshot for long
            asked = Asked(_nothing if value is None else _unchanged)
        self.waiting[partition].append((key, asked))
        return super().append(partition, header, batch, verification=verification)

    def is_empty(self, partition: int) -> bool:
        return super().is_empty(partition) and not self.waiting[partition]

    async def wait_for_commits(self, partition: int) -> int:
        while self.waiting[partition]:
            await self._changed.wait()
        return self.ends[partition]

    def commit(self) -> None:
        """Commit what waits longest."""
        asked = self._took(self._held[0][0])
        asked.is_in_time = self._now() < asked.at + WRITE_SECONDS
        self.release()

    def lose(self, partition: int, error: ErrorCode) -> None:
        """What waits in a partition fails; the first of it may be in the log all the same."""
        lost = [held for held in self._held if held[0] == partition]
        self._held = [held for held in self._held if held[0] != partition]
        for _, batch, _ in lost[: self._random.randint(0, len(lost))]:
            self.batches[partition].append(batch)
            self._took(partition)
        self.waiting[partition].clear()
        self._wake()
        for _, _, done in lost:
            done(error)

    def leadership_lost(self, partition: int) -> None:
        self.lose(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def in_memory(self, partition: int) -> dict[ShareKey, Model]:
        """What a coordinator that has all of a partition has: also what waits."""
        states = dict(self.committed[partition])
        for key, asked in self.waiting[partition]:
            _change(states, key, asked)
        return states

    def offsets(self, partition: int) -> set[int]:
        """The offsets of the records that are there, whether they are committed or not."""
        held = [batch for held, batch, _ in self._held if held == partition]
        return {offset for batch in (*self.batches[partition], *held) for offset, _, _ in records_of(batch)}

    def _took(self, partition: int) -> Asked:
        key, asked = self.waiting[partition].pop(0)
        _change(self.committed[partition], key, asked)
        asked.is_committed = True
        self._wake()
        return asked

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _nothing(model: Model | None) -> None:
    return None


def _unchanged(model: Model | None) -> Model | None:
    return model


def _change(states: dict[ShareKey, Model], key: ShareKey, asked: Asked) -> None:
    model = asked.change(states.get(key))
    if model is None:
        states.pop(key, None)
    else:
        states[key] = model


class Simulation:
    """Leaders and group coordinators ask, partitions move and fail, topics go, and time passes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = SimulatedLog(self.random, lambda: self.world.clock.monotonic())
        self.world = StatesWorld(self.log, leads=False)
        self.epochs = dict.fromkeys(range(PARTITIONS), 0)
        self.led: set[int] = set()
        self.topics: dict[str, Uuid] = {}
        self.deleted: list[Uuid] = []
        self.asking: dict[asyncio.Task[None], float] = {}
        """The requests that are not answered, with the time of each."""
        self.answers: Counter[ErrorCode] = Counter()

    async def run(self) -> None:
        await self.world.start()
        for name in "ab":
            self.topics[name] = self.world.topic(name, PARTITIONS_OF_TOPIC, self.random.randbytes(16))
        for partition in range(PARTITIONS):
            self.move(partition, leads=True)
        for step in range(STEPS):
            self.step()
            await asyncio.sleep(0)
            if self.random.random() < 0.005:
                await self.restart()
            if self.random.random() < 0.3:
                await self.world.settle()
            self.world.timers.advance(0)
            self.check()
            if step % LOADED_EVERY == 0:
                self.check_log()
        await self.converge()

    def step(self) -> None:
        roll, world = self.random.random(), self.world
        if roll < 0.5:
            self.ask()
        elif roll < 0.79:
            for _ in range(min(self.random.randint(1, 6), self.log.holds)):
                self.log.commit()
        elif roll < 0.83:
            world.timers.advance(self.random.choice((0.1, 2, 6)))
        elif roll < 0.87:
            for _ in range(self.random.choice((1, 1, 2, 3))):
                world.timers.advance(PRUNE_SECONDS)
        elif roll < 0.88:
            for partition in set(range(PARTITIONS)) - self.led:
                self.move(partition, leads=True)
        elif roll < 0.9:
            partition = self.random.randrange(PARTITIONS)
            self.move(partition, leads=partition not in self.led or self.random.random() < 0.2)
        elif roll < 0.93:
            errors = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR
            self.log.lose(self.random.randrange(PARTITIONS), self.random.choice(errors))
        elif roll < 0.96:
            self.ask(self.random.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        elif roll < 0.98:
            self.log.unreadable = self.random.choice((None, None, OSError(errno.EIO, "a disk")))
        elif roll < 0.985:
            name = self.random.choice("ab")
            self.deleted.append(self.topics[name])
            world.publish(world.image.with_topics(deleted=[name]))
            self.topics[name] = world.topic(name, PARTITIONS_OF_TOPIC, self.random.randbytes(16))

    def move(self, partition: int, *, leads: bool) -> None:
        """This broker becomes the leader of a partition, or another one does."""
        self.epochs[partition] += 1
        (self.led.add if leads else self.led.discard)(partition)
        epoch = self.epochs[partition]
        self.world.coordinator.leadership_changed(self.log.topic, partition, leads, epoch)

    async def restart(self) -> None:
        await self.world.restart()
        for partition in range(PARTITIONS):
            self.log.leadership_lost(partition)
        for partition in self.led:
            self.move(partition, leads=True)

    # --- requests -------------------------------------------------------------------------------------

    def ask(self, refusal: ErrorCode = ErrorCode.NONE) -> None:
        """Ask for something, which the log refuses if there is a `refusal`."""
        topics = [*self.topics.values()] * 10 + self.deleted[-1:]
        key = ShareKey(
            self.random.choice("gh"),
            self.random.choice(topics),
            self.random.randrange(PARTITIONS_OF_TOPIC),
        )
        works = *[self.initialize] * 3, self.read, self.read
        work = self.random.choice((*works, *[self.write] * 10))
        if self.random.random() < 0.02:
            work = self.delete
        self.asking[asyncio.ensure_future(self._ask(key, work, refusal))] = self.world.clock.monotonic()

    async def _ask(
        self, key: ShareKey, work: Callable[[ShareKey, Model | None], Expected], refusal: ErrorCode
    ) -> None:
        """Ask, and assert that the answer is right."""
        world, runtime = self.world, self.world.coordinator.runtime
        partition = runtime.partition_of(key.coordinator_key)
        request, error, change = work(key, self.log.in_memory(partition).get(key))
        if not runtime.is_active(key.coordinator_key):
            error = ErrorCode.NOT_COORDINATOR
        elif key.topic_id in self.deleted and not (error and work in (self.read, self.write)):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asked = None
        if error is ErrorCode.NONE and change is not None:
            asked = self.log.asked = Asked(change, world.clock.monotonic(), refusal)
        answer = await world.error_of(request)
        if asked is None:
            is_loading = answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and partition in self.led
            assert answer is (ErrorCode.NOT_COORDINATOR if is_loading else error)
        elif refusal:
            assert answer is coordinator_error(refusal)
        elif answer is ErrorCode.NONE:
            assert asked.is_committed
        else:
            assert answer in (
                ErrorCode.COORDINATOR_NOT_AVAILABLE,  # not in time
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            )
            assert not asked.is_in_time
        self.answers[answer] += 1

    def initialize(self, key: ShareKey, model: Model | None) -> Expected:
        offset, epoch = (
            self.random.choice((UNKNOWN, 0, 50)),
            self.epoch_near(model.state_epoch if model else 0),
        )
        if model is None:
            epoch = max(epoch, 0)
        request = self.world.coordinator.initialize(key, initial(offset, state_epoch=epoch))
        if model is not None and UNKNOWN != epoch < model.state_epoch:
            return Expected(request, ErrorCode.FENCED_STATE_EPOCH, None)

        def change(before: Model | None) -> Model:
            epochs = (epoch, 0) if before is None else (max(epoch, before.state_epoch), before.leader_epoch)
            return Model(offset, *epochs, UNKNOWN if offset == UNKNOWN else 0)

        return Expected(request, ErrorCode.NONE, change)

    def write(self, key: ShareKey, model: Model | None) -> Expected:
        leader_epoch = self.epoch_near(model.leader_epoch if model else 0)
        state_epoch = self.epoch_near(model.state_epoch if model else 0)
        low = 0 if model is None else max(model.start_offset, 0)
        start = self.random.choice((UNKNOWN, low, low + self.random.randint(0, 8)))
        complete = self.random.randint(0, 9)
        batches = []
        for _ in range(self.random.randint(0, 3)):
            first = low + self.random.randint(0, 20)
            state, count = self.random.choice(list(RecordState)), self.random.randint(1, 5)
            batches.append(StoredBatch(first, first + self.random.randint(0, 4), state, count))
        said = written(
            *batches,
            start_offset=start,
            leader_epoch=leader_epoch,
            state_epoch=state_epoch,
            delivery_complete_count=complete,
        )
        request = self.world.coordinator.write(key, said)
        if model is None:
            return Expected(request, ErrorCode.INVALID_REQUEST, None)
        if UNKNOWN != leader_epoch < model.leader_epoch:
            return Expected(request, ErrorCode.FENCED_LEADER_EPOCH, None)
        if UNKNOWN != state_epoch < model.state_epoch:
            return Expected(request, ErrorCode.FENCED_STATE_EPOCH, None)
        return Expected(
            request, ErrorCode.NONE, lambda before: before and before.written(batches, start, complete)
        )

    def read(self, key: ShareKey, model: Model | None) -> Expected:
        epoch = self.epoch_near(model.leader_epoch if model else 0)

        async def request() -> None:
            state = await self.world.coordinator.read(key, epoch)
            assert Model.of(state) == model

        if model is None:
            return Expected(request(), ErrorCode.INVALID_REQUEST, None)
        if UNKNOWN != epoch < model.leader_epoch:
            return Expected(request(), ErrorCode.FENCED_LEADER_EPOCH, None)
        if epoch in (UNKNOWN, model.leader_epoch):
            return Expected(request(), ErrorCode.NONE, None)
        return Expected(
            request(), ErrorCode.NONE, lambda before: before and replace(before, leader_epoch=epoch)
        )

    def delete(self, key: ShareKey, model: Model | None) -> Expected:
        request = self.world.coordinator.delete(key)
        return Expected(request, ErrorCode.NONE, None if model is None else _nothing)

    def epoch_near(self, epoch: int) -> int:
        """An epoch that is known, or somewhat older or newer."""
        return self.random.choice((UNKNOWN, *[max(epoch, 0)] * 6, *[max(epoch, 0) + 1] * 2, 0))

    # --- invariants -----------------------------------------------------------------------------------

    def check(self) -> None:
        """What is in memory is what was decided, and nothing else is there."""
        for task in [task for task in self.asking if task.done()]:
            del self.asking[task]
            task.result()
        now = self.world.clock.monotonic()
        assert all(now < at + WRITE_SECONDS for at in self.asking.values()), "nobody waits for longer"
        assert self.log.asked is None, "what is decided is written"
        runtime = self.world.coordinator.runtime
        for partition in range(PARTITIONS):
            states = self.in_memory(partition)
            if partition in runtime.active_partitions:
                assert partition in self.led
                models = {key: Model.of(state) for key, state in states.items()}
                assert models == self.log.in_memory(partition)
                assert all(state.updates <= MAX_UPDATES for state in states.values())
            else:
                assert not states
            assert partition in self.led or not self.log.waiting[partition]

    def check_log(self) -> None:
        """What is loaded is what is committed, whatever was deleted."""
        for partition in range(PARTITIONS):
            stored = {key: Model.of(state) for key, state in self.world.stored(partition).items()}
            assert stored == self.log.committed[partition]
            offsets = self.log.offsets(partition)
            for key, state in self.in_memory(partition).items():
                assert state.snapshot_offset in offsets, f"{key} has lost its snapshot"

    def in_memory(self, partition: int) -> dict[ShareKey, ShareState]:
        runtime = self.world.coordinator.runtime
        found = self.world.coordinator.states.items()
        return {key: state for key, state in found if runtime.partition_of(key.coordinator_key) == partition}

    def commit_all(self) -> None:
        while self.log.holds:
            self.log.commit()

    async def converge(self) -> None:
        """Without further trouble all requests are answered, and old records go."""
        log, world = self.log, self.world
        log.unreadable = None
        for partition in set(range(PARTITIONS)) - self.led:
            self.move(partition, leads=True)
        for _ in range(10):
            self.commit_all()
            await world.advance(MAX_RETRY_SECONDS)
        assert world.coordinator.runtime.active_partitions == list(range(PARTITIONS))
        self.check()
        self.check_log()
        for _ in range(100):
            self.ask()  # or the log has nothing new, and nothing is deleted
            await asyncio.sleep(0)
            self.commit_all()
            await world.settle()
        self.check()
        assert not self.asking
        for _ in range(5):
            await world.advance(PRUNE_SECONDS)
            self.commit_all()
        for partition in range(PARTITIONS):
            states = self.in_memory(partition)
            assert all(key.topic_id in self.topics.values() for key in states)
            if states:
                assert len(world.records(partition)) <= 2 * len(states), "old records are deleted"
        self.check_log()


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_loaded_is_what_was_committed(seed: int) -> None:
    simulation = Simulation(seed)
    await simulation.run()
    assert all(simulation.answers[error] for error in OFTEN), "the schedule is a schedule of everything"
    await simulation.world.coordinator.stop()
