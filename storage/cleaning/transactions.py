"""Batches of aborted transactions, and markers that nobody needs any more.

A walk over the log in order of offsets finds them.

The records of an aborted transaction are removed. Its marker stays as long as a batch of it does (an empty
one that keeps a producer's sequence number): a consumer that has seen the transaction begin waits for its
end. The marker of a committed transaction stays as long as there are records of it. A marker without its
batches has no use; it is removed after a delete horizon, as a tombstone is.

Source: CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.records import BatchHeader, decode_records
from kafkapy.storage.log.txn_index import AbortedTxn


class CleanedTransactions:
    """The transactions that are open at the offset the walk has reached."""

    __slots__ = ("_aborted", "_ahead", "_committed", "_seen")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """`aborted` are all that have records in the offsets to be walked over."""
        self._ahead = [(txn.first_offset, txn) for txn in aborted]
        heapq.heapify(self._ahead)
        self._aborted: dict[int, AbortedTxn] = {}
        """By producer id: those that began, and whose marker was not seen yet."""
        self._seen: set[int] = set()
        """Producer ids of those of which there was a batch."""
        self._committed: set[int] = set()
        """Producer ids of transactions that were not aborted, and of which there was a batch."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction, and may be removed."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def end(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTxn | None]:
        """Whether nobody needs this control batch any more, and the transaction it aborts.

        The transaction is the aborted one whose marker it is, and of which there are batches.

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
