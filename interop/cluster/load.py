"""Clients of a cluster under faults, and all that they see.

They are idempotent producers, a reader and a consumer group.

The clients run in threads and write one history (tests/promises). While faults are there, a leader or
coordinator that was deposed and does not know it yet may answer a client with an old end or an old commit, as
in Apache Kafka. So ends and commits are asked for when all is healed.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.crash.load import RECONNECT, RecordingProducer, random_value
from tests.promises.history import (
    Acked,
    CommitAcked,
    CommitSent,
    Event,
    History,
    Partition,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
    checksum_of,
)

GROUP: Final = "readers"
_BURST: Final = 10
_BURST_PAUSE: Final = 0.05
_COMMIT_SECONDS: Final = 0.5
_PATIENCE: Final[dict[str, dict[str, str | int | bool]]] = {
    "patient": {"message.timeout.ms": 180_000},
    "hasty": {"message.timeout.ms": 180_000, "request.timeout.ms": 3000, "socket.timeout.ms": 5000},
}
"""Settings of the two producers: one waits for an answer, one sends again what may be written."""
_STUCK_SECONDS: Final = 20.0
"""The reader begins again where it is if a partition gave it nothing for so long.

librdkafka 2.16 may forget a partition whose offset it validates while the leader's broker leaves the cluster:
the request fails with _DESTROY_BROKER, and is not sent to the next leader.
"""
_PASSING: Final = {
    KafkaError._PARTITION_EOF,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,  # of a request for committed offsets, which is sent again
    KafkaError._MAX_POLL_EXCEEDED,  # a member that waits for its coordinator to commit does not poll
}


def client_logger(path: Path) -> logging.Logger:
    """A logger that writes what the clients say to a file."""
    logger = logging.getLogger(str(path))
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    return logger


def _told(logger: logging.Logger, debug: str) -> dict[str, Any]:
    """The settings with which a client tells about these parts of itself."""
    return {"debug": debug, "log_level": 7, "logger": logger}


class TimedHistory(list[Event]):
    """A history of several threads, with the time of each event.

    `times` are of the monotonic clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self._lock = threading.Lock()

    def append(self, event: Event) -> None:
        with self._lock:
            super().append(event)
            self.times.append(time.monotonic())

    def acks_between(self, start: float, end: float) -> int:
        """How many records were acknowledged."""
        return sum(len(times) for times in self._ack_times(start, end).values())

    def longest_pauses(self, start: float, end: float) -> dict[Partition, float]:
        """The longest time without an acknowledgement, of each partition that was written to."""
        return {
            partition: max(after - before for before, after in itertools.pairwise([start, *times, end]))
            for partition, times in self._ack_times(start, end).items()
        }

    def _ack_times(self, start: float, end: float) -> dict[Partition, list[float]]:
        places: dict[tuple[str, int], Partition] = {}
        times: dict[Partition, list[float]] = {}
        for event, at in zip(self, self.times, strict=False):
            if isinstance(event, Sent):
                places[event.producer, event.number] = event.partition
                times.setdefault(event.partition, [])
            elif isinstance(event, Acked) and start <= at < end:
                times[places[event.producer, event.number]].append(at)
        return times


