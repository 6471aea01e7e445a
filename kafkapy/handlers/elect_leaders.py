"""ElectLeaders: have partitions led by their preferred replica, or any (KIP-183, KIP-460).

Versions: 0-2.

Behaviour:

- One node has the only replica of each partition, and leads it unless its log directory failed.
- A partition with a leader is answered with ELECTION_NOT_NEEDED. One without is
  PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE, by the kind of the election.
- Null asks for all partitions, and leaves out those that need no election.

Version notes:

- v0 elects preferred leaders and has no error of its own.
- v1 says which election is meant.
- v2 is flexible.
"""

from __future__ import annotations

from enum import IntEnum

from kafkapy.handlers.context import RequestContext
from kafkapy.metadata.image import MetadataImage, PartitionState
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


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


def handle(context: RequestContext, request: ElectLeadersRequest) -> Steps[ElectLeadersResponse]:
    """Answer each partition as the image has it."""
    try:
        election = ElectionType(request.election_type)
    except ValueError:
        return (yield from _unknown_type(request))
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
    for topic in request.topic_partitions or ():
        results = []
        for index in topic.partitions:
            yield
            results.append(
                PartitionResult(
                    partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message
                )
            )
        response.replica_election_results.append(
            ReplicaElectionResult(topic=topic.topic, partition_result=results)
        )
    return response


class _Elector:
    """Finds the result for each partition, of one image."""

    def __init__(self, context: RequestContext, election: ElectionType) -> None:
        self._image: MetadataImage = context.broker.metadata.image
        self._replicas = context.broker.replicas
        self._election = election

    def topics(self, wanted: list[TopicPartitions]) -> Steps[list[ReplicaElectionResult]]:
        """Every partition that the client names."""
        results = []
        for topic in wanted:
            found = []
            for index in topic.partitions:
                yield
                found.append(self._result(topic.topic, index))
            results.append(ReplicaElectionResult(topic=topic.topic, partition_result=found))
        return results

    def _result(self, topic: str, index: int) -> PartitionResult:
        state = self._image.partition(topic, index)
        if state is None:
            what = f"partition as {topic}-{index}" if topic in self._image.topics else f"topic as {topic}"
            error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}"
        elif self._is_led(topic, index, state):
            error = ErrorCode.ELECTION_NOT_NEEDED
            message = "Leader election not needed for topic partition."
        else:
            error, message = _UNAVAILABLE[self._election]
        return PartitionResult(partition_id=index, error_code=error, error_message=message)

    def all_topics(self) -> Steps[list[ReplicaElectionResult]]:
        """Every topic, with its partitions that would need an election."""
        results = []
        for name, topic in self._image.topics.items():
            needing = []
            for index, state in enumerate(topic.partitions):
                yield
                if not self._is_led(name, index, state):
                    needing.append(self._result(name, index))
            results.append(ReplicaElectionResult(topic=name, partition_result=needing))
        return results

    def _is_led(self, topic: str, index: int, state: PartitionState) -> bool:
        """Whether the partition has the leader that the election is to find."""
        if state.leader not in self._image.brokers:
            return False
        if self._replicas.any_offline and self._replicas.is_offline(topic, index):
            return False
        return self._election is ElectionType.UNCLEAN or state.leader == state.replicas[0]
