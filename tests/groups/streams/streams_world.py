"""A coordinator with a log in memory, and threads of a Kafka Streams application.

The threads follow the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.modern.heartbeats import Client
from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.heartbeat import HeartbeatAnswer
from kafkapy.groups.streams.tasks import Task, read_tasks
from kafkapy.groups.streams.tasks import each_task as each_task_of
from kafkapy.groups.streams.topology import InternalTopic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.groups.groups_world import GroupsWorld

REBALANCE_MS = 60_000
CLIENT = Client("c", "/127.0.0.1")

NO_DELAYS = GroupConfig(streams_assignment_interval_ms=0, streams_initial_rebalance_delay_ms=0)


def subtopology(
    subtopology_id: str,
    sources: Sequence[str] = (),
    *,
    sinks: Sequence[str] = (),
    repartition: Mapping[str, int] | Sequence[str] = (),
    changelogs: Sequence[str] = (),
    copartitioned: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """A subtopology of a heartbeat.

    `repartition` are the repartition topics that it reads, with their numbers of partitions if they have any.
    `copartitioned` are the places of sources and of repartition topics.
    """
    counts = repartition if isinstance(repartition, Mapping) else dict.fromkeys(repartition, 0)
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[TopicInfo(name=name, partitions=count) for name, count in counts.items()],
        state_changelog_topics=[
            TopicInfo(name=name, topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
            for name in changelogs
        ],
        copartition_groups=[
            CopartitionGroup(source_topics=list(first), repartition_source_topics=list(second))
            for first, second in copartitioned
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    """The topology of a heartbeat."""
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


STATELESS = topology(subtopology("0", ["t"]))
STATEFUL = topology(subtopology("0", ["t"], changelogs=["app-state-changelog"]))
WORD_COUNT = topology(
    subtopology("0", ["t"], sinks=["app-words-repartition"]),
    subtopology("1", repartition=["app-words-repartition"], changelogs=["app-words-changelog"]),
)


def beat(member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
    """A heartbeat of the group g."""
    return StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)


def join(member_id: str, running: Topology | None = STATELESS, **fields: Any) -> StreamsGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    return beat(
        member_id,
        0,
        **{
            "rebalance_timeout_ms": REBALANCE_MS,
            "topology": running,
            "process_id": f"process-{member_id}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            **fields,
        },
    )


class StreamsWorld(GroupsWorld):
    """A coordinator of streams groups and its surroundings."""

    def __init__(self, config: GroupConfig = NO_DELAYS) -> None:
        super().__init__(config)
        self.wanted: tuple[InternalTopic, ...] = ()
        """The internal topics that the last heartbeat asked for."""

    @property
    def app(self) -> StreamsGroup:
        """The group g."""
        return self.found(StreamsGroup)

    def standbys(self, count: int) -> None:
        """Give tasks of the group g so many standby tasks."""
        configs = {"g": {"streams.num.standby.replicas": str(count)}}
        self.publish(replace(self.image, group_configs=configs))

    def create_wanted(self) -> None:
        """Create the internal topics that the last heartbeat asked for."""
        for topic in self.wanted:
            if topic.name not in self.image.topics:
                self.topic(topic.name, topic.num_partitions)

    def stored_app(self) -> StreamsGroup | None:
        """The group that a coordinator would load now."""
        changes = self.log.replay(self.groups.runtime.partition_of("g")).streams_groups.get("g")
        if changes is None:
            return None
        group = StreamsGroup("g")
        for change in changes:
            group.replay(change)
        return group

    def check_app_stored(self) -> None:
        """Assert that the log holds what is in memory."""
        stored, found = self.stored_app(), self.groups.groups.get("g")
        if not isinstance(found, StreamsGroup):
            assert stored is None
            return
        assert stored is not None
        for name in (
            *("epoch", "assignment_epoch", "assignment_timestamp", "metadata_hash", "validated_topology"),
            *("assignment_settings", "topology", "members", "targets"),
        ):
            assert getattr(stored, name) == getattr(found, name), name

    async def beat(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        try:
            answer = self.groups.streams_heartbeat(request, CLIENT)
        except KafkaError as error:
            return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        heard = answer if isinstance(answer, HeartbeatAnswer) else await answer
        self.wanted = heard.topics_to_create
        return heard.response


@dataclass(eq=False)
class SimulatedThread:
    """A thread of an application: it closes tasks before it says so.

    It opens the tasks that it is given.
    """

    world: StreamsWorld
    member_id: str
    process_id: str
    running: Topology = field(default_factory=lambda: WORD_COUNT)
    endpoint: tuple[str, int] | None = None
    epoch: int = 0
    active: set[Task] = field(default_factory=set)
    standby: set[Task] = field(default_factory=set)
    assigned_active: set[Task] = field(default_factory=set)
    """What the coordinator assigned last: `active` follows when the thread gets to it."""
    assigned_standby: set[Task] = field(default_factory=set)
    is_alive: bool = True
    is_slow: bool = False
    """Whether it takes long to close tasks."""
    last_heard: float = 0.0
    """When the coordinator last answered."""
    endpoints_epoch: int = -1
    endpoints: dict[tuple[str, int], int] = field(default_factory=dict)
    """The number of active and standby partitions of each endpoint."""
    statuses: dict[int, str] = field(default_factory=dict)

    async def heartbeat(self) -> ErrorCode:
        if self.epoch == 0:
            self.lose_all()
            request = join(self.member_id, self.running, process_id=self.process_id)
            if self.endpoint is not None:
                request.user_endpoint = Endpoint(host=self.endpoint[0], port=self.endpoint[1])
        else:
            if not self.is_slow:
                self.active &= self.assigned_active  # tasks are closed before the heartbeat
                self.standby &= self.assigned_standby
            request = beat(
                self.member_id,
                self.epoch,
                active_tasks=_wire(self.active),
                standby_tasks=_wire(self.standby),
                warmup_tasks=[],
            )
        request.endpoint_information_epoch = self.endpoints_epoch
        response = await self.world.beat(request)
        error = ErrorCode(response.error_code)
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self.epoch = 0
            self.lose_all()
        elif error is ErrorCode.NONE:
            self._take(response)
        return error

    def _take(self, response: StreamsGroupHeartbeatResponse) -> None:
        assert self.epoch <= response.member_epoch, "an epoch never goes back"
        self.epoch = response.member_epoch
        self.last_heard = self.world.clock.monotonic()
        self.statuses = {each.status_code: each.status_detail for each in response.status or ()}
        if response.active_tasks is not None:
            assert response.standby_tasks is not None
            self.assigned_active = set(each_task_of(read_tasks(response.active_tasks)))
            self.assigned_standby = set(each_task_of(read_tasks(response.standby_tasks)))
            self.active |= self.assigned_active  # what is new is free; the rest is closed later
            self.standby |= self.assigned_standby
        self.endpoints_epoch = response.endpoint_information_epoch
        if response.partitions_by_user_endpoint is not None:
            self.endpoints = {
                (each.user_endpoint.host, each.user_endpoint.port): sum(
                    len(topic.partitions) for topic in (*each.active_partitions, *each.standby_partitions)
                )
                for each in response.partitions_by_user_endpoint
                if each.user_endpoint is not None
            }

    def lose_all(self) -> None:
        self.active, self.standby = set(), set()
        self.assigned_active, self.assigned_standby = set(), set()

    async def leave(self) -> ErrorCode:
        self.lose_all()
        self.is_alive = False
        return ErrorCode((await self.world.beat(beat(self.member_id, -1))).error_code)

    def crash(self) -> None:
        self.lose_all()
        self.is_alive = False


def _wire(tasks: set[Task]) -> list[TaskIds]:
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return [TaskIds(subtopology_id=key, partitions=numbers) for key, numbers in found.items()]
