"""Producers and readers with confluent-kafka that record a history (tests/promises).

Everything runs in the caller's thread: deliveries are noted when `poll` calls back, so the order of events is
the order in which a client learned of them.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.promises.history import (
    Acked,
    CommitAcked,
    CommitFetched,
    CommitSent,
    EndOffset,
    History,
    Partition,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
    StableOffset,
    checksum_of,
)

DEADLINE = 60.0
NICE = 10
"""The priority of threads that need not hurry."""

RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


class LoadError(AssertionError):
    """The broker gave no answer, or not the expected one."""


class RecordingProducer:
    """A producer whose records, acknowledgements and failures go into a history."""

    def __init__(
        self,
        name: str,
        servers: str,
        history: History,
        *,
        idempotent: bool,
        acks: str = "all",
        retries: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`more` are settings of the client."""
        self.name = name
        self._history = history
        self._idempotent = idempotent
        self._number = 0
        self.last_ack = 0.0
        """When the last acknowledgement came, in seconds since 1970."""
        self.fatal: KafkaError | None = None
        """The error after which an idempotent producer gives up."""
        self.failures: dict[str, int] = {}
        """Why records were given up, and how many."""
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "enable.idempotence": idempotent,
            "acks": acks,
            "linger.ms": 1,
            "message.timeout.ms": int(DEADLINE * 1000),
            "retry.backoff.ms": 50,
            **RECONNECT,
            **(more or {}),
        }
        if not retries:
            settings["message.send.max.retries"] = 0
        if idempotent:
            settings["enable.gapless.guarantee"] = True
        self._producer = _yielding(lambda: Producer(settings, error_cb=self._on_error))

    def send(self, partition: Partition, value: bytes) -> None:
        """Send a record; wait while the client's queue is full."""
        number, self._number = self._number, self._number + 1
        key = f"{self.name}:{number}".encode()
        self._history.append(
            Sent(self.name, number, partition, checksum_of(key, value), idempotent=self._idempotent)
        )
        while True:
            try:
                self._producer.produce(
                    partition[0],
                    value,
                    key,
                    partition[1],
                    on_delivery=lambda e, m: self._delivered(number, e, m),
                )
            except BufferError:
                self._producer.poll(0.01)
            except KafkaException as error:
                raise LoadError(f"{self.name} gave up: {self.fatal or error}") from error
            else:
                return

    def poll(self) -> None:
        """Record the deliveries so far."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until every record is acknowledged or given up.

        Raises:
            LoadError: some are neither.
        """
        left = self._producer.flush(DEADLINE)
        if left:
            raise LoadError(f"{left} records of {self.name} are never answered")

    def drop(self) -> None:
        """Forget what is not acknowledged yet: its fate is unknown."""
        self._producer.purge()
        with contextlib.suppress(KafkaException, SystemError):  # it has given up, which `fatal` says
            self._producer.flush(5)

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        # Any error leaves open whether the record was written: the answer may have been lost.
        offset = message.offset()
        if error is not None:
            self.failures[error.str()] = self.failures.get(error.str(), 0) + 1
        elif offset is not None and offset >= 0:
            self._history.append(Acked(self.name, number, offset))
            self.last_ack = time.time()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error


def _yielding(make: Callable[[], Producer]) -> Producer:
    """Make a producer whose threads leave the CPU to others.

    While answers of a broker are late and there is more to send, the threads of an idempotent producer of
    librdkafka 2.16 do not sleep: they look for something to do until there is. In tests of faults that was
    most of the time of a core.
    """

    def made() -> Producer:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # its threads inherit that
        return make()

    if sys.platform != "linux":
        return make()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(made).result()


