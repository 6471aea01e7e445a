"""Everything that writes committed offsets, or removes them: commits, deletions, expiry.

A write becomes visible in `Offsets` when it is committed, whatever else happened to the group in between: the
committed log decides, and a restart would read the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from kafkapy.groups.offsets import CommittedOffset, Offsets
from kafkapy.groups.offsets_topic import Done, OffsetsTopic
from kafkapy.groups.records import encode_group_key, encode_offset_key, encode_offset_value
from kafkapy.process.log_text import shortened
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class OffsetWrites:
    """Writes offsets and tombstones, and applies them once they are committed."""

    def __init__(self, offsets: Offsets, topic: OffsetsTopic) -> None:
        self._offsets = offsets
        self._topic = topic

    def commit(
        self, group_id: str, commits: Sequence[tuple[TopicPartition, CommittedOffset]], done: Done
    ) -> None:
        """Store offsets; `done` is called once they are durable, or with why they are not."""
        offsets = self._offsets
        keys = [key for key, _ in commits]
        offsets.begin_write(group_id, keys)

        def finished(error: ErrorCode) -> None:
            offsets.end_write(group_id, keys)
            if error is ErrorCode.NONE:
                for key, committed in commits:
                    offsets.put(group_id, key, committed)
            done(error)

        self._topic.write(
            group_id,
            [
                (encode_offset_key(group_id, key), encode_offset_value(committed))
                for key, committed in commits
            ],
            finished,
        )

    def remove(
        self, group_id: str, keys: Collection[TopicPartition], done: Done, *, with_group: bool = False
    ) -> None:
        """Write tombstones for offsets, and for the group's metadata after them."""
        offsets = self._offsets
        records: list[tuple[bytes, bytes | None]] = [(encode_offset_key(group_id, key), None) for key in keys]
        if with_group:
            records.append((encode_group_key(group_id), None))
        if not records:
            done(ErrorCode.NONE)
            return

        def finished(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for key in keys:
                    offsets.remove(group_id, key)
            else:
                logger.warning("Group %s: offsets could not be removed: %s", shortened(group_id), error.name)
            done(error)

        self._topic.write(group_id, records, finished)
