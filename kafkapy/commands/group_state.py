"""Groups of all types: their members, offsets and lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.structs import TopicPartition

from kafkapy.commands import messages
from kafkapy.commands.connection.admin import Admin, Coordinator
from kafkapy.commands.connection.failures import check
from kafkapy.commands.reading import ends
from kafkapy.commands.share_offsets import share_offsets, share_positions
from kafkapy.errors import UserError

CLASSIC: Final = "classic"


@dataclass(slots=True)
class Member:
    """A member of a group, with the partitions that it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Any]

    def row(self) -> dict[str, Any]:
        """The member as an object."""
        return {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "host": self.host,
            "partitions": [f"{each.topic}:{each.partition}" for each in sorted(self.partitions)],
        }


@dataclass(slots=True)
class Group:
    """A group as its coordinator describes it."""

    name: str
    type: str
    state: str
    assignor: str
    members: list[Member] = field(default_factory=list)
    epoch: int | None = None


def listed(admin: Admin) -> dict[str, dict[str, Any]]:
    """The groups of the cluster, by name."""
    with admin.calls() as client:
        found = client.list_groups(broker_ids=admin.broker_ids())
    return {
        group["group_id"]: {
            "group": group["group_id"],
            "type": (group.get("group_type") or CLASSIC).lower(),
            "state": group.get("group_state"),
            "protocol": group["protocol_type"],
        }
        for group in sorted(found, key=lambda group: str(group["group_id"]))
    }


def known(admin: Admin, names: Iterable[str]) -> dict[str, str]:
    """The types of groups; raises UserError for one that does not exist."""
    groups = listed(admin)
    for name in names:
        if name not in groups:
            raise UserError(f"there is no group {name}; kafkapy groups list names all")
    return {name: groups[name]["type"] for name in names}


def described(admin: Admin, types: Mapping[str, str]) -> list[Group]:
    """Groups with their members, in the order of `types`."""
    found: dict[str, Group] = {}
    for type_, describe in _DESCRIBE.items():
        if names := [name for name, own in types.items() if own == type_]:
            found |= {group.name: group for group in describe(admin, names)}
    return [found[name] for name in types if name in found]


def committed(admin: Admin, types: Mapping[str, str]) -> dict[str, dict[Any, int]]:
    """The committed offsets by group; of a share group, where its records begin."""
    offsets: dict[str, dict[Any, int]] = {}
    if names := [name for name, type_ in types.items() if type_ != "share"]:
        with admin.calls() as client:
            found = client.list_group_offsets(names)
        for name, partitions in found.items():
            offsets[name] = {each: value.offset for each, value in partitions.items() if value.offset >= 0}
    for name in [name for name, type_ in types.items() if type_ == "share"]:
        offsets[name] = share_offsets(admin, name)
    return offsets


def lag_rows(admin: Admin, types: Mapping[str, str], groups: Iterable[Group] = ()) -> list[dict[str, Any]]:
    """Rows by group and partition: committed offset, end, and the records between.

    Partitions that members of `groups` have, and in which nothing is committed, have neither offset nor lag.
    """
    share = {name: share_positions(admin, name) for name, type_ in types.items() if type_ == "share"}
    offsets = committed(admin, {name: type_ for name, type_ in types.items() if name not in share})
    offsets |= {name: {each: own.start for each, own in found.items()} for name, found in share.items()}
    assigned = {
        group.name: {each for member in group.members for each in member.partitions} for group in groups
    }
    places = {name: {*offsets.get(name, ()), *assigned.get(name, ())} for name in types}
    existing = {topic["name"] for topic in admin.topics()}
    partitions = {each for own in places.values() for each in own if each.topic in existing}
    last = ends(admin, partitions)
    return [
        {
            "group": name,
            "topic": each.topic,
            "partition": each.partition,
            "committed": offsets.get(name, {}).get(each),
            "end": last.get(each),
            "lag": share[name][each].lag
            if name in share and each in share[name] and share[name][each].lag is not None
            else max(last[each] - offsets[name][each], 0)
            if each in last and each in offsets.get(name, ())
            else None,
        }
        for name in types
        for each in sorted(places[name])
    ]


def _classic(admin: Admin, names: list[str]) -> Iterator[Group]:
    with admin.calls() as client:
        found = client.describe_groups(names)
    for name, group in found.items():
        if group["error"]:
            raise UserError(f"group {name}: {group['error']}")
        members = [
            Member(
                member["member_id"],
                member.get("group_instance_id"),
                member["client_id"],
                member["client_host"],
                [
                    TopicPartition(topic["topic"], partition)
                    for topic in _assigned(member)
                    for partition in topic["partitions"]
                ],
            )
            for member in group["members"]
        ]
        yield Group(name, CLASSIC, group["group_state"], group["protocol_data"], members)


def _assigned(member: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The assignment of a consumer; members of other protocols have bytes of their own."""
    assignment = member["member_assignment"]
    return list(assignment["assigned_partitions"]) if isinstance(assignment, Mapping) else []


def _consumer(admin: Admin, names: list[str]) -> Iterator[Group]:
    yield from _modern(admin, names, "consumer", messages.ConsumerGroupDescribeRequest)


def _share(admin: Admin, names: list[str]) -> Iterator[Group]:
    yield from _modern(admin, names, "share", messages.ShareGroupDescribeRequest)


def _modern(admin: Admin, names: list[str], type_: str, request: Any) -> Iterator[Group]:
    for answer in admin.to_coordinators(names, Coordinator.GROUP, lambda own: request(group_ids=list(own))):
        for group in answer.groups:
            check(group.error_code, group.error_message, f"group {group.group_id}")
            members = [
                Member(
                    member.member_id,
                    getattr(member, "instance_id", None),
                    member.client_id,
                    member.client_host,
                    [
                        TopicPartition(topic.topic_name, partition)
                        for topic in member.assignment.topic_partitions
                        for partition in topic.partitions
                    ],
                )
                for member in group.members
            ]
            yield Group(
                group.group_id, type_, group.group_state, group.assignor_name, members, group.group_epoch
            )


def _streams(admin: Admin, names: list[str]) -> Iterator[Group]:
    request = messages.StreamsGroupDescribeRequest
    for answer in admin.to_coordinators(names, Coordinator.GROUP, lambda own: request(group_ids=list(own))):
        for group in answer.groups:
            check(group.error_code, group.error_message, f"group {group.group_id}")
            sources = {
                each.subtopology_id: [
                    *each.source_topics,
                    *(topic.name for topic in each.repartition_source_topics),
                ]
                for each in (group.topology.subtopologies if group.topology else ())
            }
            members = [
                Member(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    [
                        TopicPartition(topic, partition)
                        for task in member.assignment.active_tasks
                        for topic in sources.get(task.subtopology_id, ())
                        for partition in task.partitions
                    ],
                )
                for member in group.members
            ]
            yield Group(group.group_id, "streams", group.group_state, "", members, group.group_epoch)


_DESCRIBE: Final[dict[str, Callable[[Admin, list[str]], Iterator[Group]]]] = {
    CLASSIC: _classic,
    "consumer": _consumer,
    "share": _share,
    "streams": _streams,
}
