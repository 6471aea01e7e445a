"""A transactional producer of librdkafka.

It writes down what it does, and what it is told.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from interop.exactly_once.journal import Journal
from tests.promises.history import (
    Acked,
    CommitSent,
    Partition,
    Sent,
    Source,
    TransactionEnded,
    TransactionEnding,
    checksum_of,
)

RECONNECT: Final = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500}
TIMEOUT_MS: Final = 5_000
"""After which the coordinator aborts a transaction."""
_CALL_SECONDS: Final = 2.0
_HANGING_SECONDS: Final = 12.0
"""More than a call and a pause of the process may take together.

librdkafka 2.16's send_offsets_to_transaction does not return, whatever its timeout, if the connection to the
group's coordinator is lost after AddOffsetsToTxn was answered.
"""


class FencedError(Exception):
    """The producer may write no more.

    Another one has its transactional id, or its transaction took too long.
    """


class AbortNeededError(Exception):
    """The transaction can only be aborted."""


class Outgoing(NamedTuple):
    """A record to be sent."""

    partition: Partition
    value: bytes
    source: Source | None = None


class Transactions:
    """The transactions of the producer `name`, one after the other.

    The key of each record is "name:number", by which the checker knows it.

    A call that does not return ends the process by SIGALRM.

    Raises:
        FencedError: from each of its calls.
        AbortNeededError: from all but `abort`.
    """

    def __init__(self, name: str, transactional_id: str, servers: str, journal: Journal) -> None:
        self.name, self.journal = name, journal
        self._numbers, self._transactions = itertools.count(), itertools.count()
        self._transaction = ""
        self._acked: list[Acked] = []
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "linger.ms": 5,
                "retry.backoff.ms": 50,
                "socket.timeout.ms": 5_000,
                **RECONNECT,
            }
        )
        self._patiently(self._producer.init_transactions, _CALL_SECONDS)

    def begin(self) -> None:
        self._transaction = f"{self.name} {next(self._transactions)}"
        self._producer.begin_transaction()

    def send(self, records: Iterable[Outgoing]) -> None:
        """Send records, and wait for their acknowledgements."""
        numbered = [(next(self._numbers), *record) for record in records]
        self.journal.append(
            *(
                Sent(
                    self.name,
                    number,
                    partition,
                    checksum_of(self._key(number), value),
                    transaction=self._transaction,
                    source=source,
                )
                for number, partition, value, source in numbered
            )
        )
        for number, partition, value, _ in numbered:
            self._send(number, partition, value)
        self._wait_for_answers()
        self.journal.append(*self._acked)
        self._acked.clear()

    def send_offsets(self, consumer_metadata: Any, group: str, offsets: dict[Partition, int]) -> None:
        """Let the commit of the transaction be the commit of these offsets."""
        self.journal.append(*(CommitSent(group, place, offset) for place, offset in offsets.items()))
        positions = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        self._patiently(
            self._producer.send_offsets_to_transaction, positions, consumer_metadata, _CALL_SECONDS
        )

    def commit(self) -> None:
        self.journal.append(TransactionEnding(self._transaction, True))
        self._patiently(self._producer.commit_transaction, _CALL_SECONDS)
        self.journal.append(TransactionEnded(self._transaction, True))

    def abort(self) -> None:
        self.journal.append(TransactionEnding(self._transaction, False))
        self._patiently(self._producer.abort_transaction, _CALL_SECONDS)
        self.journal.append(TransactionEnded(self._transaction, False))

    def _key(self, number: int) -> bytes:
        return f"{self.name}:{number}".encode()

    def _send(self, number: int, partition: Partition, value: bytes) -> None:
        topic, index = partition

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None and offset >= 0:
                self._acked.append(Acked(self.name, number, offset))

        while True:
            try:
                self._producer.produce(topic, value, self._key(number), index, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.01)
            except KafkaException as problem:
                self._raise(problem)
            else:
                return

    def _wait_for_answers(self) -> None:
        try:
            while self._producer.flush(1.0):
                pass
        except KafkaException as problem:
            self._raise(problem)
        except SystemError as problem:
            # confluent-kafka 2.16 calls `delivered` although it has raised the producer's fatal error.
            if not isinstance(problem.__cause__, KafkaException):
                raise
            self._raise(problem.__cause__)

    def _patiently(self, call: Callable[..., object], *arguments: object) -> None:
        """Repeat a call as long as it says that it can be repeated."""
        while True:
            signal.setitimer(signal.ITIMER_REAL, _HANGING_SECONDS)
            try:
                call(*arguments)
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    self._raise(problem)
            else:
                return
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _raise(self, problem: KafkaException) -> None:
        error: KafkaError = problem.args[0]
        if error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED):
            raise FencedError(str(error)) from problem
        if error.txn_requires_abort():
            raise AbortNeededError(str(error)) from problem
        raise problem


class GroupReader:
    """A member of a group that reads what is committed, and never commits by itself."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.group, self._topic = group, topic
        self._moved = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 3_000,
                "heartbeat.interval.ms": 500,
                "partition.assignment.strategy": "range",
                "check.crcs": True,
                **RECONNECT,
            }
        )
        self._subscribe()

    def read(self, count: int) -> tuple[list[Message], Any]:
        """Some records, and the membership in which they were read.

        Records that were read while partitions were given away are not returned, but read again.
        """
        self._moved = False
        messages = [each for each in self._consumer.consume(count, 0.3) if each.error() is None]
        if not self._moved:
            return messages, self._consumer.consumer_group_metadata()
        if messages:
            self.rewind()
        return [], None

    def rewind(self) -> None:
        """Continue from the committed offsets."""
        try:
            committed = self._consumer.committed(self._consumer.assignment(), timeout=5)
            for place in committed:
                position = max(place.offset, 0)
                self._consumer.seek(TopicPartition(place.topic, place.partition, position))
        except KafkaException:
            # Joining anew takes longer, but needs nothing of the broker now.
            self._consumer.unsubscribe()
            self._subscribe()

    def close(self) -> None:
        self._consumer.close()

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_move, on_revoke=self._on_move, on_lost=self._on_move
        )

    def _on_move(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._moved = True
