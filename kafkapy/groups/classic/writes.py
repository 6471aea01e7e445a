"""Writes the metadata of classic groups to `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import coordinator_error
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.metadata import group_metadata
from kafkapy.groups.loading import LoadedPartition
from kafkapy.groups.records import encode_group_key, encode_group_value
from kafkapy.protocol.errors import ErrorCode


class GroupWrites:
    """Stores metadata in the log (see `kafkapy.groups.classic.store.GroupStore`)."""

    def __init__(self, runtime: CoordinatorRuntime[LoadedPartition], deadlines: CommitDeadlines) -> None:
        self._runtime = runtime
        self._deadlines = deadlines

    def store_group(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Write the group as it is now, its members with these assignments."""
        value = encode_group_value(group_metadata(group, assignments))
        outcome = self._runtime.write(group.group_id, [(encode_group_key(group.group_id), value)])
        self._deadlines.report(outcome, lambda error: done(_store_error(error)))


def _store_error(error: ErrorCode) -> ErrorCode:
    """The error that members get: after a timeout they join again, as in Apache Kafka."""
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return coordinator_error(error)
