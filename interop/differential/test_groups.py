"""The membership of groups, dynamic and static, on both brokers.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup and FindCoordinator are compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from interop.differential.brokers import Broker, Pair
from interop.differential.groups import JOIN, Member, find_coordinator, heartbeat, leave, wait_for_state
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.sync_group import SyncGroupRequest

pytestmark = pytest.mark.jvm


def test_find_coordinator(pair: Pair) -> None:
    def find(broker: Broker) -> None:
        find_coordinator(broker)
        for version in broker.versions(FindCoordinatorRequest):
            for kind in (0, 5) if version else (0,):
                for key in ("a-group", ""):
                    request = (
                        FindCoordinatorRequest(coordinator_keys=[key, "b"], key_type=kind)
                        if version >= 4
                        else FindCoordinatorRequest(key=key, key_type=kind)
                    )
                    broker.ask(f"v{version} {key!r} of type {kind}", request, version)

    pair.compare(find)


def test_one_dynamic_member_in_every_version(pair: Pair) -> None:
    def dynamic(broker: Broker) -> None:
        find_coordinator(broker)
        for version in broker.versions(JoinGroupRequest):
            member = Member(broker, broker.name_of(f"v{version}"), version)
            joined = member.join("join")
            sync = min(version, 5)
            if version >= 4:
                joined = member.join("join with the id")
            label = f"v{version}"
            member.sync("sync", {joined.member_id: b"assigned"}, version=sync)
            for hb in broker.versions(HeartbeatRequest):
                heartbeat(broker, f"{label} heartbeat v{hb}", member, hb)
                heartbeat(broker, f"{label} heartbeat v{hb}, old generation", member, hb, generation=-5)
            member.join("join again")
            heartbeat(broker, f"{label} heartbeat while others join", member, 4)
            member.sync("sync again", {joined.member_id: b"again"}, version=sync)
            member.sync("sync once more", {}, version=sync)
            leave(broker, f"{label} leave", member, min(version, 5))
            heartbeat(broker, f"{label} heartbeat after leaving", member, 4)
            leave(broker, f"{label} leave again", member, min(version, 5))

    pair.compare(dynamic)


def test_two_members(pair: Pair) -> None:
    def two(broker: Broker) -> None:
        find_coordinator(broker)
        group = broker.name_of("group")
        first, second = (Member(broker, group, JOIN, name=name) for name in ("first", "second"))
        first.join("id")
        first.join("join")
        first.sync("sync", {first.member_id: b"all"})
        second.join("id")
        second.begin_join()
        wait_for_state(broker, group, "PreparingRebalance")
        heartbeat(broker, "first hears of it", first, 4)
        first.join("joins again")
        second.end_join("joins")
        heartbeat(broker, "between join and sync", first, 4)
        second.begin_sync()
        first.sync("syncs", {first.member_id: b"one", second.member_id: b"two"})
        second.end_sync("syncs")
        leave(broker, "second leaves", second, 5)
        heartbeat(broker, "first hears of that", first, 4)
        first.join("is alone")
        first.sync("syncs alone", {first.member_id: b"all"})
        heartbeat(broker, "first is stable", first, 4)

    pair.compare(two)


def test_refused_joins(pair: Pair) -> None:
    def refused(broker: Broker) -> None:
        find_coordinator(broker)
        for version in broker.versions(JoinGroupRequest):

            def ask(label: str, version: int = version, **fields: Any) -> None:
                group = broker.name_of(f"{label}-{version}")
                broker.ask(f"v{version} {label}", Member(broker, group, version).request(**fields), version)

            ask("empty group", group_id="")
            ask("session too short", session_timeout_ms=10)
            ask("session too long", session_timeout_ms=10**8)
            ask("unknown member", member_id="nobody")
            ask("no protocols", protocols=[])
            ask("no protocol type", protocol_type="")
            if version >= 5:
                ask("unknown member with instance", member_id="nobody", group_instance_id="i")
                ask("bad instance", group_instance_id="a/b")
                ask("empty instance", group_instance_id="")
        member = Member(broker, broker.name_of("typed"), 3)
        member.join("first")
        member.sync("first", {member.member_id: b""}, version=3)
        broker.ask("other type", member.request(member_id="", protocol_type="connect"), 3)
        other = member.request(member_id="")
        other.protocols[0].name = "sticky"
        broker.ask("other protocol", other, 3)

    pair.compare(refused)


def test_refused_syncs_and_leaves(pair: Pair) -> None:
    def refused(broker: Broker) -> None:
        find_coordinator(broker)
        member = Member(broker, broker.name_of("group"), 3)
        member.join("join")
        for version in broker.versions(SyncGroupRequest):
            for label, fields in (
                ("unknown group", {"group_id": "nobody"}),
                ("empty group", {"group_id": ""}),
                ("unknown member", {"member_id": "nobody"}),
                ("old generation", {"generation_id": 0}),
                ("new generation", {"generation_id": 99}),
                ("wrong protocol", {"protocol_name": "other"}),
                ("wrong type", {"protocol_type": "other"}),
            ):
                if "protocol" in next(iter(fields)) and version < 5:
                    continue
                broker.ask(f"v{version} {label}", member.sync_request({}, **fields), version)
        for version in broker.versions(HeartbeatRequest):
            for label, fields in (("group", {"group_id": "nobody"}), ("member", {"member_id": "nobody"})):
                named: dict[str, Any] = {"group_id": member.group, "member_id": member.member_id, **fields}
                request = HeartbeatRequest(generation_id=1, **named)
                broker.ask(f"heartbeat v{version}, unknown {label}", request, version)
            request = HeartbeatRequest(group_id="", member_id="m", generation_id=1)
            broker.ask(f"heartbeat v{version}, empty group", request, version)
        for version in broker.versions(LeaveGroupRequest):
            for group in (member.group, "nobody", ""):
                leave = LeaveGroupRequest(group_id=group, member_id="nobody")
                if version >= 3:
                    identities = [
                        MemberIdentity(member_id="nobody"),
                        MemberIdentity(member_id="", group_instance_id="nobody"),
                    ]
                    leave = LeaveGroupRequest(group_id=group, members=identities)
                broker.ask(f"leave v{version} of {group!r}", leave, version)
            if version >= 3:
                leave = LeaveGroupRequest(group_id=member.group, members=[])
                broker.ask(f"leave v{version} of none", leave, version)

    pair.compare(refused)


def test_static_members(pair: Pair) -> None:
    def static(broker: Broker) -> None:
        find_coordinator(broker)
        for version in broker.versions(JoinGroupRequest, 5):
            sync = min(version, 5)
            group = broker.name_of(f"v{version}")
            member = Member(broker, group, version, instance="one")
            member.join("join")
            member.sync("sync", {member.member_id: b"all"}, version=sync)
            old = member.member_id
            member.member_id = ""
            member.join("comes back")
            member.sync("sync after coming back", {member.member_id: b"more"}, version=sync)
            label = f"v{version}"
            heartbeat(broker, f"{label} heartbeat", member, 4)
            new, member.member_id = member.member_id, old
            heartbeat(broker, f"{label} the old one's heartbeat", member, 4)
            member.join("the old one joins")
            member.sync("the old one syncs", {}, version=sync)
            leave(broker, f"{label} the old one leaves", member, 5)
            member.member_id = new
            leave(broker, f"{label} leaves by instance", member, 5, member_id="")
            heartbeat(broker, f"{label} after leaving", member, 4)

    pair.compare(static)