def random_value(chance: random.Random, limit: int) -> bytes:
    """Bytes that compress to about half, of any size up to `limit`, mostly small ones."""
    size = int(limit ** chance.random())
    return (chance.randbytes(size // 2 + 1) + bytes(size))[:size]


def create_topic(
    servers: str,
    topic: str,
    partitions: int,
    config: dict[str, str],
    more: Mapping[str, Any] | None = None,
) -> None:
    """Create a topic, unless it exists; `more` are settings of the client."""
    admin = AdminClient({"bootstrap.servers": servers, **RECONNECT, **(more or {})})
    new = NewTopic(topic, partitions, 1, config=config)
    future = admin.create_topics([new], request_timeout=DEADLINE)[topic]
    try:
        future.result()  # the client answers by itself, also where the broker is gone
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def read_pass(
    servers: str,
    reader: str,
    starts: dict[Partition, int],
    history: History,
    *,
    committed: bool = False,
    more: Mapping[str, Any] | None = None,
) -> dict[Partition, int]:
    """Read each partition from its start offset to its end as of now; the ends.

    `more` are settings of the client.

    Raises:
        LoadError: the broker does not give what lies below the end.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 10,
            **RECONNECT,
            **(more or {}),
        }
    )
    try:
        ends = {partition: _end_of(consumer, partition) for partition in starts}
        for partition, start in starts.items():
            history.append(ReadFrom(reader, partition, start, committed))
            # The end of what is committed is the last stable offset.
            told = StableOffset if committed else EndOffset
            history.append(told(partition, max(ends[partition], start)))
        left = {partition for partition, start in starts.items() if ends[partition] > start}
        consumer.assign([TopicPartition(*partition, starts[partition]) for partition in left])
        for message in _messages(consumer, left, ends):
            place, key, value = (message.topic(), message.partition()), message.key(), message.value()
            assert key is not None
            producer, _, number = key.decode().rpartition(":")
            checksum = checksum_of(key, value or b"")
            history.append(Read(reader, place, message.offset(), producer, int(number), checksum))
        for partition, end in ends.items():
            history.append(ReadTo(reader, partition, end))
        return ends
    finally:
        consumer.close()


def _end_of(consumer: Consumer, partition: Partition) -> int:
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(*partition), timeout=5)[1])
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise LoadError(f"no end of {partition}: {error}") from error


def _messages(consumer: Consumer, left: set[Partition], ends: dict[Partition, int]) -> Iterator[Message]:
    """The records below the ends."""
    deadline = time.monotonic() + DEADLINE
    while left:
        for message in consumer.consume(5000, timeout=0.2):
            partition = (str(message.topic()), int(message.partition() or 0))
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise LoadError(f"reading {partition}: {error}")
            offset = int(message.offset() or 0)
            if error is not None:
                if offset >= ends[partition]:
                    left.discard(partition)
            elif offset < ends[partition]:
                yield message
                if offset == ends[partition] - 1:
                    left.discard(partition)
        if time.monotonic() > deadline:
            raise LoadError(f"nothing more is read of {left}, up to {ends}")


class Committer:
    """Commits offsets of a group that nobody joins, and fetches them."""

    def __init__(
        self, group: str, servers: str, history: History, more: Mapping[str, Any] | None = None
    ) -> None:
        """`more` are settings of the client."""
        self._group = group
        self._history = history
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                **RECONNECT,
                **(more or {}),
            }
        )

    def commit(self, partition: Partition, offset: int) -> None:
        """Commit; an error leaves open whether it took place."""
        self._history.append(CommitSent(self._group, partition, offset))
        try:
            done = self._consumer.commit(offsets=[TopicPartition(*partition, offset)], asynchronous=False)
        except KafkaException:
            return
        if done and done[0].error is None:
            self._history.append(CommitAcked(self._group, partition, offset))

    def fetch(self, partition: Partition) -> None:
        """Ask for the committed offset.

        Raises:
            LoadError: there is no answer.
        """
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                (found,) = self._consumer.committed([TopicPartition(*partition)], timeout=5)
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise LoadError(f"no committed offset of {self._group}: {error}") from error
                continue
            self._history.append(CommitFetched(self._group, partition, max(found.offset, -1)))
            return

    def close(self) -> None:
        self._consumer.close()
