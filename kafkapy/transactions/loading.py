"""Loads the transactional ids of a partition of `__transaction_state`.

It runs in a worker thread and shares no state. Source: TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from kafkapy.coordination.replay import LastRecords
from kafkapy.transactions.metadata import TransactionMetadata
from kafkapy.transactions.records import decode_key, decode_value


class TransactionReplay:
    """Reads a partition (`kafkapy.coordination.runtime.Replay`)."""

    def __init__(self, name: str) -> None:
        self._records = LastRecords(name)
        self._loaded: list[TransactionMetadata] = []

    def add(self, batches: bytes) -> None:
        """Add complete batches.

        Raises DecodeError if the bytes are not batches.
        """
        self._records.add(batches)

    def result(self) -> list[TransactionMetadata]:
        """The state of each transactional id after all batches."""
        self._loaded = []
        self._records.replay(self._take)
        return self._loaded

    def _take(self, key: bytes, value: bytes) -> None:
        transactional_id = decode_key(key)
        if transactional_id is not None:
            self._loaded.append(decode_value(transactional_id, value))
