"""What a broker answers about other brokers of its cluster.

It also answers about groups that they coordinate.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.coordination.partitioning import partition_of
from kafkapy.loop.clock import Clock
from kafkapy.metadata.image import NO_LEADER, Broker, PartitionState, Topic
from kafkapy.metadata.znodes import Endpoint
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.join_group import JoinGroupRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkapy.protocol.messages.sync_group import SyncGroupRequest
from kafkapy.protocol.types import random_uuid
from tests.groups.memory_log import MemoryLog, coordinator
from tests.loop.turned_clock import TurnedClock, TurnedTimers

OFFSETS = MemoryLog.topic
THIS, OTHER, UNREACHABLE, DEAD = 1, 2, 3, 4
"""Brokers: UNREACHABLE is alive, and lacks the client's listener."""
TOPIC, BROKER = 2, 4
"""The types of resources of settings."""


def broker(broker_id: int, listener: str = "PLAINTEXT") -> Broker:
    return Broker(broker_id, None, {listener: Endpoint(listener, f"host{broker_id}", 9092, "PLAINTEXT")})


def topic(name: str, *leaders: int, replicas: tuple[int, ...] | None = None) -> Topic:
    """A topic whose partitions have these leaders, each its only in-sync replica."""
    partitions = tuple(
        PartitionState(leader, 5, () if leader == NO_LEADER else (leader,), replicas or (abs(leader), THIS))
        for leader in leaders
    )
    return Topic(name, random_uuid(), partitions)


class Controller:
    """The controller, on another broker."""

    def __init__(self) -> None:
        self.requests: list[CreateTopicsRequest] = []

    async def ask(self, request: CreateTopicsRequest, *, seconds: float) -> CreateTopicsResponse:
        self.requests.append(request)
        return CreateTopicsResponse()


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
async def world(start_world: Any, controller: Controller) -> Any:
    world = await start_world()
    await world.admin.stop()  # the image is the test's from here on
    world.clustered = True
    image = world.metadata.image
    brokers = [broker(THIS), broker(OTHER), broker(UNREACHABLE, "OTHER")]
    world.metadata.publish(image.with_brokers(brokers, OTHER))
    world.automatic_topics = AutomaticTopics(
        world.admin.topics,
        world.metadata,
        world.config,
        node_id=THIS,
        clock=Clock(),
        ask_controller=controller.ask,
    )
    yield world
    await world.automatic_topics.stop()


def publish(world: Any, *topics: Topic) -> None:
    world.metadata.publish(world.metadata.image.with_topics(topics))


async def metadata(world: Any, version: int, name: str = "t") -> list[Any]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (described,) = (await world.ask(request, version)).topics
    assert described.error_code == ErrorCode.NONE
    partitions: list[Any] = described.partitions
    return partitions


class TestApiVersions:
    async def test_there_are_no_eligible_leader_replicas(self, world: Any) -> None:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
        response = await world.ask(request, 4)
        for features in (response.supported_features, response.finalized_features):
            assert [each.name for each in features] == ["metadata.version"]


