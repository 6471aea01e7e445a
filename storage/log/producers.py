"""The producers of a partition: duplicates, gaps, zombies and open transactions.

The state of a producer id is its epoch, the sequence numbers and offsets of its last five batches (a client
has at most five in flight, so a retried one is among them), and the first offset of its open transaction. A
batch must continue the sequence. A batch that was already written is answered with its original offsets. A
new epoch starts at sequence 0. An unknown producer may start with any sequence number: its records may have
been deleted, or it was idle too long.

Transactions: `first_unstable_offset` is the first offset of the earliest transaction that is open, or whose
marker is not below the high watermark. A read_committed reader stops there.

Crash story: the state is a function of the log. producer_snapshots.py saves it at some offsets. After a crash
the newest good snapshot is loaded, and the batches after it are replayed.

Source: ProducerStateManager, ProducerStateEntry, ProducerAppendInfo; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import (
    MAX_PRODUCER_EPOCH,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    BatchHeader,
)
from kafkapy.storage.log.markers import TransactionMarker, read_marker
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.log.validate import CLIENT, REPLICATION, AppendOrigin, PreparedBatch
from kafkapy.storage.log.verification import Verification

CACHED_BATCHES: Final = 5
NO_OFFSET: Final = -1
NO_UNSTABLE_OFFSET: Final = 2**63 - 1
"""The `first_unstable_offset` without undecided transactions.

Only the high watermark limits the reader then.
"""

_EXPIRED_AT_ONCE: Final = 10_000
"""The number of producers that one step of `expire_some` checks, in about a millisecond."""


_BATCH = struct.Struct("!iqiq")
"""Last sequence, last offset, offset delta and timestamp of a cached batch.

