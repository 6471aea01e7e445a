"""The state machine of one transactional id: what each request does to it, and when.

It does no I/O and takes the time as an argument. A method checks a request and returns the state to be
written, or None if there is nothing to write. Until the write is reported (`written`, `not_written`), the
change is pending: other requests get CONCURRENT_TRANSACTIONS, and their clients ask again. So each change
begins with the state of the log. A write that failed changes nothing.

An end is decided when PREPARE_COMMIT or PREPARE_ABORT is written. Then the markers are written
(`kafkapy.transactions.markers`), and at last the COMPLETE state. Until then nothing else can happen.

In transaction version 2 each transaction has an epoch of its own (KIP-890). The epoch in the markers is
already the one after the transaction's, so that neither a late record nor a late request can touch another
transaction. If the epochs of a producer id are used up, the end assigns the next producer id, too.

A request that was answered may come again, because its answer was lost. An EndTxn of version 2 is known by
the epoch before the present one. In older versions the state must be the outcome that is asked for.

To fence a producer, its transaction is aborted with the next epoch. In version 2 this is as any other abort:
the producer gets that epoch, or after the last one the next producer id, if it aborts too, and nobody else
has begun. So one whose transaction took too long can continue (KIP-588, KAFKA-20090). Before version 2 nobody
gets it.

Source: Apache Kafka's TransactionCoordinator, TransactionMetadata. Different from it, an InitProducerId with
an epoch that is not the transaction's does not abort it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import MAX_PRODUCER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.metadata import (
    BEFORE,
    EPOCH_AT_EACH_END,
    LAST_EPOCH,
    NOT_STARTED,
    TransactionMetadata,
    TransactionState,
)

_State = TransactionState


class Producer(NamedTuple):
    """A producer id and an epoch of it, as requests have them."""

    id: int
    epoch: int


class ProducerIdNeededError(Exception):
    """The request must be repeated with a new producer id."""


class TransactionMachine:
    """The transactions of one transactional id."""

    __slots__ = ("metadata", "pending")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        """The state in the log."""
        self.pending: TransactionMetadata | None = None
        """The state that is being written to it."""

    # --- the log --------------------------------------------------------------------------------------------

    def written(self) -> TransactionMetadata:
        """The pending state is in the log; return it."""
        assert self.pending is not None
        self.metadata, self.pending = self.pending, None
        return self.metadata

    def not_written(self) -> None:
        """The pending state could not be written."""
        assert self.pending is not None
        self.pending = None

    def _begin(self, to: TransactionMetadata) -> TransactionMetadata:
        now = self.metadata
        assert self.pending is None, f"{now} has a pending change to {self.pending}"
        assert now.state in BEFORE[to.state], f"{now.state.label} cannot become {to.state.label}"
        self.pending = to._replace(previous_producer_id=now.producer_id)
        return self.pending

    @property
    def is_changing(self) -> bool:
        """Whether a change is being written, or an end is decided but not complete."""
        return self.pending is not None or self.metadata.state.is_prepared

    def _require_unchanging(self) -> None:
        if self.is_changing:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    # --- requests -------------------------------------------------------------------------------------------

    def init(
        self, timeout_ms: int, expected: Producer | None, *, now_ms: int, version: int, new_id: int | None
    ) -> TransactionMetadata:
        """InitProducerId: a new epoch, or a new producer id, for a client that begins.

        If the result is PREPARE_ABORT, a transaction of the last producer is aborted first, and the client
        must ask again.

        Args:
            timeout_ms: how long a transaction of the client may take.
            expected: what the client had before; None if it has just started.
            now_ms: the time.
            version: the transaction version of the broker.
            new_id: a producer id that nobody has, or None.

        Raises:
            KafkaError: CONCURRENT_TRANSACTIONS, or PRODUCER_FENCED.
            ProducerIdNeededError: `new_id` is needed.
        """
        self._require_no_pending()
        now = self.metadata
        if expected is not None and not self._may_be(expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        self._require_unchanging()
        if now.state is _State.ONGOING:
            if expected is not None and expected.epoch != now.producer_epoch:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            return self._fence(now_ms, version, new_id)
        producer_id, epoch, last_epoch = self._next_epoch(expected, new_id)
        return self._begin(
            now._replace(
                state=_State.EMPTY,
                producer_id=producer_id,
                producer_epoch=epoch,
                last_producer_epoch=last_epoch,
                timeout_ms=timeout_ms,
                partitions=frozenset(),
                start_ms=NOT_STARTED,
                last_update_ms=now_ms,
            )
        )

    def _require_no_pending(self) -> None:
        if self.pending is not None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _may_be(self, expected: Producer) -> bool:
        """Whether a client may have had this before; its epoch is checked later.

        It may have had the last epoch of the producer id before, if the answer with the new id was lost.
        """
        now = self.metadata
        return (
            now.producer_epoch == NO_PRODUCER_EPOCH
            or expected.id == now.producer_id
            or (expected.id == now.previous_producer_id and expected.epoch >= LAST_EPOCH)
        )

    def _next_epoch(self, expected: Producer | None, new_id: int | None) -> tuple[int, int, int]:
        """The producer id, the epoch and the epoch before it of a client that begins."""
        now = self.metadata
        if expected is None or expected.epoch == now.producer_epoch:
            if now.is_epoch_exhausted:
                if new_id is None:
                    raise ProducerIdNeededError
                return new_id, 0, NO_PRODUCER_EPOCH if expected is None else now.producer_epoch
            last_epoch = NO_PRODUCER_EPOCH if expected is None else now.producer_epoch
            return now.producer_id, now.producer_epoch + 1, last_epoch
        if now.producer_epoch == NO_PRODUCER_EPOCH:  # its id was unknown, and is new
            return now.producer_id, 0, NO_PRODUCER_EPOCH
        if expected.epoch == now.last_producer_epoch:  # the request came before, and its answer was lost
            return now.producer_id, now.producer_epoch, now.last_producer_epoch
        raise KafkaError(ErrorCode.PRODUCER_FENCED)

    def add_partitions(
        self, producer: Producer, partitions: Collection[TopicPartition], *, now_ms: int, version: int
    ) -> TransactionMetadata | None:
        """AddPartitionsToTxn, AddOffsetsToTxn; `version` is the transaction version of the client.

        Raises:
            KafkaError: CONCURRENT_TRANSACTIONS, or the producer is another one.
        """
        # This comes first: an end may be about to change the producer id.
        self._require_unchanging()
        self._require_producer(producer)
        now = self.metadata
        is_ongoing = now.state is _State.ONGOING
        if is_ongoing and now.partitions.issuperset(partitions):
            return None
        return self._begin(
            now._replace(
                state=_State.ONGOING,
                partitions=now.partitions.union(partitions),
                start_ms=now.start_ms if is_ongoing else now_ms,
                last_update_ms=now_ms,
                client_version=version,
            )
        )

    def verify(self, producer: Producer) -> frozenset[TopicPartition]:
        """The partitions of the producer's transaction.

        Raises:
            KafkaError: CONCURRENT_TRANSACTIONS, or the producer is another one.
        """
        self._require_producer(producer)
        if self.metadata.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return self.metadata.partitions

    def _require_producer(self, producer: Producer) -> None:
        now = self.metadata
        if producer.id != now.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != now.producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)

    def end(
        self, producer: Producer, *, commit: bool, now_ms: int, version: int, new_id: int | None
    ) -> TransactionMetadata | None:
        """EndTxn; `version` is the transaction version of the client.

        None means that the transaction has ended so before.

        Raises:
            KafkaError: the producer is another one, CONCURRENT_TRANSACTIONS, or INVALID_TXN_STATE: there is
                no transaction, or it has ended otherwise.
            ProducerIdNeededError: `new_id`, a producer id that nobody has, is needed.
        """
        if version < EPOCH_AT_EACH_END:
            return self._end_with_same_epoch(producer, commit, now_ms)
        self._require_unchanging()
        now = self.metadata
        is_at_rest = now.state in (_State.COMPLETE_COMMIT, _State.COMPLETE_ABORT)
        if is_at_rest and self._had_before(producer):
            if now.state is not _completed(commit):
                raise KafkaError(ErrorCode.INVALID_TXN_STATE)
            return None
        self._require_producer(producer)
        if commit and now.state is not _State.ONGOING:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        next_id = self._id_after_end(new_id)
        return self._begin(
            now._replace(
                state=_State.PREPARE_COMMIT if commit else _State.PREPARE_ABORT,
                producer_epoch=min(now.producer_epoch + 1, MAX_PRODUCER_EPOCH),
                last_producer_epoch=now.producer_epoch,
                next_producer_id=next_id,
                start_ms=now.start_ms if now.state is _State.ONGOING else now_ms,
                last_update_ms=now_ms,
                client_version=version,
            )
        )

    def _id_after_end(self, new_id: int | None) -> int:
        """The next producer id, if the epochs of this one are used up."""
        if not self.metadata.is_epoch_exhausted:
            return NO_PRODUCER_ID
        if new_id is None:
            raise ProducerIdNeededError
        return new_id

    def _had_before(self, producer: Producer) -> bool:
        """Whether a producer is the one of the transaction that has just ended."""
        now = self.metadata
        if producer.id == now.producer_id:
            return producer.epoch == now.producer_epoch - 1 < LAST_EPOCH
        return (
            producer.id == now.previous_producer_id
            and producer.epoch == LAST_EPOCH
            and now.producer_epoch == 0
        )

    def _end_with_same_epoch(
        self, producer: Producer, commit: bool, now_ms: int
    ) -> TransactionMetadata | None:
        self._require_producer(producer)
        self._require_unchanging()
        now = self.metadata
        if now.state is _completed(commit):
            return None
        if now.state is not _State.ONGOING:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return self._begin(
            now._replace(
                state=_State.PREPARE_COMMIT if commit else _State.PREPARE_ABORT,
                last_update_ms=now_ms,
                client_version=0,
            )
        )

    # --- time -----------------------------------------------------------------------------------------------

    def time_out(self, *, now_ms: int, version: int, new_id: int | None) -> TransactionMetadata | None:
        """Abort a transaction that takes too long; `version` is the broker's transaction version.

        Raises:
            ProducerIdNeededError: `new_id`, a producer id that nobody has, is needed.
        """
        now = self.metadata
        if self.pending is not None or now.state is not _State.ONGOING:
            return None
        if now_ms <= now.start_ms + now.timeout_ms:
            return None
        return self._fence(now_ms, version, new_id)

    def _fence(self, now_ms: int, version: int, new_id: int | None) -> TransactionMetadata:
        now = self.metadata
        goes_on = version >= EPOCH_AT_EACH_END
        next_id = self._id_after_end(new_id) if goes_on else NO_PRODUCER_ID
        return self._begin(
            now._replace(
                state=_State.PREPARE_ABORT,
                producer_epoch=min(now.producer_epoch + 1, MAX_PRODUCER_EPOCH),
                last_producer_epoch=now.producer_epoch if goes_on else NO_PRODUCER_EPOCH,
                next_producer_id=next_id,
                last_update_ms=now_ms,
                client_version=version if goes_on else 0,
            )
        )

    def expire(self, expiration_ms: int, *, now_ms: int) -> bool:
        """Begin to remove a transactional id, and return True, if it was not used for long."""
        now = self.metadata
        if self.pending is not None or not now.state.is_at_rest:
            return False
        if now.last_update_ms > now_ms - expiration_ms:
            return False
        self._begin(now._replace(state=_State.DEAD, partitions=frozenset()))
        return True

    # --- the end --------------------------------------------------------------------------------------------

    def complete(self, *, now_ms: int) -> TransactionMetadata:
        """All markers of a prepared transaction are written."""
        now = self.metadata
        producer_id, epoch = now.producer_id, now.producer_epoch
        if now.client_version >= EPOCH_AT_EACH_END and now.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = now.next_producer_id, 0
        return self._begin(
            now._replace(
                state=_completed(now.state is _State.PREPARE_COMMIT),
                producer_id=producer_id,
                producer_epoch=epoch,
                next_producer_id=NO_PRODUCER_ID,
                partitions=frozenset(),
                last_update_ms=now_ms,
            )
        )


def _completed(commit: bool) -> TransactionState:
    return _State.COMPLETE_COMMIT if commit else _State.COMPLETE_ABORT


def after_end(metadata: TransactionMetadata) -> Producer:
    """The id and epoch of a client of version 2 after an end, which is prepared or complete."""
    if metadata.next_producer_id != NO_PRODUCER_ID:
        return Producer(metadata.next_producer_id, 0)
    return Producer(metadata.producer_id, metadata.producer_epoch)
