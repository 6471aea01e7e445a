"""Collects the news for the brokers, and makes the requests for each broker.

LeaderAndIsr goes to the replicas of a partition. What it says of a partition goes to all brokers as
UpdateMetadata too. StopReplica goes to replicas that are stopped or deleted. The requests are those of Apache
Kafka 3.9 in ZooKeeper mode: LeaderAndIsr v7, UpdateMetadata v8, StopReplica v4. Their type is always 0, as
there: only a KRaft controller says whether a request is full or incremental.

A topic that is being deleted is announced with leader -2, and its replicas are stopped with leader epoch -2,
which is valid whatever epoch a broker knows (LeaderAndIsr.LeaderDuringDelete and EpochDuringDelete).

Source: Kafka's ControllerBrokerRequestBatch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from kafkapy.controller.context import ControllerContext
from kafkapy.metadata.image import Broker, MetadataImage, PartitionState, Topic
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.controller_requests import EPOCH_DURING_DELETE, LEADER_DURING_DELETE

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class Sender(NamedTuple):
    """The controller that sends; `listener` is the brokers' listener for each other."""

    id: int
    epoch: int
    listener: str


class RequestBatch:
    """The news of one event for the brokers, with the content of the metadata then."""

    def __init__(self) -> None:
        self._leader_and_isr: defaultdict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        """For a broker, its partitions, each with whether it is new there."""
        self._stop: defaultdict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        """For a broker, its partitions, each with whether it is deleted."""
        self._metadata: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)
        """For a broker, the partitions of which it hears."""
        self._everybody: dict[TopicPartition, None] = {}
        """The partitions of which every broker hears."""

    def __bool__(self) -> bool:
        return bool(self._leader_and_isr or self._stop or self._metadata or self._everybody)

    def leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Tell replicas of a partition its leader, and all brokers the same."""
        for broker in brokers:
            found = self._leader_and_isr[broker]
            found[partition] = is_new or found.get(partition, False)
        self._everybody[partition] = None

    def update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Tell brokers which brokers are live, and the leaders of these partitions."""
        told = dict.fromkeys(partitions)
        for broker in brokers:
            self._metadata[broker].update(told)

    def stop_replica(self, brokers: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Have brokers stop a replica, and delete it if `delete`."""
        for broker in brokers:
            found = self._stop[broker]
            found[partition] = delete or found.get(partition, False)

    def requests(
        self, image: MetadataImage, context: ControllerContext, sender: Sender
    ) -> Iterator[tuple[int, ControlRequest]]:
        """The requests for the live brokers: for each, in the order in which to send them."""
        build = _Requests(image, context, sender)
        live = context.brokers
        for broker, partitions in self._leader_and_isr.items():
            if broker in live and (request := build.leader_and_isr(live[broker], partitions)) is not None:
                yield broker, request
        if self._everybody or self._metadata:
            informed = live if self._everybody else self._metadata
            for broker in informed:
                if broker in live:
                    told = {**self._everybody, **self._metadata.get(broker, {})}
                    yield broker, build.update_metadata(live[broker], told)
        for broker, partitions in self._stop.items():
            if broker in live:
                yield broker, build.stop_replica(live[broker], partitions)


class _Requests:
    """Makes requests of the content of one image."""

    def __init__(self, image: MetadataImage, context: ControllerContext, sender: Sender) -> None:
        self._image = image
        self._context = context
        self._sender = sender
        self._brokers = [_broker(broker) for broker in context.brokers.values()]
        self._told: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        """The entry of a partition in UpdateMetadata, the same for all brokers."""

    def leader_and_isr(
        self, to: Broker, partitions: Mapping[TopicPartition, bool]
    ) -> LeaderAndIsrRequest | None:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: dict[int, None] = {}
        for (name, index), is_new in partitions.items():
            topic = self._image.topics.get(name)
            if topic is None:
                continue  # it is being deleted
            state = topic.partitions[index]
            leaders[state.leader] = None
            if name not in topics:
                topics[name] = LeaderAndIsrTopicState(topic_name=name, topic_id=topic.id)
            topics[name].partition_states.append(_leader_and_isr(index, state, is_new=is_new))
        if not topics:
            return None
        live = (self._context.brokers[leader] for leader in leaders if leader in self._context.brokers)
        return LeaderAndIsrRequest(
            controller_id=self._sender.id,
            controller_epoch=self._sender.epoch,
            broker_epoch=to.epoch,
            topic_states=list(topics.values()),
            live_leaders=[_live_leader(broker, self._sender.listener) for broker in live],
        )

    def update_metadata(self, to: Broker, partitions: Iterable[TopicPartition]) -> UpdateMetadataRequest:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in partitions:
            topic, is_deleted = self._topic(partition.topic)
            if topic is None:
                continue
            if topic.name not in topics:
                topics[topic.name] = UpdateMetadataTopicState(topic_name=topic.name, topic_id=topic.id)
            if partition not in self._told:
                self._told[partition] = self._metadata(partition, topic, is_deleted=is_deleted)
            topics[topic.name].partition_states.append(self._told[partition])
        return UpdateMetadataRequest(
            controller_id=self._sender.id,
            controller_epoch=self._sender.epoch,
            broker_epoch=to.epoch,
            topic_states=list(topics.values()),
            live_brokers=self._brokers,
        )

    def stop_replica(self, to: Broker, partitions: Mapping[TopicPartition, bool]) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for partition, delete in partitions.items():
            if partition.topic not in topics:
                topics[partition.topic] = StopReplicaTopicState(topic_name=partition.topic)
            state = self._image.partition(*partition)
            is_deleted = state is None or partition.topic in self._context.deletions
            topics[partition.topic].partition_states.append(
                StopReplicaPartitionState(
                    partition_index=partition.partition,
                    leader_epoch=EPOCH_DURING_DELETE if is_deleted or state is None else state.leader_epoch,
                    delete_partition=delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self._sender.id,
            controller_epoch=self._sender.epoch,
            broker_epoch=to.epoch,
            topic_states=list(topics.values()),
        )

    def _topic(self, name: str) -> tuple[Topic | None, bool]:
        """A topic, and whether it is being deleted."""
        deletion = self._context.deletions.get(name)
        return (self._image.topics.get(name), False) if deletion is None else (deletion.topic, True)

    def _metadata(
        self, partition: TopicPartition, topic: Topic, *, is_deleted: bool
    ) -> UpdateMetadataPartitionState:
        state = topic.partitions[partition.partition]
        if is_deleted:
            state = state._replace(leader=LEADER_DURING_DELETE, leader_epoch=0, version=0)
        online = self._context.online(state.replicas, partition)
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.version,
            replicas=list(state.replicas),
            offline_replicas=[broker for broker in state.replicas if broker not in online],
        )


def _leader_and_isr(index: int, state: PartitionState, *, is_new: bool) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.version,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding),
        removing_replicas=list(state.removing),
        is_new=is_new,
        leader_recovery_state=state.recovery_state,
    )


def _live_leader(broker: Broker, listener: str) -> LeaderAndIsrLiveLeader:
    endpoint = broker.endpoints.get(listener)
    if endpoint is None:
        return LeaderAndIsrLiveLeader(broker_id=broker.id)
    return LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=endpoint.host, port=endpoint.port)


def _broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOLS.get(endpoint.security_protocol, 0),
            )
            for endpoint in broker.endpoints.values()
        ],
        rack=broker.rack,
    )
