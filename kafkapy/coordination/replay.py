"""Finds the last record of each key in a partition of an internal topic.

Only the last record of a key counts. Records are folded by their undecoded keys, and only the few that remain
are decoded.

Records of a transaction count after its commit marker. They do not replace a later record of the same key:
the order in the log decides. After an abort marker they do not count. Those without a marker are pending.

A record that cannot be read is logged and skipped: one bad record must not make all of the partition
unavailable. (Apache Kafka's loader gives up the partition.)

It runs in a worker thread and shares no state. Source: Apache Kafka's CoordinatorLoaderImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkapy.coordination.errors import describe
from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.key_values import KeyValueAt, decode_key_values
from kafkapy.protocol.records import BatchHeader, iter_headers
from kafkapy.storage.disk.errors import is_exhausted

logger = logging.getLogger(__name__)


class LastRecords:
    """Folds the batches of a partition, in order of the log, to the last record of each key."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._latest: dict[bytes, tuple[int, bytes]] = {}
        """The offset and value of the last record of each key. A key that a tombstone deleted is absent."""
        self._open: dict[int, dict[bytes, tuple[int, bytes]]] = {}
        """The same for transactions that have not ended, by producer id."""

    def add(self, batches: bytes) -> None:
        """Add complete batches.

        Raises DecodeError if the bytes are not batches.
        """
        view = memoryview(batches)
        for position, header in iter_headers(view):
            try:
                self._add(header, decode_key_values(view, position, header))
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "%s: offsets %d to %d cannot be read and are skipped: %s",
                    self._name,
                    header.base_offset,
                    header.last_offset,
                    describe(error),
                )

    def _add(self, header: BatchHeader, records: list[KeyValueAt]) -> None:
        if header.is_control:
            for _, key, _ in records:
                self._end_transaction(header.producer_id, parse_control_record_key(key))
            return
        target = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._latest
        for offset, key, value in records:
            if key is None:
                logger.error("%s: offset %d has no key and is skipped", self._name, offset)
            elif value is None:
                self._latest.pop(key, None)
                for pending in self._open.values():
                    pending.pop(key, None)
            else:
                target[key] = (offset, value)

    def _end_transaction(self, producer_id: int, control: int) -> None:
        pending = self._open.pop(producer_id, {})
        if control == ControlType.COMMIT:
            for key, (offset, value) in pending.items():
                latest = self._latest.get(key)
                if latest is None or latest[0] < offset:
                    self._latest[key] = (offset, value)

    def replay(self, take: Callable[[bytes, bytes], None]) -> None:
        """Call `take(key, value)` for each record that counts.

        If it raises an error, the record is logged and skipped.
        """
        for key, (offset, value) in self._latest.items():
            try:
                take(key, value)
            except Exception as error:
                self._skip(offset, error)

    def replay_pending(self, take: Callable[[int, bytes, bytes, bool], None]) -> None:
        """Call `take(producer_id, key, value, superseded)` for each record in an open transaction.

        They are in the order of the log. A record is superseded if a later one of its key counts. If `take`
        raises an error, the record is logged and skipped.
        """
        pending = [
            (offset, producer_id, key, value)
            for producer_id, records in self._open.items()
            for key, (offset, value) in records.items()
        ]
        for offset, producer_id, key, value in sorted(pending):
            latest = self._latest.get(key)
            try:
                take(producer_id, key, value, latest is not None and latest[0] > offset)
            except Exception as error:
                self._skip(offset, error)

    def _skip(self, offset: int, error: Exception) -> None:
        """Log that a record cannot be read; a lack of memory is raised."""
        if is_exhausted(error):
            raise error
        logger.error("%s: the record at offset %d cannot be read: %s", self._name, offset, describe(error))