class _Client(threading.Thread, ABC):
    """A thread that ends when `stopping` is set; an error of it is raised by `end`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def work(self) -> None:
        """Do the work until `stopping` is set."""

    def end(self, timeout: float = 90) -> None:
        self.stopping.set()
        self.join(timeout)
        if self.error is not None:
            raise self.error
        assert not self.is_alive(), f"{self.name} hangs"


class _ProducerThread(_Client):
    def __init__(
        self,
        name: str,
        servers: str,
        history: History,
        partitions: list[Partition],
        seed: int,
        logger: logging.Logger,
    ) -> None:
        super().__init__(name)
        more = {**_PATIENCE[name], **_told(logger, "eos")}
        self.producer = RecordingProducer(name, servers, history, idempotent=True, more=more)
        self._partitions, self._chance = partitions, random.Random(seed)

    def work(self) -> None:
        while not self.stopping.wait(_BURST_PAUSE):
            for _ in range(_BURST):
                self.producer.send(self._chance.choice(self._partitions), random_value(self._chance, 2000))
            self.producer.poll()
        self.producer.flush()


class _Consuming(_Client):
    """Notes what a consumer is given."""

    def __init__(
        self,
        name: str,
        servers: str,
        history: History,
        logger: logging.Logger,
        **settings: str | int | bool,
    ) -> None:
        super().__init__(name)
        self.history = history
        self.errors: dict[str, int] = {}
        """Errors that a consumer handed out instead of records, and how often."""
        self.positions: dict[Partition, int] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "check.crcs": True,
                **RECONNECT,
                **_told(logger, "cgrp,metadata"),
                **settings,
            }
        )

    def note(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() not in _PASSING:
                text = f"{error.name()}: {error.str()}"
                self.errors[text] = self.errors.get(text, 0) + 1
            return
        place, offset, key = (
            (str(message.topic()), int(message.partition() or 0)),
            message.offset(),
            message.key(),
        )
        assert key is not None
        assert offset is not None
        if place not in self.positions or self.restarts(place, offset):
            self.begin(place, offset)
        self.positions[place] = offset + 1
        producer, _, number = key.decode().rpartition(":")
        checksum = checksum_of(key, message.value() or b"")
        self.history.append(Read(self.reader(), place, offset, producer, int(number), checksum))

    def restarts(self, place: Partition, offset: int) -> bool:
        """Whether the client begins again by itself."""
        return False

    def begin(self, place: Partition, offset: int) -> None:
        self.history.append(ReadFrom(self.reader(), place, offset))

    def reader(self) -> str:
        return self.name


class _Reader(_Consuming):
    """Reads everything from the start, without a group."""

    def __init__(
        self, servers: str, history: History, partitions: list[Partition], logger: logging.Logger
    ) -> None:
        super().__init__("reader", servers, history, logger, **{"auto.offset.reset": "error"})
        for place in partitions:
            self.positions[place] = 0
            self.begin(place, 0)

    def work(self) -> None:
        due, before = 0.0, self.positions.copy()
        while not self.stopping.is_set():
            if time.monotonic() >= due:
                if any(position == before[place] for place, position in self.positions.items()):
                    self.consumer.assign([TopicPartition(*place, at) for place, at in self.positions.items()])
                due, before = time.monotonic() + _STUCK_SECONDS, self.positions.copy()
            for message in self.consumer.consume(500, 0.2):
                self.note(message)
        self.consumer.close()

    def finish(self) -> None:
        """Note that it has read everything up to here."""
        for place, position in self.positions.items():
            self.history.append(ReadTo(self.reader(), place, position))


class _Member(_Consuming):
    """A member of a consumer group, which commits what it has read."""

    def __init__(
        self,
        name: str,
        servers: str,
        history: History,
        topic: str,
        log: Callable[[str], None],
        logger: logging.Logger,
    ) -> None:
        settings: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            # So long librdkafka waits for an answer to JoinGroup, which a broker that is killed behind a cut
            # network never gives. The default is five minutes.
            "max.poll.interval.ms": 45_000,
            "socket.timeout.ms": 20_000,  # a commit is given up before that
        }
        super().__init__(name, servers, history, logger, **settings)
        self._topic, self._log = topic, log
        self.assignments = 0
        self.committed: dict[Partition, int] = {}

    def reader(self) -> str:
        return f"{self.name}, assignment {self.assignments}"

    def restarts(self, place: Partition, offset: int) -> bool:
        """Whether librdkafka reads a partition from its start again.

        In an earlier assignment it has asked where that is. When it drops the late answer, it asks once more,
        and the second answer counts as the position in the present one (rd_kafka_toppar_handle_Offset).
        """
        return offset == 0 and self.positions[place] > 0

    def work(self) -> None:
        self.consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        next_commit = 0.0
        while not self.stopping.is_set():
            for message in self.consumer.consume(200, 0.2):
                self.note(message)
            if time.monotonic() >= next_commit:
                self._commit()
                next_commit = time.monotonic() + _COMMIT_SECONDS
        self.consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1
        self._log(f"{self.name} is assigned {sorted(each.partition for each in partitions)}")
        self.positions = {}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._log(f"{self.name} gives up {sorted(each.partition for each in partitions)}")
        self.positions = {}

    def _commit(self) -> None:
        news = {
            place: offset
            for place, offset in list(self.positions.items())
            if self.committed.get(place) != offset
        }
        if not news:
            return
        for place, offset in news.items():
            self.history.append(CommitSent(GROUP, place, offset))
        began = time.monotonic()
        try:
            done = self.consumer.commit(
                offsets=[TopicPartition(*place, offset) for place, offset in news.items()], asynchronous=False
            )
        except KafkaException as error:
            self._log(
                f"{self.name} cannot commit after {time.monotonic() - began:.1f} s: {error.args[0].name()}"
            )
            return
        for each in done or []:
            place = (each.topic, each.partition)
            if each.error is None:
                self.committed[place] = news[place]
                self.history.append(CommitAcked(GROUP, place, news[place]))
            else:
                self._log(f"{self.name} cannot commit {place}: {each.error.name()}")


class Load:
    """The clients of one topic."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        *,
        seed: int,
        log: Callable[[str], None],
        logger: logging.Logger,
    ) -> None:
        """`log` notes what happens, `logger` what the clients say about themselves."""
        self.history = TimedHistory()
        self.partitions: list[Partition] = [(topic, index) for index in range(partitions)]
        self._producers = [
            _ProducerThread(name, servers, self.history, self.partitions, seed + index, logger)
            for index, name in enumerate(_PATIENCE)
        ]
        self._reader = _Reader(servers, self.history, self.partitions, logger)
        self._members = [
            _Member(f"member {name}", servers, self.history, topic, log, logger) for name in "ab"
        ]

    @property
    def _clients(self) -> list[_Client]:
        return [*self._producers, *self._consumers]

    @property
    def _consumers(self) -> list[_Consuming]:
        return [self._reader, *self._members]

    def start(self) -> None:
        for client in self._clients:
            client.start()

    @property
    def rebalances(self) -> int:
        return sum(member.assignments for member in self._members)

    def problems(self) -> list[str]:
        """What clients were told that no fault explains."""
        found = [
            f"{each.name}: fatal: {each.producer.fatal}" for each in self._producers if each.producer.fatal
        ]
        found += [
            f"{each.name} gave records up: {each.producer.failures}"
            for each in self._producers
            if each.producer.failures
        ]
        found += [f"{each.name} was given errors: {each.errors}" for each in self._consumers if each.errors]
        return found

    def end_producers(self) -> None:
        """Send no more, and wait until all is acknowledged."""
        for client in self._producers:
            client.stopping.set()
        for client in self._producers:
            client.end()

    def has_read(self, ends: dict[Partition, int]) -> bool:
        """Whether the reader has read up to `ends`, and the group committed them."""
        committed: dict[Partition, int] = {}
        for member in self._members:
            for place, offset in member.committed.copy().items():
                committed[place] = max(offset, committed.get(place, 0))
        behind = [
            place
            for member in self._members
            for place, position in member.positions.copy().items()
            if position < ends[place] or member.committed.get(place) != ends[place]
        ]
        return self._reader.positions == ends and committed == ends and not behind

    def end_consumers(self) -> None:
        for client in self._consumers:
            client.stopping.set()
        for client in self._consumers:
            client.end()
        self._reader.finish()

    def abandon(self) -> None:
        """End all threads after a failure."""
        for client in self._clients:
            client.stopping.set()
        for producer in self._producers:
            producer.producer.drop()
        for client in self._clients:
            if client.ident is not None:
                client.join(30)
