"""The records of an internal topic's partition that count once all of it has been read.

Only the last record of a key counts. So records are folded by their undecoded key, and only the few that
remain are decoded.

Records that were written in a transaction (offsets that Apache Kafka committed in one) count from the
transaction's commit marker on. They do not replace a later record of the same key: its order in the log
decides, as compaction may have removed records in between. Without a marker, or with an abort marker, they do
not count.

What cannot be read is logged and left out, whatever is wrong with it: one odd record must not cost all that a
partition holds. (Apache Kafka's loader gives up the partition.)

It runs in a worker thread: nothing here is shared. Source: Apache Kafka's CoordinatorLoaderImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkapy.coordination.errors import describe
from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.records import BatchHeader, Record, decode_records, iter_headers
from kafkapy.storage.disk.files import is_exhausted

logger = logging.getLogger(__name__)


class LastRecords:
    """Folds the batches of a partition, in order of the log, to the last record of each key."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._latest: dict[bytes, tuple[int, bytes]] = {}
        """Offset in the log and value of the last record of each key; none for a tombstone."""
        self._open: dict[int, dict[bytes, tuple[int, bytes]]] = {}
        """The same for transactions that have not ended, by producer id."""

    def add(self, batches: bytes) -> None:
        """Take in whole batches. Raises DecodeError where the bytes are not batches."""
        view = memoryview(batches)
        for position, header in iter_headers(view):
            try:
                self._add(header, decode_records(view, position, header))
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "%s: offsets %d to %d cannot be read and are skipped: %s",
                    *(self._name, header.base_offset, header.last_offset, describe(error)),
                )

    def _add(self, header: BatchHeader, records: list[Record]) -> None:
        if header.is_control:
            for record in records:
                self._end_transaction(header.producer_id, parse_control_record_key(record.key))
            return
        target = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._latest
        for record in records:
            if record.key is None:
                logger.error("%s: offset %d has no key and is skipped", self._name, record.offset)
            elif record.value is None:
                self._latest.pop(record.key, None)
                for pending in self._open.values():
                    pending.pop(record.key, None)
            else:
                target[record.key] = (record.offset, record.value)

    def _end_transaction(self, producer_id: int, control: int) -> None:
        pending = self._open.pop(producer_id, {})
        if control == ControlType.COMMIT:
            for key, (offset, value) in pending.items():
                latest = self._latest.get(key)
                if latest is None or latest[0] < offset:
                    self._latest[key] = (offset, value)

    def replay(self, take: Callable[[bytes, bytes], None]) -> None:
        """Hand each record that counts to `take(key, value)`.

        A record that it cannot read is logged, and the next one follows.
        """
        for key, (offset, value) in self._latest.items():
            try:
                take(key, value)
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "%s: the record at offset %d cannot be read: %s", self._name, offset, describe(error)
                )
