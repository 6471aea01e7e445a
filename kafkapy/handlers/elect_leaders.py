"""ElectLeaders: have partitions led by their preferred replica, or any (KIP-183, KIP-460).

Versions: 0-2.

Behaviour:

- The controller elects, and waits until the leaders know that they lead. Any other broker is NOT_CONTROLLER.
- A preferred election lets the first replica lead, if it is in sync. An unclean one lets any live replica
  lead a partition without a leader; it loses the records that this replica does not have.
- A partition with the wanted leader is answered with ELECTION_NOT_NEEDED. One that no replica can lead is
  PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE, by the kind of the election.
- Null asks for all partitions, and leaves out those that need no election.
- A sole broker has the only replica of each partition, and leads it unless its log directory failed.

Version notes:

- v0 elects preferred leaders and has no error of its own.
- v1 says which election is meant.
- v2 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from kafkapy.controller.controller import Controller
from kafkapy.controller.elections import ElectionType
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_by_topic, answer_partitions, visit_partitions
from kafkapy.logs.text import shortened
from kafkapy.loop.turns import Steps, Turns
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kafkapy.protocol.types import TopicPartition

_UNAVAILABLE = {
    ElectionType.PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader was not available.",
    ),
    ElectionType.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def handle(
    context: RequestContext, request: ElectLeadersRequest
) -> Steps[ElectLeadersResponse | Awaitable[ElectLeadersResponse]]:
    """Have the controller elect; a sole broker answers each partition as the image has it."""
    try:
        election = ElectionType(request.election_type)
    except ValueError:
        return (yield from _unknown_type(request))
    controller = context.broker.admin.controller
    if controller is not None:
        partitions = yield from _partitions(context, request)
        return _elect(context.broker.turns, controller, election, partitions, request)
    elector = _Elector(context, election)
    if request.topic_partitions is None:
        results = yield from elector.all_topics()
    else:
        results = yield from elector.topics(request.topic_partitions)
    return ElectLeadersResponse(replica_election_results=results)


def _unknown_type(request: ElectLeadersRequest) -> Steps[ElectLeadersResponse]:
    response = ElectLeadersResponse()
    if request.topic_partitions != []:
        response.error_code = ErrorCode.INVALID_REQUEST
    message = f"Unknown election type {request.election_type}"
    response.replica_election_results = yield from answer_partitions(
        request.topic_partitions or (),
        lambda topic: topic.partitions,
        lambda _, index: PartitionResult(
            partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message
        ),
        lambda topic, results: ReplicaElectionResult(topic=topic.topic, partition_result=results),
    )
    return response


def _partitions(context: RequestContext, request: ElectLeadersRequest) -> Steps[list[TopicPartition]]:
    """The partitions that the request asks for."""
    partitions: list[TopicPartition] = []
    if request.topic_partitions is None:
        yield from visit_partitions(
            context.broker.metadata.image.topics.items(),
            lambda item: range(len(item[1].partitions)),
            lambda item, index: partitions.append(TopicPartition(item[0], index)),
        )
    else:
        yield from visit_partitions(
            request.topic_partitions,
            lambda asked: asked.partitions,
            lambda asked, index: partitions.append(TopicPartition(asked.topic, index)),
        )
    return partitions


async def _elect(
    turns: Turns,
    controller: Controller,
    election: ElectionType,
    partitions: list[TopicPartition],
    request: ElectLeadersRequest,
) -> ElectLeadersResponse:
    results: Mapping[TopicPartition, KafkaError | None]
    try:
        results = await controller.elect_leaders(election, partitions, request.timeout_ms / 1000)
    except KafkaError as error:
        results = dict.fromkeys(partitions, error)
    answered = await turns.finish(_by_topic(results, asks_for_all=request.topic_partitions is None))
    return ElectLeadersResponse(replica_election_results=answered)


def _by_topic(
    results: Mapping[TopicPartition, KafkaError | None], *, asks_for_all: bool
) -> Steps[list[ReplicaElectionResult]]:
    def answer(result: tuple[TopicPartition, KafkaError | None]) -> tuple[str, PartitionResult] | None:
        (topic, index), problem = result
        if problem is None:
            return topic, PartitionResult(partition_id=index, error_message=None)
        if problem.code is ErrorCode.ELECTION_NOT_NEEDED and asks_for_all:
            return None
        return topic, PartitionResult(
            partition_id=index, error_code=problem.code, error_message=problem.message
        )

    return answer_by_topic(
        results.items(),
        answer,
        lambda topic, found: ReplicaElectionResult(topic=topic, partition_result=found),
    )


class _Elector:
    """Finds the result for each partition, of one image."""

    def __init__(self, context: RequestContext, election: ElectionType) -> None:
        self._image: MetadataImage = context.broker.metadata.image
        self._replicas = context.broker.replicas
        self._election = election

    def topics(self, wanted: list[TopicPartitions]) -> Steps[list[ReplicaElectionResult]]:
        """Every partition that the client names."""
        return answer_partitions(
            wanted,
            lambda topic: topic.partitions,
            lambda topic, index: self._result(topic.topic, index),
            lambda topic, found: ReplicaElectionResult(topic=topic.topic, partition_result=found),
        )

    def _result(self, topic: str, index: int) -> PartitionResult:
        state = self._image.partition(topic, index)
        if state is None:
            name = shortened(topic)  # the message is there for each partition that is named
            what = f"partition as {name}-{index}" if topic in self._image.topics else f"topic as {name}"
            error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}"
        elif self._is_led(topic, index, state):
            error = ErrorCode.ELECTION_NOT_NEEDED
            message = "Leader election not needed for topic partition."
        else:
            error, message = _UNAVAILABLE[self._election]
        return PartitionResult(partition_id=index, error_code=error, error_message=message)

    def all_topics(self) -> Steps[list[ReplicaElectionResult]]:
        """Every topic, with its partitions that would need an election."""
        return answer_partitions(
            self._image.topics.values(),
            lambda topic: enumerate(topic.partitions),
            self._result_if_needed,
            lambda topic, found: ReplicaElectionResult(topic=topic.name, partition_result=found),
        )

    def _result_if_needed(self, topic: Topic, numbered: tuple[int, PartitionState]) -> PartitionResult | None:
        index, state = numbered
        if not state.exists or self._is_led(topic.name, index, state):
            return None
        return self._result(topic.name, index)

    def _is_led(self, topic: str, index: int, state: PartitionState) -> bool:
        """Whether the partition has the leader that the election is to find."""
        if state.leader not in self._image.brokers:
            return False
        if self._replicas.any_offline and self._replicas.is_offline(topic, index):
            return False
        return self._election is ElectionType.UNCLEAN or state.leader == state.replicas[0]
