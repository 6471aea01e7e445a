"""Loads the states of share partitions from a partition of `__share_group_state`.

It runs in a worker thread and shares no state. A record that cannot be read is logged and skipped. Source:
Apache Kafka's CoordinatorLoaderImpl, ShareCoordinatorShard.
"""

from __future__ import annotations

import logging

from kafkapy.coordination.errors import describe
from kafkapy.protocol.records import decode_records, iter_headers
from kafkapy.share.state import ShareState
from kafkapy.share.state_records import ShareKey, decode_record
from kafkapy.share.states import replayed
from kafkapy.storage.disk.errors import is_exhausted

logger = logging.getLogger(__name__)


class ShareStateReplay:
    """Reads a partition (`kafkapy.coordination.runtime.Replay`)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._states: dict[ShareKey, ShareState] = {}

    def add(self, batches: bytes) -> None:
        """Add complete batches.

        Raises DecodeError if the bytes are not batches.
        """
        view = memoryview(batches)
        for position, header in iter_headers(view):
            if header.is_control:
                continue
            try:
                for record in decode_records(view, position, header):
                    self._take(record.offset, record.key, record.value)
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

    def result(self) -> dict[ShareKey, ShareState]:
        """The states after all batches."""
        return self._states

    def _take(self, offset: int, raw_key: bytes | None, value: bytes | None) -> None:
        try:
            found = decode_record(raw_key or b"", value)
        except Exception as error:
            if is_exhausted(error):
                raise
            logger.error(
                "%s: the record at offset %d cannot be read: %s", self._name, offset, describe(error)
            )
            return
        if found is None:
            return
        key, record = found
        state = replayed(self._states.get(key), record, offset)
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state
