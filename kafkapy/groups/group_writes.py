"""What writes a classic group's metadata to `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.coordination.errors import coordinator_error
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.metadata import group_metadata
from kafkapy.groups.loading import LoadedPartition
from kafkapy.groups.records import encode_group_key, encode_group_value


class GroupWrites:
    """Keeps metadata in the log (`kafkapy.groups.classic.store.GroupStore`)."""

    def __init__(self, runtime: CoordinatorRuntime[LoadedPartition]) -> None:
        self._runtime = runtime

    def store_group(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Write the group as it is now, its members with these assignments."""
        value = encode_group_value(group_metadata(group, assignments))
        self._runtime.write(
            group.group_id,
            [(encode_group_key(group.group_id), value)],
            lambda error: done(coordinator_error(error)),
        )
