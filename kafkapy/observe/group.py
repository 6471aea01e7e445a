"""A group: its state, its members, and how far it has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from kafkapy.groups.consumer.conversion import read_assignment
from kafkapy.observe.asking import ask
from kafkapy.observe.brokers import Brokers
from kafkapy.observe.offsets import offsets
from kafkapy.observe.topic import has_records
from kafkapy.observe.waiting import NotYet, until
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from kafkapy.protocol.messages.describe_groups import DescribedGroup as ClassicGroup
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkapy.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkapy.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST

if TYPE_CHECKING:
    from kafkapy.observe.asking import Observed

_STABLE: Final = "Stable"

_DESCRIBE: Final[dict[str, Callable[[str], TopMessage]]] = {
    "classic": lambda group: DescribeGroupsRequest(groups=[group]),
    "consumer": lambda group: ConsumerGroupDescribeRequest(group_ids=[group]),
    "share": lambda group: ShareGroupDescribeRequest(group_ids=[group]),
    "streams": lambda group: StreamsGroupDescribeRequest(group_ids=[group]),
}
"""The request that describes a group, by its type."""


class Member(NamedTuple):
    """A member of a group."""

    id: str
    client_id: str
    host: str


async def wait_until_stable(core: Observed, name: str, members: int | None, seconds: float) -> list[Member]:
    """The members of a group, when it is stable and has as many as wanted."""
    of = "" if members is None else f" with {members} members"

    async def look() -> list[Member] | NotYet:
        described = await _described(core, name)
        if described is None:
            return NotYet(f"there is no such group{_elsewhere(core)}")
        state, found = described
        if state == _STABLE and members in (None, len(found)):
            return found
        names = ", ".join(f"{each.id} (client id {each.client_id})" for each in found)
        return NotYet(f"it is {state}, with {len(found)} members{names and ': '}{names}")

    return await until(look, f"a stable group {name}{of}", seconds)


async def _described(core: Observed, name: str) -> tuple[str, list[Member]] | None:
    """The state and the members of a group; None if there is none."""
    group = await _description(core, name)
    if group is None:
        return None
    members = [Member(each.member_id, each.client_id, each.client_host) for each in group.members]
    return group.group_state, sorted(members)


async def _description(core: Observed, name: str) -> Any | None:
    """The answer about a group of any type; None if there is none."""
    listed = await ask(core, ListGroupsRequest())
    kind = next((each.group_type for each in listed.groups if each.group_id == name), None)
    if kind is None:
        return None
    answer = await ask(core, _DESCRIBE[kind.lower()](name))
    group = answer.groups[0]
    return None if group.error_code else group  # it has gone since, or has become one of another type


async def wait_until_caught_up(core: Observed, name: str, seconds: float) -> None:
    """Return when no record is left after what a group has committed, in all its topics.

    What ends a transaction takes an offset, and an aborted one takes more. A consumer that commits the
    offsets of its records never commits those.
    """

    async def look() -> NotYet | None:
        committed = await _committed(core, name)
        behind = [
            f"{topic}-{partition} by {end - at}"
            for (topic, partition), (at, end) in (await _positions(core, name, committed)).items()
            if at < end and await has_records(core, topic, partition, at)
        ]
        where = f" is behind in {', '.join(behind)}" if behind else ""
        if not committed:
            return NotYet(f"it has committed nothing{where and f', and{where}'}{_elsewhere(core)}")
        return NotYet(f"it{where}") if behind else None

    await until(look, f"group {name} to catch up", seconds)


async def wait_for_commit(
    core: Observed, name: str, topic: str, partition: int, offset: int, seconds: float
) -> int:
    """What a group has committed, when that is the offset or a later one."""

    async def look() -> int | NotYet:
        committed = await _committed(core, name)
        found = committed.get((topic, partition))
        if found is None:
            others = ", ".join(f"{each}-{index}: {at}" for (each, index), at in committed.items())
            return NotYet(f"it has committed {others or f'nothing{_elsewhere(core)}'}")
        return found if found >= offset else NotYet(f"it has committed {found}")

    return await until(look, f"group {name} to commit offset {offset} of {topic}-{partition}", seconds)


async def lags_of(core: Observed, name: str) -> dict[tuple[str, int], int]:
    """By topic and partition, how many offsets a group is behind."""
    positions = await _positions(core, name, await _committed(core, name))
    return {key: max(0, end - at) for key, (at, end) in positions.items()}


async def _positions(
    core: Observed, name: str, committed: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], tuple[int, int]]:
    """By topic and partition, where a group continues, and the end.

    These are the topics that it has committed offsets of, and those of its members. It begins with the first
    record of a partition without a committed offset.
    """
    topics = sorted({topic for topic, _ in committed} | await _assigned_topics(core, name))
    starts = await offsets(core, topics, EARLIEST)
    ends = await offsets(core, topics, LATEST)
    return {key: (committed.get(key, start), ends[key]) for key, start in starts.items() if key in ends}


async def _assigned_topics(core: Observed, name: str) -> set[str]:
    """The topics of the partitions that the members of a classic or a consumer group have."""
    group = await _description(core, name)
    if isinstance(group, ClassicGroup) and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return {topic for member in group.members for topic in _topics_in(member.member_assignment)}
    if isinstance(group, ConsumerGroup):
        assignments = [member.assignment for member in group.members if member.assignment is not None]
        return {each.topic_name for assignment in assignments for each in assignment.topic_partitions}
    return set()


def _topics_in(assignment: bytes) -> list[str]:
    """The topics in what a classic member was assigned; some clients put something else there."""
    try:
        return [each.topic for each in read_assignment(assignment).assigned_partitions]
    except DecodeError:
        return []


async def _committed(core: Observed, name: str) -> dict[tuple[str, int], int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None)])
    answer = await ask(core, request)
    names = core.metadata.image.topic_name
    return {
        (names(topic.topic_id) or topic.name, each.partition_index): each.committed_offset
        for topic in answer.groups[0].topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def _elsewhere(core: Observed) -> str:
    """What to think of where there are other brokers, which were not asked."""
    if isinstance(core, Brokers) or len(core.metadata.image.brokers) == 1:
        return ""
    return " here; another broker may coordinate it"
