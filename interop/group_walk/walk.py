"""A random walk of group requests, and the state from which the next request is chosen."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from interop.group_walk.side import Shown
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC = "walked"
SESSION_MS = 30_000
FIRST_VERSION_WITH_REQUIRED_ID = 4

_T = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=[TOPIC]), 0)
_OTHER = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=["other"]), 0)
PROTOCOLS = [
    [("range", _T)],
    [("range", _T), ("sticky", b"")],
    [("range", _OTHER)],
    [("roundrobin", _T)],
]

ToReal = Callable[[str], str]
Request = tuple[TopMessage, int]


def fetch_all(*groups: str) -> OffsetFetchRequest:
    """All offsets of these groups."""
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups])


@dataclass
class Step:
    """Makes a request for one side, with the member ids of that side."""

    name: str
    make: Callable[[str, ToReal], Request]
    member: str = ""
    """The member that sends it; None if no known member does."""
    instance: str | None = None


@dataclass
class Walk:
    """The state of the walk; it names members m0, m1 ..."""

    chance: random.Random
    generation: int = 0
    leader: str = ""
    instances: dict[str, str | None] = field(default_factory=dict)
    """group.instance.id by member."""
    protocols: dict[str, int] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """Members that were given an id and have not used it yet."""
    waiting: set[str] = field(default_factory=set)
    """Members that wait for an answer."""
    unnamed: int | None = None
    """The step of a dynamic newcomer that waits for its id. There is at most one: two would look the same."""

    def next(self, number: int) -> Step:
        """Return the next step, which is valid in most cases."""
        chance = self.chance
        idle = [member for member in self.instances if member not in self.waiting]
        member = chance.choice(idle) if idle and chance.random() < 0.95 else "nobody"
        instance = self.instances.get(member)
        if member not in self.pending and chance.random() < 0.05:
            instance = chance.choice([None, "i", "j"])
        generation = self.generation + chance.choice([0] * 9 + [-1, 1])
        [kind] = chance.choices(
            [
                "newcomer",
                "join",
                "sync",
                "heartbeat",
                "leave",
                "describe",
                "commit",
                "fetch",
                "forget",
                "delete",
            ],
            [20, 25, 25, 6, 6, 6, 6, 3, 2, 1],
        )
        if kind == "newcomer":
            instance = chance.choice([None, None, "i", "j"])
            return self._join(number, "", instance, chance.choice([0, 0, 0, 1, 2, 3]))
        if kind == "join":
            same = chance.random() < 0.7
            protocols = self.protocols.get(member, 0) if same else chance.randrange(4)
            return self._join(number, member, instance, protocols)
        if kind == "sync":
            return self._sync(member, instance, generation)
        if kind == "heartbeat":
            return Step(
                f"heartbeat of {member}/{instance} in {generation}",
                lambda group, real: (
                    HeartbeatRequest(
                        group_id=group,
                        generation_id=generation,
                        member_id=real(member),
                        group_instance_id=instance,
                    ),
                    4,
                ),
                member,
            )
        if kind == "leave" and self._may_leave(member):
            return Step(
                f"{member}/{instance} leaves",
                lambda group, real: (
                    LeaveGroupRequest(
                        group_id=group,
                        members=[MemberIdentity(member_id=real(member), group_instance_id=instance)],
                    ),
                    5,
                ),
                member,
            )
        if kind == "commit":
            return self._commit(chance.choice([member, member, ""]), instance, generation, number)
        if kind == "fetch":
            return Step("fetch", lambda group, real: (fetch_all(group), 9))
        if kind == "forget":
            return self._forget()
        if kind == "delete":
            return Step("delete", lambda group, real: (DeleteGroupsRequest(groups_names=[group]), 2))
        return Step("describe", lambda group, real: (DescribeGroupsRequest(groups=[group]), 5))

    def _may_leave(self, member: str) -> bool:
        """Return whether a member may leave: not if it is pending, or may be the leader.

        Of two static members one may have replaced the other, so they may be the same.
        """
        follows = member != self.leader
        dynamic = None in (self.instances.get(member), self.instances.get(self.leader))
        return member not in self.pending and follows and dynamic

    def answered(self, number: int, step: Step, shown: Shown) -> None:
        """Learn from an answer that both brokers gave."""
        self.waiting.discard(step.member)
        if self.unnamed == number:
            self.unnamed = None
        if shown.kind != "JoinGroup":
            return
        if shown.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.pending.add(shown.member)
        elif shown.error != ErrorCode.NONE:
            return
        else:
            self.pending.discard(shown.member)
            self.generation = max(self.generation, shown.generation)
            self.leader = shown.leader
        self.instances.setdefault(shown.member, step.instance)

    def _join(self, number: int, member: str, instance: str | None, protocols: int) -> Step:
        versions = [9, 9, 8, 5]
        if not member and instance is None:
            versions = [9, 8, 5, 4] if self.unnamed is not None else [9, 4, 3, 2]
        version = self.chance.choice(versions)
        if version < FIRST_VERSION_WITH_REQUIRED_ID:
            self.unnamed = number

        def make(group: str, real: ToReal) -> Request:
            request = JoinGroupRequest(
                group_id=group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=real(member),
                group_instance_id=instance,
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=metadata)
                    for name, metadata in PROTOCOLS[protocols]
                ],
            )
            return request, version

        if member:
            self.protocols[member] = protocols
        story = f"join v{version} of {member or 'a newcomer'}/{instance} with {protocols}"
        return Step(story, make, member, instance)

    def _sync(self, member: str, instance: str | None, generation: int) -> Step:
        known = list(self.instances)
        given = self.chance.sample(known, self.chance.randint(0, len(known)))
        protocol = self.chance.choice(["range"] * 6 + ["sticky"])

        def make(group: str, real: ToReal) -> Request:
            request = SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=real(member),
                group_instance_id=instance,
                protocol_type="consumer",
                protocol_name=protocol,
                assignments=[
                    SyncGroupRequestAssignment(member_id=real(each), assignment=each.encode())
                    for each in given
                ],
            )
            return request, 5

        return Step(f"sync of {member}/{instance} in {generation} as {protocol}, gives {given}", make, member)

    def _commit(self, member: str, instance: str | None, generation: int, number: int) -> Step:
        generation = self.chance.choice([generation, generation, -1])
        partition = self.chance.choice([0, 0, 0, 5])
        version = self.chance.choice([9, 8, 2])

        def make(group: str, real: ToReal) -> Request:
            request = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=real(member),
                group_instance_id=instance if version >= 7 else None,
                topics=[
                    OffsetCommitRequestTopic(
                        name=TOPIC,
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=partition, committed_offset=number)
                        ],
                    )
                ],
            )
            return request, version

        return Step(f"commit v{version} of {member}/{instance} in {generation} for {partition}", make, member)

    def _forget(self) -> Step:
        topic = self.chance.choice([TOPIC, "other"])

        def make(group: str, real: ToReal) -> Request:
            partitions = [OffsetDeleteRequestPartition(partition_index=0)]
            topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
            return OffsetDeleteRequest(group_id=group, topics=topics), 0

        return Step(f"forget offsets of {topic}", make)
