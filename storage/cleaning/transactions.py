"""Finds batches of aborted transactions, and markers that are no longer needed.

It follows a walk over the log in offset order.

The records of an aborted transaction are removed. Its marker is kept as long as one of its batches is (an
empty one that keeps a producer's sequence number): a consumer that has read the start of the transaction
waits for its end. The marker of a committed transaction is kept as long as it has batches. A marker without
batches is not needed, and is removed after a delete horizon, like a tombstone.

Source: CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.records import BatchHeader, decode_records
from kafkapy.storage.log.txn_index import AbortedTxn


class CleanedTransactions:
    """The transactions that are open at the offset of the walk."""

    __slots__ = ("_aborted", "_ahead", "_committed", "_seen")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """`aborted` are all aborted transactions with records in the offsets of the walk."""
        self._ahead = [(txn.first_offset, txn) for txn in aborted]
        heapq.heapify(self._ahead)
        self._aborted: dict[int, AbortedTxn] = {}
        """By producer id: the aborted transactions that have begun and not ended."""
        self._seen: set[int] = set()
        """The producer ids of those that have batches."""
        self._committed: set[int] = set()
        """The producer ids of other transactions that have batches."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction, so that its records may be removed."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def end(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTxn | None]:
        """Whether a control batch is no longer needed, and the transaction that it aborts.

        The transaction is None if it was not aborted, or has no batches.

        Raises:
            DecodeError: the batch cannot be read.
        """
        self._begin_up_to(header.last_offset)
        for record in decode_records(batch, 0, header):
            control_type = parse_control_record_key(record.key)
            producer_id = header.producer_id
            if control_type == ControlType.ABORT:
                txn = self._aborted.pop(producer_id, None)
                if txn is not None and producer_id in self._seen:
                    self._seen.remove(producer_id)
                    return False, txn
                return True, None
            if control_type == ControlType.COMMIT:
                needed = producer_id in self._committed
                self._committed.discard(producer_id)
                return not needed, None
            return False, None
        return True, None

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            _, txn = heapq.heappop(self._ahead)
            self._aborted.setdefault(txn.producer_id, txn)