class TestMetadata:
    async def test_leaders_are_brokers_that_the_client_can_reach(self, world: Any) -> None:
        publish(world, topic("t", THIS, OTHER, UNREACHABLE, DEAD, NO_LEADER))
        partitions = await metadata(world, 9)
        assert [(each.leader_id, each.error_code) for each in partitions] == [
            (THIS, ErrorCode.NONE),
            (OTHER, ErrorCode.NONE),
            (-1, ErrorCode.LISTENER_NOT_FOUND),
            (-1, ErrorCode.LEADER_NOT_AVAILABLE),
            (-1, ErrorCode.LEADER_NOT_AVAILABLE),
        ]
        assert {each.leader_epoch for each in partitions} == {5}
        old = await metadata(world, 5)
        assert old[2].error_code == ErrorCode.LEADER_NOT_AVAILABLE

    async def test_a_topic_of_which_only_the_controller_has_told_is_shown_and_not_created_again(
        self, world: Any, controller: Any
    ) -> None:
        world.new_topics = [topic("t", OTHER)]
        assert [each.leader_id for each in await metadata(world, 9)] == [OTHER]
        by_id = MetadataRequestTopic(name=None, topic_id=world.new_topics[0].id)
        (described,) = (await world.ask(MetadataRequest(topics=[by_id]), 12)).topics
        assert (described.error_code, described.name) == (ErrorCode.NONE, "t")
        (described,) = (await world.ask(MetadataRequest(topics=None), 9)).topics
        assert described.name == "t"
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], response_partition_limit=9)
        (described,) = (await world.ask(request, 0)).topics
        assert described.error_code == ErrorCode.NONE
        assert not controller.requests

    async def test_the_brokers_and_the_controller_are_shown(self, world: Any) -> None:
        response = await world.ask(MetadataRequest(topics=[]), 9)
        assert [each.node_id for each in response.brokers] == [THIS, OTHER]
        assert response.controller_id == OTHER
        described = await world.ask(DescribeClusterRequest(), 0)
        assert [each.broker_id for each in described.brokers] == [THIS, OTHER]
        assert described.controller_id == OTHER

    async def test_replicas_are_offline_on_dead_brokers_and_where_the_controller_says_so(
        self, world: Any
    ) -> None:
        publish(world, topic("t", OTHER, OTHER, replicas=(OTHER, UNREACHABLE, DEAD)))
        world.offline_replicas["t", 1] = (UNREACHABLE, DEAD, 9)
        partitions = await metadata(world, 9)
        assert [each.offline_replicas for each in partitions] == [[DEAD], [DEAD, UNREACHABLE]]
        assert {tuple(each.replica_nodes) for each in partitions} == {(OTHER, UNREACHABLE, DEAD)}
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], response_partition_limit=9)
        (described,) = (await world.ask(request, 0)).topics
        assert [each.offline_replicas for each in described.partitions] == [[DEAD], [DEAD, UNREACHABLE]]

    async def test_a_log_directory_of_this_broker_that_failed_is_known_at_once(self, world: Any) -> None:
        publish(world, topic("t", THIS, OTHER, replicas=(THIS, OTHER)))
        world.replicas.offline = {("t", 0), ("t", 1)}
        partitions = await metadata(world, 9)
        assert [(each.leader_id, each.offline_replicas) for each in partitions] == [
            (-1, [THIS]),
            (OTHER, [THIS]),
        ]

    async def test_version_0_names_only_replicas_that_can_be_reached(self, world: Any) -> None:
        led = PartitionState(OTHER, 5, (OTHER, DEAD), (OTHER, UNREACHABLE, DEAD))
        publish(
            world,
            replace(
                topic("t", OTHER),
                partitions=(led, led._replace(replicas=(OTHER,)), led._replace(leader=DEAD)),
            ),
        )
        assert [
            (each.error_code, each.replica_nodes, each.isr_nodes) for each in await metadata(world, 0)
        ] == [
            (ErrorCode.REPLICA_NOT_AVAILABLE, [OTHER], [OTHER]),
            (ErrorCode.REPLICA_NOT_AVAILABLE, [OTHER], [OTHER]),
            (ErrorCode.LEADER_NOT_AVAILABLE, [OTHER], [OTHER]),
        ]

    async def test_a_missing_topic_is_created_by_the_controller(
        self, world: Any, controller: Controller
    ) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        (answer,) = (await world.ask(request, 9)).topics
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await world.automatic_topics.stop()
        publish(world, topic("new", NO_LEADER))
        (answer,) = (await world.ask(request, 9)).topics
        assert [each.error_code for each in answer.partitions] == [ErrorCode.LEADER_NOT_AVAILABLE]


class TestFindCoordinator:
    async def find(self, world: Any, *groups: str) -> list[tuple[ErrorCode, int, str]]:
        response = await world.ask(FindCoordinatorRequest(coordinator_keys=list(groups)), 4)
        return [(ErrorCode(each.error_code), each.node_id, each.host) for each in response.coordinators]

    async def test_the_coordinator_leads_the_groups_partition(self, world: Any) -> None:
        leaders = [THIS, OTHER, UNREACHABLE, DEAD, NO_LEADER]
        publish(world, topic(OFFSETS, *leaders))
        groups = [
            next(name for n in range(99) if partition_of(name := f"g{n}", len(leaders)) == index)
            for index in range(len(leaders))
        ]
        none = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "")
        assert await self.find(world, *groups) == [
            (ErrorCode.NONE, THIS, "host1"),
            (ErrorCode.NONE, OTHER, "host2"),
            none,
            none,
            none,
        ]
        old = await world.ask(FindCoordinatorRequest(key=groups[1]), 3)
        assert (old.error_code, old.node_id, old.host, old.port) == (0, OTHER, "host2", 9092)
        old = await world.ask(FindCoordinatorRequest(key=groups[4]), 3)
        assert (old.error_code, old.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    async def test_clients_ask_again_until_the_controller_has_created_the_topic(
        self, world: Any, controller: Controller
    ) -> None:
        for _ in range(2):
            assert await self.find(world, "g") == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "")]
            await asyncio.sleep(0)
        publish(world, topic(OFFSETS, OTHER))
        assert await self.find(world, "g") == [(ErrorCode.NONE, OTHER, "host2")]
        assert {each.name for request in controller.requests for each in request.topics} == {OFFSETS}