They are packed to save memory: a log may have many producers.
"""


class CachedBatch(NamedTuple):
    """The place of a batch that a producer has written."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A transaction whose marker was written at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "_batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp",
        "txn_first_offset",
    )

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET
        self.last_sequence = NO_SEQUENCE
        self._batches = b""

    def copy(self) -> ProducerEntry:
        """A copy, which an append may change."""
        twin = ProducerEntry.__new__(ProducerEntry)
        twin.epoch = self.epoch
        twin.coordinator_epoch = self.coordinator_epoch
        twin.last_timestamp = self.last_timestamp
        twin.txn_first_offset = self.txn_first_offset
        twin.last_sequence = self.last_sequence
        twin._batches = self._batches
        return twin

    @property
    def batches(self) -> list[CachedBatch]:
        """The last batches of this epoch, oldest first."""
        return [CachedBatch(*fields) for fields in _BATCH.iter_unpack(self._batches)]

    @property
    def last_offset(self) -> int:
        """The last offset of the last batch of this epoch; NO_OFFSET if there is none."""
        batches = self._batches
        return _BATCH.unpack_from(batches, len(batches) - _BATCH.size)[1] if batches else NO_OFFSET

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next batch.

        A new epoch forgets the cached batches.
        """
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence = NO_SEQUENCE
            self._batches = b""

    def add_batch(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        """Note that a batch of the current epoch was written."""
        packed = _BATCH.pack(last_sequence, last_offset, offset_delta, timestamp)
        self._batches = (self._batches + packed)[-CACHED_BATCHES * _BATCH.size :]
        self.last_sequence = last_sequence

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> CachedBatch | None:
        """The cached batch with exactly these sequence numbers."""
        if epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class ProducerUpdates:
    """The changes of an append, computed before it is written.

    `commit` applies them.
    """

    __slots__ = ("completed", "duplicate", "entries", "started")

    def __init__(self) -> None:
        self.duplicate: CachedBatch | None = None
        """The cached batch, if the batch was written before: answer with it and write nothing."""
        self.entries: dict[int, ProducerEntry] = {}
        self.started: list[tuple[int, int]] = []
        """(first offset, producer id) of each transaction that begins."""
        self.completed: list[CompletedTxn] = []


class ProducerStates:
    """The producers of one partition."""

    __slots__ = (
        "_ongoing",
        "_producers",
        "_unreplicated",
        "_verifications",
        "end_offset",
        "expiration_ms",
        "first_unstable_offset",
    )

    def __init__(self, *, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        """producer.id.expiration.ms: how long an idle producer is remembered."""
        self.end_offset = 0
        """The offset up to which batches are included in this state."""
        self.first_unstable_offset = NO_UNSTABLE_OFFSET
        self._producers: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        """Open transactions: first offset to producer id, in order of first offset."""
        self._unreplicated: dict[int, int] = {}
        """Decided transactions whose marker is not below the high watermark.

        It maps first offset to marker offset.
        """
        self._verifications: dict[int, Verification] = {}
        """The producers that are to begin a transaction, or may."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Producer ids and their states."""
        return iter(self._producers.items())

    def copy_producers(self) -> dict[int, ProducerEntry]:
        """A copy of the producers, which any thread may read.

        Appends replace entries and never change them.
        """
        return self._producers.copy()

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The state of a producer."""
        return self._producers.get(producer_id)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer of this epoch has an open transaction."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, begins_at_zero: bool = False, now_ms: int
    ) -> Verification | None:
        """Begin to verify that a producer may begin a transaction with a batch.

        None if it has an open transaction already. Otherwise the coordinator must be asked, and the append
        needs the verification.
        """
        if self.is_in_transaction(producer_id, epoch):
            return None
        found = self._verifications.get(producer_id)
        if found is not None:
            found.note(epoch, sequence)
            return found
        begun = Verification(epoch, sequence, begins_at_zero=begins_at_zero, now_ms=now_ms)
        self._verifications[producer_id] = begun
        return begun

    def is_verifying(self, producer_id: int, verification: Verification) -> bool:
        """Whether nothing of the producer was appended since the verification began."""
        return self._verifications.get(producer_id) is verification

    # --- appending ------------------------------------------------------------------------------------------

    def prepare(
        self,
        batches: Iterable[PreparedBatch],
        *,
        origin: AppendOrigin,
        now_ms: int,
        verification: Verification | None = None,
    ) -> ProducerUpdates | None:
        """Check batches that have their offsets, and compute the changes of appending them.

        Nothing is changed yet. None if no batch has a producer id. The first duplicate ends the check: a
        client sends one batch at a time. A batch that begins a transaction needs a `verification`.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or
                TRANSACTION_COORDINATOR_FENCED. The batches must not be written.
        """
        updates: ProducerUpdates | None = None
        for batch in batches:
            header = batch.header
            producer_id = header.producer_id
            if producer_id < 0:
                continue
            if updates is None:
                updates = ProducerUpdates()
            entry = updates.entries.get(producer_id)
            if entry is None:
                known = self._producers.get(producer_id)
                entry = ProducerEntry() if known is None else known.copy()
                updates.entries[producer_id] = entry
            if header.is_control:
                if batch.marker is not None:
                    _add_marker(updates, entry, header, batch.marker, origin)
                continue
            if origin is CLIENT and header.base_sequence != entry.last_sequence + 1:
                updates.duplicate = entry.find_duplicate(
                    header.producer_epoch, header.base_sequence, header.last_sequence
                )
                if updates.duplicate is not None:
                    return updates
            if (
                header.is_transactional
                and (entry.txn_first_offset < 0 or entry.epoch != header.producer_epoch)
                and origin is not REPLICATION
            ):
                self._require_verified(header, entry, origin, verification)
            _add_data(updates, entry, header, origin)
            # A producer that writes old timestamps is not idle; Apache Kafka would forget it at once.
            entry.last_timestamp = max(header.max_timestamp, now_ms - self.expiration_ms // 2)
        return updates

    def _require_verified(
        self,
        header: BatchHeader,
        entry: ProducerEntry,
        origin: AppendOrigin,
        verification: Verification | None,
    ) -> None:
        """Check that a producer may begin a transaction with a batch.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        _check_epoch(entry, header, origin)
        if verification is None or not self.is_verifying(header.producer_id, verification):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if origin is not CLIENT:
            return
        first_sequence, lowest = header.base_sequence, verification.lowest_sequence
        if entry.last_sequence == NO_SEQUENCE and verification.begins_at_zero:
            lowest = 0
        if first_sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number at the start of a transaction of producer "
                f"{header.producer_id}: {first_sequence} (incoming), {lowest} (expected).",
            )

    def commit(
        self, updates: ProducerUpdates, write_aborted: Callable[[AbortedTxn], object] | None = None
    ) -> None:
        """Apply `updates`: the batches are written.

        `write_aborted` adds an aborted transaction to the index. If that fails, the transaction remains open,
        and the last stable offset does not move.
        """
        self._producers.update(updates.entries)
        if self._verifications:
            for producer_id in updates.entries:
                self._verifications.pop(producer_id, None)
        for first_offset, producer_id in updates.started:
            self._ongoing[first_offset] = producer_id
        for txn in updates.completed:
            if txn.aborted and write_aborted is not None:
                stable = self._last_stable_offset_after(txn)
                write_aborted(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))
            self._ongoing.pop(txn.first_offset, None)
            self._unreplicated[txn.first_offset] = txn.last_offset
        if updates.started or updates.completed:
            self._find_first_unstable()

    def replay(
        self,
        header: BatchHeader,
        batch: memoryview,
        now_ms: int,
        write_aborted: Callable[[AbortedTxn], object] | None = None,
    ) -> None:
        """Update the state with a batch from the log; `batch` is the complete batch.

        Raises:
            DecodeError: a control batch cannot be read.
        """
        if header.producer_id >= 0:
            marker = read_marker(header, batch) if header.is_control else None
            written = PreparedBatch(header, batch, marker)
            updates = self.prepare([written], origin=REPLICATION, now_ms=now_ms)
            if updates is not None:
                self.commit(updates, write_aborted)
        self.end_offset = header.last_offset + 1

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Settle the transactions whose marker is below the high watermark."""
        if self._unreplicated:
            settled = [first for first, last in self._unreplicated.items() if last < high_watermark]
            for first_offset in settled:
                del self._unreplicated[first_offset]
            if settled:
                self._find_first_unstable()

    def log_start_moved(self, log_start_offset: int) -> None:
        """Note that records below `log_start_offset` are deleted.

        Their producers are kept.
        """
        self.high_watermark_moved(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def expire(self, now_ms: int) -> int:
        """Remove the producers that were idle too long; return their number."""
        known = len(self._producers)
        for _ in self.expire_some(now_ms):
            pass
        return known - len(self._producers)

    def expire_some(self, now_ms: int) -> Iterator[None]:
        """Expire producers in steps.

        The producers may change between steps.
        """
        for producer_id, begun in tuple(self._verifications.items()):
            if now_ms - begun.begun_ms >= self.expiration_ms:
                del self._verifications[producer_id]
        known = list(self._producers.items())
        for start in range(0, len(known), _EXPIRED_AT_ONCE):
            for producer_id, entry in known[start : start + _EXPIRED_AT_ONCE]:
                idle = entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms
                if idle and self._producers.get(producer_id) is entry:
                    del self._producers[producer_id]
            yield

    # --- loading --------------------------------------------------------------------------------------------

    def clear(self, end_offset: int) -> None:
        """Forget all producers, and continue from `end_offset`."""
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.first_unstable_offset = NO_UNSTABLE_OFFSET
        self.end_offset = end_offset

    def restore(self, producers: dict[int, ProducerEntry], end_offset: int) -> None:
        """Replace the state with that of a snapshot at `end_offset`."""
        self.clear(end_offset)
        self._producers = producers
        open_txns = [(entry.txn_first_offset, producer_id) for producer_id, entry in producers.items()]
        self._ongoing = dict(sorted(txn for txn in open_txns if txn[0] >= 0))
        self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        undecided = next(iter(self._ongoing), NO_UNSTABLE_OFFSET)
        self.first_unstable_offset = min(self._unreplicated, default=NO_UNSTABLE_OFFSET)
        self.first_unstable_offset = min(self.first_unstable_offset, undecided)

    def _last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset after `completed` is decided."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1


def _add_data(
    updates: ProducerUpdates, entry: ProducerEntry, header: BatchHeader, origin: AppendOrigin
) -> None:
    _check_epoch(entry, header, origin)
    first_sequence = header.base_sequence
    if origin is CLIENT and entry.epoch != NO_PRODUCER_EPOCH:
        if header.producer_epoch != entry.epoch:
            if first_sequence != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {header.producer_id} begins epoch {header.producer_epoch} with sequence "
                    f"number {first_sequence} instead of 0 (its epoch was {entry.epoch}).",
                )
        elif first_sequence != entry.last_sequence + 1 and not (
            first_sequence == 0 and entry.last_sequence == MAX_SEQUENCE
        ):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: {first_sequence} "
                f"(incoming), {entry.last_sequence} (last written).",
            )
    entry.set_epoch(header.producer_epoch)
    entry.add_batch(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
    if header.is_transactional:
        if entry.txn_first_offset < 0:
            entry.txn_first_offset = header.base_offset
            updates.started.append((header.base_offset, header.producer_id))
    elif entry.txn_first_offset >= 0:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"Expected a transactional write from producer {header.producer_id}: its transaction is open "
            f"since offset {entry.txn_first_offset}.",
        )


def _add_marker(
    updates: ProducerUpdates,
    entry: ProducerEntry,
    header: BatchHeader,
    marker: TransactionMarker,
    origin: AppendOrigin,
) -> None:
    _check_epoch(entry, header, origin)
    if (
        marker.ends_epoch
        and entry.txn_first_offset >= 0
        and header.producer_epoch == entry.epoch
        and entry.epoch != MAX_PRODUCER_EPOCH  # nothing else can end that one
    ):
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Transaction marker for producer {header.producer_id} has epoch {header.producer_epoch}, which "
            "is not larger than that of the open transaction.",
        )
    if marker.coordinator_epoch < entry.coordinator_epoch and origin is not REPLICATION:
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Transaction marker for producer {header.producer_id} comes from coordinator epoch "
            f"{marker.coordinator_epoch}, but {entry.coordinator_epoch} is known.",
        )
    if entry.txn_first_offset >= 0:
        updates.completed.append(
            CompletedTxn(header.producer_id, entry.txn_first_offset, header.base_offset, marker.aborted)
        )
    entry.set_epoch(header.producer_epoch)
    entry.coordinator_epoch = marker.coordinator_epoch
    entry.txn_first_offset = NO_OFFSET
    entry.last_timestamp = marker.timestamp


def _check_epoch(entry: ProducerEntry, header: BatchHeader, origin: AppendOrigin) -> None:
    if header.producer_epoch < entry.epoch and origin is not REPLICATION:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch {header.producer_epoch} of producer {header.producer_id} is smaller than the last seen "
            f"epoch {entry.epoch}.",
        )
