"""The requests of a group coordinator to share coordinators (`kafkapy.share.persister`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from kafkapy.groups.share.member import Partitions
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition, Uuid

NO_OFFSET: Final = -1
"""The start offset of a share partition that nobody has read from yet."""

SharePartitionErrors = Mapping[tuple[Uuid, int], KafkaError]
"""The errors of those partitions (topic id and number) that have one."""


class StateSummary(NamedTuple):
    """The summary of a share partition by its share coordinator."""

    start_offset: int
    delivery_complete_count: int
    """The records after the start offset that need no delivery any more; -1 if that is not known."""
    leader_epoch: int


class StateKeeper(Protocol):
    """Keeps the states of share partitions, in share coordinators."""

    async def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[Uuid, Mapping[int, int]]
    ) -> SharePartitionErrors:
        """Let share partitions begin at these offsets (NO_OFFSET: where the group's settings say)."""

    async def delete(self, group_id: str, partitions: Partitions) -> SharePartitionErrors:
        """Forget the states of share partitions."""

    async def summaries(
        self, group_id: str, partitions: Mapping[Uuid, Collection[int]]
    ) -> Mapping[tuple[Uuid, int], StateSummary | KafkaError]:
        """The summary of each share partition."""

    async def end_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | ErrorCode]:
        """The end offset of each partition."""