class TestGroupsOfOtherBrokers:
    @pytest.fixture
    async def world(self, world: Any) -> Any:
        clock, log = TurnedClock(), MemoryLog()
        world.clock = clock
        world.groups = coordinator(log, clock, TurnedTimers(clock), leads=False)
        world.connection.peer_host = "10.0.0.1"
        await log.create()
        publish(world, topic("t", OTHER))
        return world

    @pytest.mark.parametrize(
        ("request_", "version"),
        [
            (JoinGroupRequest(group_id="g", session_timeout_ms=10_000), 9),
            (SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"), 5),
            (HeartbeatRequest(group_id="g"), 4),
            (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 5),
            (OffsetDeleteRequest(group_id="g"), 0),
        ],
        ids=lambda each: type(each).__name__,
    )
    async def test_its_members_are_sent_away(self, world: Any, request_: Any, version: int) -> None:
        response = await world.ask(request_, version)
        assert response.error_code == ErrorCode.NOT_COORDINATOR

    async def test_its_offsets_are_neither_stored_nor_told(self, world: Any) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        asked = OffsetCommitRequestTopic(name="t", partitions=[partition])
        commit = await world.ask(OffsetCommitRequest(group_id="g", topics=[asked]), 9)
        assert commit.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        group = OffsetFetchRequestGroup(group_id="g", topics=None)
        fetch = await world.ask(OffsetFetchRequest(groups=[group]), 9)
        assert fetch.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    async def test_it_is_neither_described_nor_deleted(self, world: Any) -> None:
        described = await world.ask(DescribeGroupsRequest(groups=["g"]), 5)
        assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        deleted = await world.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR

    async def test_a_broker_lists_its_own_groups(self, world: Any) -> None:
        world.groups.leadership_changed(OFFSETS, partition_of("g", 4), True, 0)
        world.groups.check_commit("g", "", None, -1)
        response = await world.ask(ListGroupsRequest(), 4)
        assert (response.error_code, [each.group_id for each in response.groups]) == (0, ["g"])


class TestSettings:
    async def test_another_brokers_settings_are_asked_of_that_broker(self, world: Any) -> None:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="2")
        (result,) = (await world.ask(DescribeConfigsRequest(resources=[resource]), 4)).results
        assert (result.error_code, result.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        )

    async def test_a_new_topics_settings_are_described_when_they_are_read(self, world: Any) -> None:
        new = replace(topic("t", OTHER), configs={"retention.ms": "5"})
        world.new_topics = [new]
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="t")
        asked = asyncio.create_task(world.ask(DescribeConfigsRequest(resources=[resource]), 4))
        known = DescribeConfigsResource(resource_type=BROKER, resource_name=str(THIS))
        await world.ask(DescribeConfigsRequest(resources=[known]), 4)
        assert not asked.done()
        publish(world, new)
        (result,) = (await asked).results
        assert result.error_code == ErrorCode.NONE
        assert {each.name: each.value for each in result.configs}["retention.ms"] == "5"

    async def test_a_new_topic_that_is_not_read_is_unknown(self, world: Any) -> None:
        world.new_topics = [topic("t", OTHER)]
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="t")
        (result,) = (await world.ask(DescribeConfigsRequest(resources=[resource]), 4)).results
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def test_another_brokers_settings_are_changed_by_that_broker(self, world: Any) -> None:
        config = AlterableConfig(name="log.retention.ms", value="5")
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="2", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (response,) = (await world.ask(request, 1)).responses
        assert (response.error_code, response.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        )
