"""What the members of groups of all types take together is counted, and has a limit."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.classic.join import Joining
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.member_memory import MemberLimits
from kafkapy.groups.modern.heartbeats import Client
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkapy.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology
from kafkapy.protocol.messages.streams_group_heartbeat import Topology as WireTopology
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.groups.classic_world import ClassicWorld

REFUSED = ErrorCode.GROUP_MAX_SIZE_REACHED
CLIENT = Client("c", "/127.0.0.1")
LIMIT = 1 << 20


@pytest.fixture
async def cluster() -> AsyncIterator[ClassicWorld]:
    made = await ClassicWorld().start()
    yield made
    check_totals(made.groups)
    await made.groups.stop()


@pytest.fixture
def limit(cluster: ClassicWorld) -> int:
    """A limit for the members of all groups, of which half is for small ones."""
    cluster.groups.groups.members.limits = MemberLimits(LIMIT, for_small=LIMIT // 2)
    return LIMIT


def check_totals(coordinator: GroupCoordinator) -> None:
    """Assert that the total of all groups is the sum of theirs."""
    groups = coordinator.groups
    for group in groups.values():
        check: Callable[[], None] = getattr(group, "check", lambda: None)
        check()
    assert groups.members.nbytes == sum(group.memory.nbytes for group in groups.values())
    unresolved = sum(group.memory.unresolved_regexes for group in groups.values())
    assert groups.members.unresolved_regexes == unresolved


# --- members of each type ---------------------------------------------------------------------------------


def join_classic(groups: GroupCoordinator, group_id: str, **fields: Any) -> ErrorCode:
    """JoinGroup; the error is NONE while the member waits."""
    values: dict[str, Any] = {
        "version": 3,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "member_id": "",
        "group_instance_id": None,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", b"\0\0" + bytes(8)),),
        "reason": "a test",
    }
    answer = groups.join_group(group_id, Joining(**{**values, **fields}))
    return ErrorCode(answer.error_code) if isinstance(answer, JoinGroupResponse) else ErrorCode.NONE


def join_consumer(groups: GroupCoordinator, group_id: str, **fields: Any) -> ErrorCode:
    client = Client(fields.pop("client_id", "c"), "/127.0.0.1")
    values: dict[str, Any] = {"member_id": "m", "rebalance_timeout_ms": 60_000, "topic_partitions": []}
    values["subscribed_topic_names"] = ["t"]
    request = ConsumerGroupHeartbeatRequest(group_id=group_id, **{**values, **fields})
    return _error(lambda: groups.consumer_heartbeat(request, 1, client))


def join_share(groups: GroupCoordinator, group_id: str, **fields: Any) -> ErrorCode:
    client = Client(fields.pop("client_id", "c"), "/127.0.0.1")
    values: dict[str, Any] = {"member_id": "m", "subscribed_topic_names": ["t"], **fields}
    request = ShareGroupHeartbeatRequest(group_id=group_id, **values)
    return _error(lambda: groups.share_heartbeat(request, client))


def join_streams(groups: GroupCoordinator, group_id: str, **fields: Any) -> ErrorCode:
    client = Client(fields.pop("client_id", "c"), "/127.0.0.1")
    topics = fields.pop("topics", ["t"])
    topology = WireTopology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=topics)])
    request = StreamsGroupHeartbeatRequest(
        group_id=group_id,
        **{
            "member_id": "m",
            "rebalance_timeout_ms": 60_000,
            "process_id": "p",
            "topology": topology,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            **fields,
        },
    )
    return _error(lambda: groups.streams_heartbeat(request, client))


def _error(ask: Callable[[], Any]) -> ErrorCode:
    try:
        answer = ask()
    except KafkaError as error:
        return error.code
    response = getattr(answer, "response", answer)
    return ErrorCode(response.error_code)


Join = Callable[..., ErrorCode]
LONG = "x" * 5_000

GROWN: list[tuple[Join, str, Any]] = [
    (join_classic, "client_id", LONG),
    (join_classic, "group_instance_id", LONG),
    (join_classic, "protocol_type", LONG),
    (join_classic, "protocols", (("range", bytes(5_000)),)),
    (join_consumer, "client_id", LONG),
    (join_consumer, "member_id", LONG),
    (join_consumer, "instance_id", LONG),
    (join_consumer, "rack_id", LONG),
    (join_consumer, "subscribed_topic_names", [LONG]),
    (join_share, "client_id", LONG),
    (join_share, "rack_id", LONG),
    (join_share, "subscribed_topic_names", [LONG]),
    (join_streams, "client_id", LONG),
    (join_streams, "member_id", LONG),
    (join_streams, "rack_id", LONG),
    (join_streams, "process_id", LONG),
    (join_streams, "topics", [f"{number:0200}" for number in range(25)]),
]


@pytest.mark.parametrize(("join", "name", "value"), GROWN, ids=[f"{j.__name__}-{n}" for j, n, _ in GROWN])
async def test_each_thing_that_a_member_says_of_itself_counts(
    cluster: ClassicWorld, limit: int, join: Join, name: str, value: Any
) -> None:
    groups = cluster.groups
    few = limit // 5_000
    if join is join_share and groups.shares._state is None:
        groups.shares._state = _NoState()  # type: ignore[assignment]
    joined = [join(groups, f"g{number}", **{name: value}) for number in range(few + 1)]
    assert joined[:5] == [ErrorCode.NONE] * 5
    assert joined[-1] is REFUSED
    assert groups.groups.members.nbytes <= limit
    assert len(groups.groups) < few
    check_totals(groups)


class _NoState:
    """Keeps no states of share partitions: none is asked for."""


@pytest.mark.parametrize("join", [join_classic, join_consumer, join_share, join_streams])
async def test_small_members_join_until_all_take_what_they_may(
    cluster: ClassicWorld, limit: int, join: Join
) -> None:
    groups = cluster.groups
    groups.shares._state = _NoState()  # type: ignore[assignment]
    joined = [join(groups, f"g{number}") for number in range(limit // 2_048)]
    assert joined[: limit // 5_000] == [ErrorCode.NONE] * (limit // 5_000)
    assert joined[-1] is REFUSED
    assert groups.groups.members.nbytes <= limit


async def test_a_large_member_leaves_room_for_small_ones(cluster: ClassicWorld, limit: int) -> None:
    large = (("range", bytes(100_000)),)
    joined = [join_classic(cluster.groups, f"g{number}", protocols=large) for number in range(10)]
    assert joined == [ErrorCode.NONE] * 5 + [REFUSED] * 5
    assert join_classic(cluster.groups, "small") is ErrorCode.NONE


async def test_a_member_that_is_there_stays_when_all_take_what_they_may(cluster: ClassicWorld) -> None:
    groups = cluster.groups
    assert join_consumer(groups, "g") is ErrorCode.NONE
    groups.groups.members.limits = MemberLimits(0)
    assert join_consumer(groups, "g2") is REFUSED
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
    answer = groups.consumer_heartbeat(beat, 1, CLIENT)
    assert getattr(answer, "error_code", None) == ErrorCode.NONE
    assert join_consumer(groups, "g", rack_id=LONG) is REFUSED, "it must not grow"
    left = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
    answer = groups.consumer_heartbeat(left, 1, CLIENT)
    assert getattr(answer, "error_code", None) == ErrorCode.NONE
    assert groups.groups.members.nbytes == 0


async def test_member_ids_that_are_handed_out_count_until_they_expire(
    cluster: ClassicWorld, limit: int
) -> None:
    groups = cluster.groups
    for number in range(limit):
        if join_classic(groups, f"g{number}", version=4) is REFUSED:
            break
    assert number < limit // 1_024
    assert groups.groups.members.nbytes <= limit
    check_totals(groups)
    cluster.timers.advance(10)
    assert groups.groups.members.nbytes == 0
    assert join_classic(groups, "more", version=4) is ErrorCode.MEMBER_ID_REQUIRED


async def test_assignments_that_leaders_give_count(
    cluster: ClassicWorld, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    groups = cluster.groups
    errors = []
    for number in range(8):
        waiting = groups.join_group(f"g{number}", _joining())
        cluster.timers.advance(0.1)
        joined = waiting if isinstance(waiting, JoinGroupResponse) else await waiting
        assert joined.error_code == ErrorCode.NONE
        synced = groups.sync_group(
            SyncGroupRequest(
                group_id=f"g{number}",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(limit // 5)),
                    SyncGroupRequestAssignment(member_id="nobody", assignment=bytes(limit)),
                ],
            )
        )
        response = synced if isinstance(synced, SyncGroupResponse) else await synced
        errors.append(response.error_code)
        check_totals(groups)
    assert errors == [ErrorCode.NONE] * 4 + [ErrorCode.UNKNOWN_SERVER_ERROR] * 4
    assert groups.groups.members.nbytes <= limit
    assert "its assignment is refused" in caplog.text


def _joining() -> Joining:
    return Joining(3, "c", "/h", "", None, 100_000, 100_000, "consumer", (("range", bytes(10)),), "")


async def test_the_totals_follow_groups_that_are_loaded_deleted_and_converted(cluster: ClassicWorld) -> None:
    groups = cluster.groups
    for number in range(3):
        assert join_consumer(groups, f"c{number}", rack_id=LONG) is ErrorCode.NONE
        assert join_streams(groups, f"s{number}", process_id=LONG) is ErrorCode.NONE
    await cluster.join(group="classic")
    check_totals(groups)
    before = groups.groups.members.nbytes
    groups = await cluster.restart()
    check_totals(groups)
    assert groups.groups.members.nbytes == pytest.approx(before, rel=0.01)
    answers: list[ErrorCode] = []
    left = ConsumerGroupHeartbeatRequest(group_id="c0", member_id="m", member_epoch=-1)
    groups.consumer_heartbeat(left, 1, CLIENT)
    list(groups.delete_group("c0", answers.append))
    assert answers == [ErrorCode.NONE]
    check_totals(groups)
    classic = groups.groups["classic"]
    assert isinstance(classic, ClassicGroup)
    assert join_consumer(groups, "classic") is ErrorCode.GROUP_ID_NOT_FOUND, "it does not speak of topics"
    check_totals(groups)
    groups.unload(range(4))
    assert groups.groups.members.nbytes == 0
    assert not groups.groups


async def test_members_take_about_as_much_as_is_counted(cluster: ClassicWorld) -> None:
    groups = cluster.groups
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            text = f"{number:03}" + "é" * 10_000 + "\U0001f600"
            fields = {"rack_id": text + "r", "instance_id": text + "i", "client_id": text + "c"}
            assert join_consumer(groups, f"g{number}", member_id=text + "m", **fields) is ErrorCode.NONE
            cluster.log.batches = [[] for _ in cluster.log.batches]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 1.2 * groups.groups.members.nbytes
