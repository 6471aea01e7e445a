"""Writes and removes committed offsets: commits, deletions, expiry.

A write becomes visible in `Offsets` when it is committed, whatever happened to the group meanwhile: the
committed log decides, as after a restart. One in a transaction waits for the transaction's marker too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import TOO_LARGE, coordinator_error
from kafkapy.coordination.pending_write import PendingWrite, report
from kafkapy.coordination.runtime import CoordinatorRuntime, TransactionalProducer
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.group import Group
from kafkapy.groups.offsets.committed_offset import EncodedOffset
from kafkapy.groups.offsets.offsets import Offsets
from kafkapy.groups.offsets.records import offset_records
from kafkapy.logs.text import shortened
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.markers import TransactionMarker

OFFSETS_AT_ONCE: Final = 500
"""The offsets that are written or removed in one piece, which takes about a millisecond."""

logger = logging.getLogger(__name__)


class OffsetWrites:
    """Writes offsets and tombstones, and applies them once they are committed."""

    def __init__(
        self, offsets: Offsets, runtime: CoordinatorRuntime[Any], deadlines: CommitDeadlines
    ) -> None:
        """`deadlines` limit how long clients wait for commits."""
        self._offsets = offsets
        self._runtime = runtime
        self._deadlines = deadlines

    def commit(
        self, group_id: str, commits: Mapping[TopicPartition, EncodedOffset]
    ) -> ErrorCode | PendingWrite[Any]:
        """Store offsets that the group accepts.

        Returns NONE if they are stored at once, and otherwise the outcome for `report`.
        """
        offsets = self._offsets

        def committed(start: int, stop: int) -> None:
            offsets.put(group_id, commits if stop - start == len(commits) else _part(commits, start, stop))

        return self._write_commits(group_id, commits, committed, None)

    def report(self, outcome: ErrorCode | PendingWrite[Any], done: Done) -> None:
        """Call `done` once, with the error of a commit for the client, when the outcome is known."""
        self._deadlines.report(outcome, lambda error: done(error and _commit_error(error)))

    def commit_in_transaction(
        self,
        group_id: str,
        producer: TransactionalProducer,
        commits: Mapping[TopicPartition, EncodedOffset],
        done: Done,
    ) -> None:
        """Store offsets that the group accepts as pending, until the transaction's marker comes.

        `done` is called once, with the error for the client.
        """
        pending = self._offsets.pending

        def committed(start: int, stop: int) -> None:
            for key, offset in _part(commits, start, stop).items():
                pending.put(group_id, key, producer.producer_id, offset)

        self.report(self._write_commits(group_id, commits, committed, producer), done)

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, marker: TransactionMarker, done: Done
    ) -> None:
        """Write the marker of a transaction to a partition of the offsets topic.

        Then the transaction's offsets count, or are dropped. `done` is called once, with NONE or the error of
        the append.
        """
        offsets, runtime = self._offsets, self._runtime

        def committed() -> None:
            for group_id in offsets.pending.groups_of(producer_id):
                if runtime.partition_of(group_id) == partition:
                    offsets.end_transaction(group_id, producer_id, commit=not marker.aborted)

        runtime.write_marker(partition, producer_id, producer_epoch, marker, done, committed=committed)

    def _write_commits(
        self,
        group_id: str,
        commits: Mapping[TopicPartition, EncodedOffset],
        committed: Callable[[int, int], None],
        producer: TransactionalProducer | None,
    ) -> ErrorCode | PendingWrite[Any]:
        records = offset_records(group_id, commits)
        outcome = self._runtime.write(group_id, records, committed=committed, producer=producer)
        if isinstance(outcome, PendingWrite):
            offsets, keys = self._offsets, commits.keys()
            offsets.begin_write(group_id, keys)
            outcome.when_done(lambda _: offsets.end_write(group_id, keys))
        return outcome

    def delete(self, group_id: str, keys: Collection[TopicPartition], done: Done) -> None:
        """Remove those of the given offsets that exist.

        `done` is called once, with the error for the client.
        """
        present = [key for key in keys if self._offsets.may_hold(group_id, key)]
        self.remove(group_id, present, lambda error: done(coordinator_error(error)))

    def remove(self, group_id: str, keys: Sequence[TopicPartition], done: Done) -> None:
        """Write tombstones for offsets."""
        self._remove(group_id, keys, (), done, None)

    def remove_group(
        self, group: Group, keys: Sequence[TopicPartition], done: Done, undone: Callable[[], object]
    ) -> None:
        """Write tombstones for offsets, then for the group.

        `undone` is called if the group remains.
        """
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
        records = offset_records(group_id, dict.fromkeys(keys))
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

        report(self._runtime.write(group_id, records, committed=committed, undone=undone), finished)


def _part(
    commits: Mapping[TopicPartition, EncodedOffset], start: int, stop: int
) -> Mapping[TopicPartition, EncodedOffset]:
    """The commits from `start` to `stop`, exclusive."""
    return dict(islice(commits.items(), start, stop))


def _commit_error(error: ErrorCode) -> ErrorCode:
    if error in TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return coordinator_error(error)


def ignore(error: ErrorCode) -> None:
    """Ignore the error of a removal: the next expiry of offsets tries it again."""
