"""The first and the last offsets of topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kafkapy.fetch.read import READ_COMMITTED
from kafkapy.observe.asking import ask
from kafkapy.observe.waiting import NotLedError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from kafkapy.observe.asking import Observed

_CLIENT: Final = -1
"""The replica id of those that are no replicas."""


async def offsets(core: Observed, topics: Iterable[str], timestamp: int) -> dict[tuple[str, int], int]:
    """The first or last offsets of the partitions of these topics.

    Raises:
        NotLedError: another broker leads one.
    """
    image = core.metadata.image
    asked = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                for index in range(len(image.topics[name].partitions))
            ],
        )
        for name in topics
        if name in image.topics
    ]
    request = ListOffsetsRequest(replica_id=_CLIENT, isolation_level=READ_COMMITTED, topics=asked)
    answer: Any = await ask(core, request)
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise NotLedError(topic.name, each.partition_index)
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }
