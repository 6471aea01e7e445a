"""StreamsGroupHeartbeat: joining, following, leaving, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from sys import getsizeof
from typing import Any

import pytest

from kafkapy.groups.classic.group import ClassicGroup
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.member_memory import MAX_TAGS, MemberLimits
from kafkapy.groups.member_total import TAG_BYTES
from kafkapy.groups.streams.configured_topology import Status
from kafkapy.groups.streams.group import StreamsGroup, StreamsGroupState
from kafkapy.groups.streams.member import MemberState
from kafkapy.groups.streams.tasks import Task
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkapy.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)
from kafkapy.protocol.types import ZERO_UUID
from tests.groups.consumer.consumer_world import join as consumer_join
from tests.groups.streams.streams_world import (
    CLIENT,
    NO_DELAYS,
    REBALANCE_MS,
    STATEFUL,
    STATELESS,
    WORD_COUNT,
    SimulatedThread,
    StreamsWorld,
    beat,
    join,
    subtopology,
    topology,
)


@pytest.fixture
async def world() -> AsyncIterator[StreamsWorld]:
    world = StreamsWorld()
    await world.start()
    world.topic("t", 4)
    yield world
    await world.groups.stop()


def active(answer: StreamsGroupHeartbeatResponse) -> dict[str, list[int]]:
    """The active tasks of an answer."""
    assert answer.active_tasks is not None
    return {each.subtopology_id: each.partitions for each in answer.active_tasks}


def statuses(answer: StreamsGroupHeartbeatResponse) -> dict[Status, str]:
    """The statuses of an answer, with their details."""
    return {Status(each.status_code): each.status_detail for each in answer.status or ()}


async def ready(world: StreamsWorld, *threads: SimulatedThread) -> None:
    """Let threads reach their target."""
    for _ in range(8):
        for thread in threads:
            assert await thread.heartbeat() is ErrorCode.NONE
            world.create_wanted()
    assert world.app.state is StreamsGroupState.STABLE
    world.app.check()


async def test_the_first_member_gets_all_tasks(world: StreamsWorld) -> None:
    answer = await world.beat(join("a"))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert active(answer) == {"0": [0, 1, 2, 3]}
    assert (answer.standby_tasks, answer.warmup_tasks, answer.status) == ([], [], [])
    assert answer.heartbeat_interval_ms == 5_000
    assert world.app.state is StreamsGroupState.STABLE
    world.check_app_stored()


async def test_tasks_are_sent_when_they_are_new(world: StreamsWorld) -> None:
    await world.beat(join("a"))
    answer = await world.beat(beat("a", 2))
    assert (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks) == (None, None, None)


async def test_a_task_moves_only_after_its_owner_gave_it_up(world: StreamsWorld) -> None:
    first, second = SimulatedThread(world, "a", "p", STATELESS), SimulatedThread(world, "b", "q", STATELESS)
    await first.heartbeat()
    await second.heartbeat()
    assert second.active == set()
    await first.heartbeat()
    assert world.app.members["a"].state is MemberState.UNREVOKED_TASKS
    await second.heartbeat()
    assert second.active == set()
    await ready(world, first, second)
    assert len(first.active) == len(second.active) == 2


async def test_internal_topics_are_asked_for_with_the_partitions_that_the_tasks_need(
    world: StreamsWorld,
) -> None:
    answer = await world.beat(join("a", WORD_COUNT))
    assert statuses(answer) == {
        Status.MISSING_INTERNAL_TOPICS: (
            "Internal topics are missing: app-words-changelog, app-words-repartition"
        )
    }
    assert {topic.name: topic.num_partitions for topic in world.wanted} == {
        "app-words-repartition": 4,
        "app-words-changelog": 4,
    }
    assert dict(world.wanted[1].configs) == {"cleanup.policy": "compact"}
    assert world.app.state is StreamsGroupState.NOT_READY
    assert active(answer) == {}
    world.create_wanted()
    answer = await world.beat(beat("a", answer.member_epoch))
    assert active(answer) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    assert statuses(answer) == {}
    assert world.wanted == ()


async def test_a_group_waits_for_its_source_topics(world: StreamsWorld) -> None:
    answer = await world.beat(join("a", topology(subtopology("0", ["missing"]))))
    assert statuses(answer) == {Status.MISSING_SOURCE_TOPICS: "Source topics missing are missing."}
    world.topic("missing", 2)
    answer = await world.beat(beat("a", answer.member_epoch))
    assert active(answer) == {"0": [0, 1]}


async def test_tasks_are_given_up_when_a_topic_is_deleted(world: StreamsWorld) -> None:
    thread = SimulatedThread(world, "a", "p", STATELESS)
    await ready(world, thread)
    world.delete_topic("t")
    await thread.heartbeat()
    await thread.heartbeat()
    assert thread.active == set()
    assert thread.statuses.keys() == {Status.MISSING_SOURCE_TOPICS}
    assert world.app.state is StreamsGroupState.NOT_READY


async def test_more_partitions_of_a_source_are_more_tasks(world: StreamsWorld) -> None:
    thread = SimulatedThread(world, "a", "p", STATELESS)
    await ready(world, thread)
    world.topic("t", 6)
    await ready(world, thread)
    assert len(thread.active) == 6


async def test_internal_topics_with_too_few_partitions_stop_the_group(world: StreamsWorld) -> None:
    thread = SimulatedThread(world, "a", "p", STATEFUL)
    await ready(world, thread)
    world.topic("t", 6)
    await thread.heartbeat()
    assert thread.statuses == {
        Status.INCORRECTLY_PARTITIONED_TOPICS: (
            "Existing topic app-state-changelog has different number of partitions: expected 6, found 4"
        )
    }


async def test_standby_tasks_are_in_other_processes(world: StreamsWorld) -> None:
    world.standbys(1)
    threads = [SimulatedThread(world, f"m{number}", f"p{number // 2}", STATEFUL) for number in range(4)]
    await ready(world, *threads)
    for process in ("p0", "p1"):
        mine = [thread for thread in threads if thread.process_id == process]
        running = {task for thread in mine for task in thread.active}
        copies = {task for thread in mine for task in thread.standby}
        assert len(running) == len(copies) == 2
        assert not running & copies


async def test_a_standby_task_becomes_active_when_the_process_is_lost(world: StreamsWorld) -> None:
    world.standbys(1)
    first, second = SimulatedThread(world, "a", "p", STATEFUL), SimulatedThread(world, "b", "q", STATEFUL)
    await ready(world, first, second)
    assert len(second.standby) == 2
    await first.leave()
    await ready(world, second)
    assert len(second.active) == 4
    assert second.standby == set()


async def test_a_change_of_the_standby_tasks_is_a_rebalance(world: StreamsWorld) -> None:
    threads = [SimulatedThread(world, each, each, STATEFUL) for each in "ab"]
    await ready(world, *threads)
    epoch = world.app.epoch
    world.standbys(1)
    await ready(world, *threads)
    assert world.app.epoch == epoch + 1
    assert sum(len(thread.standby) for thread in threads) == 4


async def test_the_first_assignment_waits_for_more_members() -> None:
    world = StreamsWorld(GroupConfig(streams_assignment_interval_ms=0))
    await world.start()
    world.topic("t", 4)
    first, second = await world.beat(join("a")), await world.beat(join("b"))
    for answer in (first, second):
        assert (answer.member_epoch, active(answer)) == (1, {})
        assert statuses(answer) == {
            Status.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured initial rebalance delay."
        }
    await world.advance(3.0)
    answers = [await world.beat(beat(member, 1)) for member in "ab"]
    assert [sum(map(len, active(answer).values())) for answer in answers] == [2, 2]
    assert [answer.member_epoch for answer in answers] == [world.app.epoch] * 2
    await world.groups.stop()


async def test_a_group_that_was_left_before_its_first_assignment_has_none() -> None:
    world = StreamsWorld(GroupConfig())
    await world.start()
    world.topic("t", 4)
    await world.beat(join("a"))
    await world.beat(beat("a", -1))
    await world.advance(4.0)
    assert (world.app.assignment_epoch, world.app.targets) == (1, {})
    world.check_app_stored()
    await world.groups.stop()


async def test_assignments_have_an_interval() -> None:
    world = StreamsWorld(GroupConfig(streams_initial_rebalance_delay_ms=0))
    await world.start()
    world.topic("t", 4)
    await world.beat(join("a"))
    answer = await world.beat(join("b"))
    assert statuses(answer) == {
        Status.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    await world.advance(1.0)
    assert statuses(await world.beat(beat("b", answer.member_epoch))) == {}
    assert world.app.assignment_epoch == world.app.epoch
    await world.groups.stop()


async def test_the_interval_of_assignments_may_change() -> None:
    config = GroupConfig(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=60_000)
    world = StreamsWorld(config)
    await world.start()
    world.topic("t", 4)
    await world.beat(join("a"))
    answer = await world.beat(join("b"))
    await world.advance(2.0)
    assert statuses(await world.beat(beat("b", answer.member_epoch))).keys() == {Status.ASSIGNMENT_DELAYED}
    world.groups.configure(replace(config, streams_assignment_interval_ms=1_000))
    assert statuses(await world.beat(beat("b", answer.member_epoch))) == {}
    await world.groups.stop()


async def test_a_large_assignment_is_computed_in_a_worker_thread(world: StreamsWorld) -> None:
    world.topic("t", 3_000)
    answer = await world.beat(join("a"))
    assert statuses(answer) == {Status.ASSIGNMENT_DELAYED: "Assignment delayed until it is computed."}
    await world.settle()
    answer = await world.beat(beat("a", answer.member_epoch))
    assert len(active(answer)["0"]) == 3_000


async def test_a_member_that_is_silent_is_fenced(world: StreamsWorld) -> None:
    first, second = SimulatedThread(world, "a", "p", STATELESS), SimulatedThread(world, "b", "q", STATELESS)
    await ready(world, first, second)
    first.crash()
    await world.advance(30.0)
    await second.heartbeat()
    await world.advance(15.1)
    await ready(world, second)
    assert len(second.active) == 4
    assert (await world.beat(beat("a", first.epoch))).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_that_does_not_close_its_tasks_in_time_is_fenced(world: StreamsWorld) -> None:
    first, second = SimulatedThread(world, "a", "p", STATELESS), SimulatedThread(world, "b", "q", STATELESS)
    await ready(world, first)
    first.is_slow = True
    await second.heartbeat()
    for _ in range(REBALANCE_MS // 10_000):
        assert await first.heartbeat() is ErrorCode.NONE
        await second.heartbeat()
        await world.advance(10.0)
    assert await first.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    await ready(world, second)
    assert len(second.active) == 4


async def test_the_session_timeout_is_the_brokers_setting() -> None:
    config = replace(NO_DELAYS, streams_session_timeout_ms=60_000, streams_heartbeat_interval_ms=7_000)
    world = StreamsWorld(config)
    await world.start()
    world.topic("t", 4)
    assert (await world.beat(join("a"))).heartbeat_interval_ms == 7_000
    await world.advance(59.0)
    assert "a" in world.app.members
    await world.advance(2.0)
    assert world.app.members == {}


async def test_the_session_timeout_of_a_group_may_be_its_own(world: StreamsWorld) -> None:
    configs = {"g": {"streams.session.timeout.ms": "60000", "streams.heartbeat.interval.ms": "7000"}}
    world.publish(replace(world.image, group_configs=configs))
    assert (await world.beat(join("a"))).heartbeat_interval_ms == 7_000
    await world.advance(59.0)
    assert "a" in world.app.members
    await world.advance(2.0)
    assert world.app.members == {}


async def test_a_member_that_leaves_frees_its_tasks_at_once(world: StreamsWorld) -> None:
    first, second = SimulatedThread(world, "a", "p", STATELESS), SimulatedThread(world, "b", "q", STATELESS)
    await ready(world, first, second)
    answer = await world.beat(beat("a", -1))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", -1)
    await second.heartbeat()
    assert len(second.active) == 4


async def test_a_lost_answer_can_be_asked_for_again(world: StreamsWorld) -> None:
    await world.beat(join("a"))
    world.topic("t", 5)
    lost = await world.beat(beat("a", 2))
    assert active(lost) == {"0": [0, 1, 2, 3, 4]}
    had: dict[str, Any] = {"standby_tasks": [], "warmup_tasks": []}
    owned = [TaskIds(subtopology_id="0", partitions=[0, 1, 2, 3])]
    assert (await world.beat(beat("a", 2, active_tasks=owned, **had))).error_code == 0
    assert (await world.beat(beat("a", 2))).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await world.beat(beat("a", 1, active_tasks=owned, **had))).error_code == (
        ErrorCode.FENCED_MEMBER_EPOCH
    )
    assert (await world.beat(beat("a", 9))).error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_a_member_may_join_again(world: StreamsWorld) -> None:
    await world.beat(join("a"))
    answer = await world.beat(join("a"))
    assert (answer.member_epoch, active(answer)) == (2, {"0": [0, 1, 2, 3]})


async def test_an_older_topology_is_stale_and_another_one_is_refused(world: StreamsWorld) -> None:
    await world.beat(join("a", topology(subtopology("0", ["t"]), epoch=3)))
    answer = await world.beat(join("b", topology(subtopology("0", ["t", "u"]), epoch=2)))
    assert statuses(answer) == {
        Status.STALE_TOPOLOGY: "The member's topology epoch 2 is behind the group's topology epoch 3."
    }
    for epoch in (3, 4):
        answer = await world.beat(join("c", topology(subtopology("0", ["t", "u"]), epoch=epoch)))
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Topology updates are not supported yet.",
        )
    assert world.app.members.keys() == {"a", "b"}
    world.check_app_stored()


async def test_a_shutdown_reaches_all_members_until_the_group_is_empty(world: StreamsWorld) -> None:
    await world.beat(join("a"))
    epoch = (await world.beat(join("b"))).member_epoch
    await world.beat(beat("a", -1, shutdown_application=True))
    answer = await world.beat(beat("b", epoch))
    assert statuses(answer).keys() == {Status.SHUTDOWN_APPLICATION}
    assert "Streams group member a encountered a fatal error" in statuses(answer)[Status.SHUTDOWN_APPLICATION]
    await world.beat(beat("b", -1))
    assert statuses(await world.beat(join("c"))) == {}


async def test_members_learn_where_state_can_be_queried(world: StreamsWorld) -> None:
    first = SimulatedThread(world, "a", "p", STATELESS, endpoint=("one", 1))
    second = SimulatedThread(world, "b", "q", STATELESS, endpoint=("two", 2))
    third = SimulatedThread(world, "c", "r", STATELESS)
    await ready(world, first, second, third)
    for thread in (first, second, third):
        assert thread.endpoints == {("one", 1): len(first.active), ("two", 2): len(second.active)}
    answer = await world.beat(beat("a", first.epoch, endpoint_information_epoch=first.endpoints_epoch))
    assert answer.partitions_by_user_endpoint is None
    await second.leave()
    await ready(world, first, third)
    assert first.endpoints.keys() == {("one", 1)}


async def test_partitions_that_a_smaller_topic_does_not_have_are_not_queried_there(
    world: StreamsWorld,
) -> None:
    world.topic("u", 2)
    answer = await world.beat(
        join("a", topology(subtopology("0", ["t", "u"])), user_endpoint=Endpoint(host="h", port=1))
    )
    assert answer.partitions_by_user_endpoint is not None
    (found,) = answer.partitions_by_user_endpoint
    assert {each.topic: each.partitions for each in found.active_partitions} == {
        "t": [0, 1, 2, 3],
        "u": [0, 1],
    }


# --- types of groups and the log ----------------------------------------------------------------------


async def test_an_empty_classic_group_becomes_a_streams_group_and_back(world: StreamsWorld) -> None:
    world.groups.check_commit("g", "", None, -1)  # makes a group that only stores offsets
    assert isinstance(world.groups.groups["g"], ClassicGroup)
    await world.beat(join("a"))
    assert isinstance(world.groups.groups["g"], StreamsGroup)
    world.check_app_stored()


async def test_a_streams_group_is_no_consumer_group_and_a_consumer_group_no_streams_group(
    world: StreamsWorld,
) -> None:
    await world.beat(join("a"))
    with pytest.raises(KafkaError) as error:
        world.groups.consumer_heartbeat(consumer_join("x"), 1, CLIENT)
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    other = consumer_join("x")
    other.group_id = "consumers"
    answer = world.groups.consumer_heartbeat(other, 1, CLIENT)
    joined = answer if isinstance(answer, ConsumerGroupHeartbeatResponse) else await answer
    assert joined.error_code == 0
    request = join("a")
    request.group_id = "consumers"
    refused = await world.beat(request)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group consumers is not a streams group.",
    )


async def test_a_group_comes_back_with_the_coordinator(world: StreamsWorld) -> None:
    threads = [SimulatedThread(world, each, each, STATEFUL) for each in "ab"]
    await ready(world, *threads)
    before = world.app
    await world.restart()
    assert world.app is not before
    assert (world.app.members, world.app.targets) == (before.members, before.targets)
    assert world.app.state is StreamsGroupState.STABLE
    epoch = world.app.epoch
    await ready(world, *threads)
    assert world.app.epoch == epoch, "a restart is no rebalance"
    await world.advance(46.0)
    assert world.app.members == {}, "the members' sessions went on"


async def test_a_heartbeat_that_the_log_refuses_changes_nothing(world: StreamsWorld) -> None:
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await world.beat(join("a"))).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "g" not in world.groups.groups
    world.log.error = ErrorCode.NONE
    await world.beat(join("a"))
    before = (world.app.epoch, dict(world.app.members), dict(world.app.targets))
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.topic("t", 6)
    assert (await world.beat(beat("a", 2))).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (world.app.epoch, dict(world.app.members), dict(world.app.targets)) == before
    world.log.error = ErrorCode.NONE
    assert len(active(await world.beat(beat("a", 2)))["0"]) == 6
    world.check_app_stored()


async def test_a_group_is_deleted_when_it_is_empty(world: StreamsWorld) -> None:
    await world.beat(join("a"))
    with pytest.raises(KafkaError) as refused:
        for _ in world.groups.delete_group("g", print):
            pass
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    await world.beat(beat("a", -1))
    results: list[ErrorCode] = []
    for _ in world.groups.delete_group("g", results.append):
        pass
    assert results == [ErrorCode.NONE]
    assert world.stored_app() is None


# --- offsets ------------------------------------------------------------------------------------------


async def test_offsets_are_committed_for_tasks_since_they_were_assigned(world: StreamsWorld) -> None:
    first, second = SimulatedThread(world, "a", "p", STATELESS), SimulatedThread(world, "b", "q", STATELESS)
    await ready(world, first)
    old = first.epoch
    await second.heartbeat()
    for _ in range(3):
        await first.heartbeat()
        await second.heartbeat()
    assert old < world.app.members["a"].epoch
    check = world.app.validate_offset_commit("a", None, old, 9)
    assert check is not None
    kept, moved = min(first.active), min(second.active)
    check("t", ZERO_UUID, kept.partition)
    with pytest.raises(KafkaError) as refused:
        check("t", ZERO_UUID, moved.partition)
    assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(KafkaError):
        check("other", ZERO_UUID, 0)
    epoch = world.app.members["a"].epoch
    assert world.app.validate_offset_commit("a", None, epoch, 9) is None


@pytest.mark.parametrize(
    ("member", "epoch", "version", "error"),
    [
        ("a", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
async def test_offsets_of_others_are_refused(
    world: StreamsWorld, member: str, epoch: int, version: int, error: ErrorCode
) -> None:
    await world.beat(join("a"))
    with pytest.raises(KafkaError) as refused:
        world.app.validate_offset_commit(member, None, epoch, version)
    assert refused.value.code is error


async def test_offsets_are_fetched_by_members_and_admins(world: StreamsWorld) -> None:
    await world.beat(join("a"))
    world.app.validate_offset_fetch(None, -1)
    world.app.validate_offset_fetch("a", 2)
    with pytest.raises(KafkaError) as refused:
        world.app.validate_offset_fetch("a", 1)
    assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
    assert world.app.is_subscribed("t")
    await world.beat(beat("a", -1))
    assert not world.app.is_subscribed("t")


# --- requests that make no sense ----------------------------------------------------------------------

_TASKS = [TaskIds(subtopology_id="0", partitions=[0])]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": [TaskOffset()]}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        ({"warmup_tasks": _TASKS}, "WarmupTasks are not supported yet."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": _TASKS}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": _TASKS}, "StandbyTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        (
            {"member_epoch": 1, "topology": None, "standby_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ],
)
async def test_requests_that_make_no_sense_are_refused(
    world: StreamsWorld, fields: Mapping[str, Any], message: str
) -> None:
    request = join("a")
    for name, value in fields.items():
        setattr(request, name, value)
    answer = await world.beat(request)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert "g" not in world.groups.groups


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task("0", 4), "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"),
        (Task("0", -1), "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"),
        (Task("x", 0), "Subtopology x does not exist in the topology."),
    ],
)
async def test_tasks_that_do_not_exist_are_refused(world: StreamsWorld, task: Task, message: str) -> None:
    await world.beat(join("a"))
    tasks = [TaskIds(subtopology_id=task.subtopology, partitions=[task.partition])]
    answer = await world.beat(beat("a", 2, active_tasks=tasks, standby_tasks=[], warmup_tasks=[]))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)


async def test_a_group_has_a_largest_size() -> None:
    world = StreamsWorld(replace(NO_DELAYS, streams_max_size=1))
    await world.start()
    world.topic("t", 1)
    await world.beat(join("a"))
    assert (await world.beat(join("b"))).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await world.beat(beat("a", 2))).error_code == 0
    await world.groups.stop()


async def test_who_is_no_member_is_told_so(world: StreamsWorld) -> None:
    assert (await world.beat(beat("a", 2))).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await world.beat(join("a"))
    assert (await world.beat(beat("b", 2))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await world.beat(beat("b", -1))).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_what_members_say_of_themselves_takes_no_more_memory_than_it_may(
    world: StreamsWorld,
) -> None:
    one = 3_000 + 100 * (TAG_BYTES + getsizeof("10") + getsizeof(""))
    limits = MemberLimits(3 * one + 30_000, for_small=30_000, small=20 * TAG_BYTES)
    world.groups.groups.members.limits = limits

    def tagged(count: int) -> list[KeyValue]:
        return [KeyValue(key=f"{number}", value="") for number in range(count)]

    async def error(member_id: str, count: int) -> ErrorCode:
        return ErrorCode((await world.beat(join(member_id, client_tags=tagged(count)))).error_code)

    refused = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert await error("a", MAX_TAGS + 1_000) is refused
    assert "g" not in world.groups.groups
    assert [await error(member, 90) for member in "abc"] == [ErrorCode.NONE] * 3
    assert await error("d", 90) is refused
    assert await error("a", 100) is ErrorCode.NONE, "its own tags are replaced"
    assert await error("d", 2) is ErrorCode.NONE, "it is small"
    await world.beat(beat("b", -1))
    assert await error("e", 80) is ErrorCode.NONE, "another one has left"
    world.app.check()
