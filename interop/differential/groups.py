"""A group member made of raw requests."""

from __future__ import annotations

from typing import Any

from interop.differential.brokers import Broker
from interop.support.waiting import wait_until
from kafkapy.protocol.codec import encode
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN, SYNC = 9, 5
SUBSCRIPTION = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=["t"]), 0)


def find_coordinator(broker: Broker) -> None:
    """Wait until the broker coordinates groups; the first request creates their topic.

    It asks for groups of many names, so that every partition is asked: partitions are loaded one by one.
    """
    names = [f"any-{number}" for number in range(50)]

    def ready() -> bool:
        found = broker.main.quietly(FindCoordinatorRequest(key="any"), 2)
        listed = broker.main.quietly(ListGroupsRequest(), 0)
        described = broker.main.quietly(DescribeGroupsRequest(groups=names), 0)
        codes = {found.error_code, listed.error_code, *(each.error_code for each in described.groups)}
        return codes == {0}

    wait_until(ready)


def wait_for_state(broker: Broker, group: str, state: str) -> None:
    """Wait until the group has this state."""

    def reached() -> bool:
        (described,) = broker.main.quietly(DescribeGroupsRequest(groups=[group]), 0).groups
        return bool(described.group_state == state)

    wait_until(reached)


class Member:
    """One member, with a connection of its own; `version` is that of its JoinGroup."""

    def __init__(
        self, broker: Broker, group: str, version: int, *, name: str = "", instance: str | None = None
    ) -> None:
        self.group, self.instance = group, instance
        self.member_id, self.generation = "", -1
        self._broker, self._version = broker, version
        self._name = f"v{version} {name}".rstrip()
        self._connection = broker.connect()

    def request(self, **fields: Any) -> JoinGroupRequest:
        return JoinGroupRequest(
            **{
                "group_id": self.group,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": self.member_id,
                "group_instance_id": self.instance if self._version >= 5 else None,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
                **fields,
            }
        )

    def join(self, label: str) -> Any:
        self.begin_join()
        return self.end_join(label)

    def begin_join(self) -> None:
        self._connection.begin(self.request(), self._version)

    def end_join(self, label: str) -> Any:
        answer = self._connection.end(f"{self._name} {label} (join)", self.request(), self._version)
        if answer.error_code in (0, 79):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync_request(self, assignments: dict[str, bytes], **fields: Any) -> SyncGroupRequest:
        return SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self.instance,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [
                    SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                    for member_id, assignment in assignments.items()
                ],
                **fields,
            }
        )

    def sync(self, label: str, assignments: dict[str, bytes], *, version: int = SYNC) -> Any:
        self._connection.begin(self.sync_request(assignments), version)
        return self.end_sync(label, version=version)

    def begin_sync(self) -> None:
        self._connection.begin(self.sync_request({}), SYNC)

    def end_sync(self, label: str, *, version: int = SYNC) -> Any:
        return self._connection.end(f"{self._name} {label} (sync)", self.sync_request({}), version)


def heartbeat(
    broker: Broker, label: str, member: Member, version: int, *, generation: int | None = None
) -> None:
    request = HeartbeatRequest(
        group_id=member.group,
        generation_id=member.generation if generation is None else generation,
        member_id=member.member_id,
        group_instance_id=member.instance if version >= 3 else None,
    )
    broker.ask(label, request, version)


def leave(broker: Broker, label: str, member: Member, version: int, *, member_id: str | None = None) -> None:
    own = member.member_id if member_id is None else member_id
    request = LeaveGroupRequest(group_id=member.group, member_id=own)
    if version >= 3:
        identity = MemberIdentity(member_id=own, group_instance_id=member.instance)
        request = LeaveGroupRequest(group_id=member.group, members=[identity])
    broker.ask(label, request, version)
