"""Everything that writes committed offsets, or removes them: commits, deletions, expiry.

A write becomes visible in `Offsets` when it is committed, whatever else happened to the group in between. The
committed log decides: a restart would read the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kafkapy.coordination.runtime import CoordinatorRuntime, KeyValue
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.group import Group
from kafkapy.groups.loading import LoadedPartition
from kafkapy.groups.offsets import CommittedOffset, Offsets
from kafkapy.groups.records import encode_offset_key, encode_offset_value
from kafkapy.process.log_text import shortened
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class OffsetWrites:
    """Writes offsets and tombstones, and applies them once they are committed."""

    def __init__(self, offsets: Offsets, runtime: CoordinatorRuntime[LoadedPartition]) -> None:
        self._offsets = offsets
        self._runtime = runtime

    def commit(
        self, group_id: str, commits: Sequence[tuple[TopicPartition, CommittedOffset]], done: Done
    ) -> None:
        """Store offsets; `done` is called once they are durable, or with why they are not."""
        offsets = self._offsets
        keys = [key for key, _ in commits]
        offsets.begin_write(group_id, keys)

        def committed(start: int, stop: int) -> None:
            for key, offset in commits[start:stop]:
                offsets.put(group_id, key, offset)

        def finished(error: ErrorCode) -> None:
            offsets.end_write(group_id, keys)
            done(error)

        self._runtime.write(
            group_id,
            [(encode_offset_key(group_id, key), encode_offset_value(offset)) for key, offset in commits],
            finished,
            committed=committed,
        )

    def remove(self, group_id: str, keys: Sequence[TopicPartition], done: Done) -> None:
        """Write tombstones for offsets."""
        self._remove(group_id, keys, (), done, None)

    def remove_group(
        self, group: Group, keys: Sequence[TopicPartition], done: Done, undone: Callable[[], object]
    ) -> None:
        """Write tombstones for offsets, then for the group; `undone` is called if that stays."""
        self._remove(group.group_id, keys, group.tombstone_keys(), done, undone)

    def _remove(
        self,
        group_id: str,
        keys: Sequence[TopicPartition],
        group_keys: Sequence[bytes],
        done: Done,
        undone: Callable[[], object] | None,
    ) -> None:
        offsets = self._offsets
        records: list[KeyValue] = [(encode_offset_key(group_id, key), None) for key in keys]
        records += [(key, None) for key in group_keys]
        if not records:
            done(ErrorCode.NONE)
            return

        def committed(start: int, stop: int) -> None:
            for key in keys[start:stop]:
                offsets.remove(group_id, key)

        def finished(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                logger.warning("Group %s: offsets could not be removed: %s", shortened(group_id), error.name)
            done(error)

        self._runtime.write(group_id, records, finished, committed=committed, undone=undone)
