"""WriteTxnMarkers: end transactions in partitions.

Versions: 0-2.

Behaviour:

- A marker is appended to each partition, and answered when all in-sync replicas have it.
- Transaction coordinators send markers for the transactions that they end. An administrator's tool may end a
  transaction that no coordinator knows.
- A broker alone takes nothing else from clients than the end of such a transaction (hanging_transactions.py),
  as aborted. Other markers are CLUSTER_AUTHORIZATION_FAILED. While the transactions are being loaded, they
  are NOT_LEADER_OR_FOLLOWER, so that the tool asks again.
- A marker with a smaller epoch than the producer's is INVALID_PRODUCER_EPOCH: a later transaction continues
  in the partition. One of a former coordinator is TRANSACTION_COORDINATOR_FENCED.
- A marker that is written again changes nothing but the end of the log.
- In `__consumer_offsets` the offsets of the transaction count once the marker is committed, or are dropped.
  While such a partition is being loaded, it is NOT_LEADER_OR_FOLLOWER.

Version notes:

- v2 adds the transaction version. From transaction version 2 on, a marker ends the producer's epoch too, so
  that its epoch must be larger than that of the open transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkapy.handlers.broker_requests import refusal_of
from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.handlers.hanging_transactions import HangingTransactions
from kafkapy.handlers.per_partition import answer_in_steps, answer_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replication import ALL_REPLICAS
from kafkapy.storage.log.marker_batch import prepare_marker
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.validate import AppendOrigin

FIRST_TRANSACTION_VERSION_WITH_EPOCHS: Final = 2

Refused = Callable[[WritableTxnMarker, TopicPartition], ErrorCode]
"""The error for a marker in a partition that its sender may not write; otherwise NONE."""


async def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Answer when all markers are written."""
    broker = context.broker
    response = WriteTxnMarkersResponse()
    waiting: list[_MarkerWrite] = []
    refused = await _refused(broker, request, refusal_of(context))
    response.markers = await broker.turns.finish(
        answer_in_steps(request.markers, lambda marker: _append_all(broker, marker, waiting, refused))
    )

    def all_written() -> bool:
        while waiting and waiting[-1].is_written():
            waiting.pop()
        return not waiting

    seconds = broker.config["request.timeout.ms"] / 1000
    partitions = [write.partition for write in waiting]
    if partitions and not await broker.waiters.wait(partitions, seconds, all_written):
        for write in waiting:
            write.give_up()
    return response


async def _refused(broker: BrokerParts, request: WriteTxnMarkersRequest, refusal: ErrorCode) -> Refused:
    """Which markers are refused.

    A `refusal` is the error of all that do not end a transaction that hangs.
    """
    if not refusal:
        return lambda marker, partition: ErrorCode.NONE
    if broker.transactions.runtime.is_loading:
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    hanging = HangingTransactions(broker)
    await broker.turns.finish(hanging.find(request.markers))

    def refused(marker: WritableTxnMarker, partition: TopicPartition) -> ErrorCode:
        ends = not marker.transaction_result and hanging.has(marker.producer_id, partition)
        return ErrorCode.NONE if ends and not broker.transactions.runtime.is_loading else refusal

    return refused


def _append_all(
    broker: BrokerParts, marker: WritableTxnMarker, waiting: list[_MarkerWrite], refused: Refused
) -> Steps[WritableTxnMarkerResult]:
    """Append one marker to all its partitions."""

    def append(topic: WritableTxnMarkerTopic, index: int) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=index)
        try:
            waiting.append(_append(broker, marker, topic.name, result, refused))
        except KafkaError as error:
            result.error_code = error.code
        return result

    topics = yield from answer_partitions(
        marker.topics,
        lambda topic: topic.partition_indexes,
        append,
        lambda topic, results: WritableTxnMarkerTopicResult(name=topic.name, partitions=results),
    )
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


def _append(
    broker: BrokerParts,
    marker: WritableTxnMarker,
    topic: str,
    result: WritableTxnMarkerPartitionResult,
    refused: Refused,
) -> _MarkerWrite:
    partition = broker.replicas.partition(topic, result.partition_index)
    if refusal := refused(marker, partition.topic_partition):
        raise KafkaError(refusal)
    end = TransactionMarker(
        aborted=not marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=broker.clock.now_ms(),
        ends_epoch=marker.transaction_version >= FIRST_TRANSACTION_VERSION_WITH_EPOCHS,
    )
    write = _MarkerWrite(partition, result)
    if topic == GROUP_METADATA_TOPIC:
        broker.groups.writes.end_transaction(
            result.partition_index, marker.producer_id, marker.producer_epoch, end, write.offsets_settled
        )
        return write
    info = partition.append(
        prepare_marker(marker.producer_id, marker.producer_epoch, end),
        origin=AppendOrigin.COORDINATOR,
        now_ms=end.timestamp,
    )
    write.end_offset = info.last_offset + 1
    return write


class _MarkerWrite:
    """A marker on its way into a partition."""

    __slots__ = ("_result", "_settled", "_term", "end_offset", "partition")

    def __init__(self, partition: Partition, result: WritableTxnMarkerPartitionResult) -> None:
        self.partition = partition
        self.end_offset: int | None = None
        """The offset after the marker; None if the group coordinator writes it."""
        self._term = partition.term
        self._result = result
        self._settled = False

    def offsets_settled(self, error: ErrorCode) -> None:
        """Take the result of the group coordinator."""
        if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # transaction coordinators send the marker again then
        self._settle(error)
        self.partition.wake()

    def is_written(self) -> bool:
        """Whether the marker is written or refused."""
        if not self._settled and self.end_offset is not None:
            try:
                if self.partition.is_acknowledged(self.end_offset, ALL_REPLICAS, self._term):
                    self._settle(ErrorCode.NONE)
            except KafkaError as error:
                self._settle(error.code)
        return self._settled

    def give_up(self) -> None:
        """Answer that the marker was not written in time."""
        if not self.is_written():
            self._settle(ErrorCode.REQUEST_TIMED_OUT)

    def _settle(self, error: ErrorCode) -> None:
        if not self._settled:
            self._settled = True
            self._result.error_code = error
