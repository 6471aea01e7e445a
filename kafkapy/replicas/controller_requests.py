"""The controller's requests to this broker: to lead, to follow, to stop.

A request counts only from the latest controller that this broker has heard of (controller epoch), and only
for its present registration (broker epoch). A partition takes a state only with a leader epoch that is not
below its own, and with its topic's id. Requests are handled one after another, and each partition of one has
an error code of its own.

Controllers write the metadata tree before they tell brokers. So a controller epoch that the tree does not
have yet is nobody's, and would let this broker refuse every controller. A partition that the tree does not
have is refused: its name could be any path on this broker's disk. Apache Kafka takes both. To find what the
controller had written, the tree is read after a `MetadataStore.sync`: this broker's ZooKeeper may be behind.

A LeaderAndIsr with a leader epoch or partition epoch that the tree does not have is refused in the same way
(UNKNOWN_LEADER_EPOCH), since all states below it would be refused until a restart. The tree is read only
where the epochs are above those of the image. Of the other requests, nothing is kept that fences a later one.

    LeaderAndIsr      open the partitions, and lead them or follow their leaders. A request of type FULL names
                      all partitions of this broker: others that it serves are stopped, unless the metadata
                      assigns them to it. Their logs stay
    StopReplica       fetch no more; or delete the partition with its log, unless the tree keeps it here
    UpdateMetadata    which replicas are offline, and which topics are new (new_topics.py). The rest of the
                      metadata comes from the metadata tree

StopReplica has no topic id. A deletion that arrives late, or a second time, may meet the next topic of the
name. So a replica is deleted only if the tree does not assign it to this broker any more, or has its topic
marked for deletion: controllers write that first. Apache Kafka deletes any topic of the name.

In the same way a LeaderAndIsr that arrives after the deletion, or after the partition has moved away, brings
no replica back. If one is here all the same when the next topic of the name gets a leader or a follower here,
it is deleted. Apache Kafka refuses the new topic with INCONSISTENT_TOPIC_ID as long as the old replica is
there.

A state with the same leader epoch brings a new ISR or assignment. Apache Kafka's brokers ignore such a state
of a ZooKeeper controller, and answer STALE_CONTROLLER_EPOCH.

A replica that cannot be opened, or cannot take its role, is offline: its answer is KAFKA_STORAGE_ERROR. The
next request tries everything again. If only room or descriptors were lacking, this broker asks for that
request, by the notice that a log directory has failed (`ReplicaManager.reopen`).

Where this broker follows a leader that is not registered yet, it fetches as soon as it is. While it hands
its partitions over before a stop, it fetches only those in whose ISR it is.

Source: ReplicaManager (becomeLeaderOrFollower, stopReplicas), KafkaApis, Partition; KIP-380, KIP-516.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kafkapy.protocol.topic_names import is_valid
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.replicas.fetchers import Fetchers
from kafkapy.replicas.follower import Follower
from kafkapy.replicas.leader import Leader, LeaderParts
from kafkapy.replicas.new_topics import TOPICS_AT_ONCE, NewTopics, ReadTopics
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager

FULL: Final = 2
"""The type of a request that names every partition of the broker (KIP-866)."""

NO_LEADER_EPOCH: Final = -1
"""StopReplica before v3: the leader epoch is not compared."""
EPOCH_DURING_DELETE: Final = -2
"""The topic is being deleted, which is after every leader epoch."""
LEADER_DURING_DELETE: Final = -2
"""The leader of a partition whose topic is being deleted."""

UNKNOWN_BROKER_EPOCH: Final = -1

CHANGED_AT_ONCE: Final = 50
"""How many partitions change in one turn of the event loop."""

NAMED_AT_ONCE: Final = 1000
"""How many partitions of a request are looked at in one turn of the event loop."""

ReadStates = Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, PartitionState]]]
"""Reads the states of partitions from the metadata tree, without their replicas.

Those that it does not have are left out.
"""

logger = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    """The state that a partition is to take."""

    key: TopicPartition
    topic_id: Uuid
    state: PartitionState
    is_new: bool

    def is_in(self, written: PartitionState | None) -> bool:
        """Whether the metadata has reached the epochs of this state."""
        return (
            written is not None
            and self.state.leader_epoch <= written.leader_epoch
            and self.state.version <= written.version
        )


class _Stop(NamedTuple):
    """A partition that is to stop."""

    key: TopicPartition
    leader_epoch: int
    delete: bool


class ControllerRequests:
    """Gives this broker's partitions their roles."""

    def __init__(
        self,
        replicas: ReplicaManager,
        fetchers: Fetchers,
        leader_parts: LeaderParts,
        *,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
        read_topics: ReadTopics,
        read_states: ReadStates,
        read_controller_epoch: Callable[[], Awaitable[int]],
    ) -> None:
        """Change the roles of the partitions in `replicas`.

        `broker_epoch` is that of this broker's registration. `read_topics` reads topics from the metadata
        tree, which the image may not have yet, without the states of their partitions; those that the tree
        does not have, or has marked for deletion, are left out. `read_states` reads there the states of
        partitions, and `read_controller_epoch` the epoch of the latest controller.
        """
        self._replicas = replicas
        self._fetchers = fetchers
        self._leader_parts = leader_parts
        self._node_id = leader_parts.node_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._read_topics = read_topics
        self._read_states = read_states
        self._read_controller_epoch = read_controller_epoch
        self._controller_epoch = 0
        self._turn = asyncio.Lock()
        self.is_leaving = False
        """Whether this broker is about to stop: it does not come into sync again."""
        self.offline_replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        """The brokers whose replicas of a partition are offline, as the controller knows it."""
        self.new_topics = NewTopics(read_topics)

    @property
    def controller_epoch(self) -> int:
        """The epoch of the latest controller that has asked something of this broker."""
        return self._controller_epoch

    def leaders(self) -> Iterator[Leader]:
        """The leaders on this broker, without those that are offline."""
        for partition in self._replicas:
            if isinstance(partition.replication, Leader) and not partition.offline:
                yield partition.replication

    # --- LeaderAndIsr ---------------------------------------------------------------------------------------

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Let partitions be led or followed here, and answer each with an error code."""
        refusal = await self._refusal(request.controller_epoch, request.broker_epoch)
        if refusal:
            return LeaderAndIsrResponse(error_code=refusal)
        async with self._turn:
            refusal = self._fence(request.controller_epoch, request.broker_epoch)
            if refusal:
                return LeaderAndIsrResponse(error_code=refusal)
            topics = await self._topics(
                ((each.key, each.topic_id) for each in _wanted(request)), for_roles=True
            )
            written = await self._written_after_image(request, topics)
            answers = _Answers()
            for count, each in enumerate(_wanted(request), 1):
                if self._is_of_another_topic(each):
                    await self._delete_former(each)
                latest = written.get(each.key) or self._image().partition(*each.key)
                answers.note(each, self._assign(each, topics.get(each.key.topic), latest))
                if count % CHANGED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            if request.type == FULL:
                self._stop_others(answers.errors)
            self._fetchers.retire_idle()
            return answers.response()

    async def _topics(
        self, named: Iterable[tuple[TopicPartition, Uuid]], *, for_roles: bool = False
    ) -> dict[str, Topic]:
        """The topics of partitions, read where the image does not have them yet.

        Those that are to give a role to a replica that is not here are read in any case: the image may still
        show a replica that has moved away.

        Those that are marked for deletion are left out. The image has left them out too, and a request that
        arrives late would otherwise bring back a replica that was deleted.
        """
        found: dict[str, Topic] = {}
        missing: dict[str, None] = {}
        for count, (key, topic_id) in enumerate(named, 1):
            topic = self._image().topics.get(key.topic)
            if (
                topic is not None
                and topic_id in (ZERO_UUID, topic.id)
                and _has(topic, key)
                and (not for_roles or self._replicas.find(key) is not None)
            ):
                found[key.topic] = topic
            elif is_valid(key.topic):
                missing[key.topic] = None
            if count % NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        names = iter(missing)
        while some := list(islice(names, TOPICS_AT_ONCE)):
            found |= await self._read_topics(some)
        return found

    async def _written_after_image(
        self, request: LeaderAndIsrRequest, topics: Mapping[str, Topic]
    ) -> dict[TopicPartition, PartitionState]:
        """The states that the tree has of those partitions whose epochs are above the image's."""
        newer: dict[TopicPartition, None] = {}
        for count, each in enumerate(_wanted(request), 1):
            topic = topics.get(each.key.topic)
            exists = topic is not None and _has(topic, each.key)
            if exists and not each.is_in(self._image().partition(*each.key)):
                newer[each.key] = None
            if count % NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        written: dict[TopicPartition, PartitionState] = {}
        keys = iter(newer)
        while some := list(islice(keys, NAMED_AT_ONCE)):
            written |= await self._read_states(some)
        return written

    def _is_of_another_topic(self, wanted: _Wanted) -> bool:
        """Whether the replica here has another topic id than the one that is wanted."""
        hosted = self._replicas.find(wanted.key)
        here = None if hosted is None else hosted.topic_id
        return here not in (None, ZERO_UUID) and wanted.topic_id not in (ZERO_UUID, here)

    async def _delete_former(self, wanted: _Wanted) -> None:
        """Delete a replica of a former topic of this name, if the tree has the one that is wanted.

        It is here because the request to delete it came before one to follow, of the same controller, that
        arrived late. The caller holds the turn: what the tree says is newer than what is here.
        """
        topic = (await self._read_topics([wanted.key.topic])).get(wanted.key.topic)
        if topic is None or topic.id != wanted.topic_id:
            return
        logger.warning("%s is deleted: it is of a former topic of this name", wanted.key)
        self._stop_one(_Stop(wanted.key, EPOCH_DURING_DELETE, delete=True), is_kept=False)
        await self._replicas.settle()

    def _assign(self, wanted: _Wanted, topic: Topic | None, written: PartitionState | None) -> ErrorCode:
        """Give a partition its role; `written` is the latest state in the metadata."""
        key, state = wanted.key, wanted.state
        if topic is None or not _has(topic, key):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        hosted = self._replicas.find(key)
        known_id = topic.id if hosted is None else hosted.topic_id or ZERO_UUID
        if ZERO_UUID not in (wanted.topic_id, known_id) and wanted.topic_id != known_id:
            logger.error("%s has another topic id than the controller has", key)
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if not wanted.is_in(written):
            logger.error(
                "A request with the leader epoch %d and the partition epoch %d of %s is refused: the metadata"
                " does not have them",
                state.leader_epoch,
                state.version,
                key,
            )
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if hosted is not None:
            role = hosted.replication
            if hosted.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if state.leader_epoch < role.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if state.leader_epoch == role.leader_epoch:
                return self._update(hosted, state)
        assigned = state.replicas if hosted is not None else topic.partitions[key.partition].replicas
        if self._node_id not in state.replicas or self._node_id not in assigned:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # A replica that is not in sync may begin with nothing: nobody counts on what it had.
        refilled = state.leader >= 0 and self._node_id not in state.isr
        try:
            partition = self._replicas.host(
                key, wanted.topic_id, topic.configs, new=wanted.is_new, refilled=refilled
            )
            self._begin(partition, state)
        except KafkaError as error:
            logger.error("%s cannot take its role: %s", key, error)
            self._fetchers.unfollow(key)
            self._replicas.cannot_serve(key, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _begin(self, partition: Partition, state: PartitionState) -> None:
        """Begin to lead or follow, in a new leader epoch.

        Raises:
            KafkaError: the log cannot be used.
        """
        self._fetchers.unfollow(partition.topic_partition)
        log, led = partition.log, partition.replication.leads
        leads = state.leader == self._node_id
        logger.info(
            "%s %s: leader %d, epoch %d, ISR %s, replicas %s, version %d; log %d to %d, high watermark %d",
            "Leading" if leads else "Following",
            partition.topic_partition,
            state.leader,
            state.leader_epoch,
            list(state.isr),
            list(state.replicas),
            state.version,
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
        )
        if leads:
            self._replicas.lead(partition, Leader(partition, state, self._leader_parts))
            return
        follower = Follower(state)
        partition.replicate(follower)
        if log.leader_epochs.latest_epoch < 0 and log.log_end_offset > log.high_watermark:
            # Without epochs nobody can tell where the leader's log differs.
            partition.truncate_to(log.high_watermark)
        self._follow(partition, follower, state)
        if led:
            self._replicas.tell_leadership(partition, leads=False)

    def _follow(self, partition: Partition, follower: Follower, state: PartitionState) -> None:
        """Fetch a partition, unless it was taken from this broker because it is about to stop.

        The leader would let producers wait for a replica that fetches, and soon fetches no more.
        """
        if self._node_id in state.isr or not self.is_leaving:
            self._fetchers.follow(partition, follower)

    def _update(self, partition: Partition, state: PartitionState) -> ErrorCode:
        """Take over a state of the present leader epoch."""
        role = partition.replication
        if isinstance(role, Leader):
            if state.leader != self._node_id or state.version < role.partition_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            role.update(state)
            return ErrorCode.NONE
        if isinstance(role, Follower):
            if state.leader != role.leader or state.version < role.partition_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            role.partition_epoch = state.version
            if not self._fetchers.follows(partition.topic_partition):  # StopReplica has ended it
                self._follow(partition, role, state)
            return ErrorCode.NONE
        return ErrorCode.STALE_CONTROLLER_EPOCH

    def _stop_others(self, named: Collection[TopicPartition]) -> None:
        """Stop what neither a full request names nor the metadata assigns to this broker."""
        for partition in list(self._replicas):
            if partition.topic_partition not in named and not self._is_assigned(partition):
                logger.warning(
                    "%s is not assigned to this broker any more. Its log stays as it is: %s",
                    partition.topic_partition,
                    partition.log.path,
                )
                self._stop(partition)
                self._replicas.stop_hosting(partition.topic_partition)

    def _is_assigned(self, partition: Partition) -> bool:
        """Whether the image assigns a partition to this broker."""
        image, (name, index) = self._image(), partition.topic_partition
        state = image.partition(name, index)
        return (
            state is not None
            and self._node_id in state.replicas
            and partition.topic_id in (None, image.topics[name].id)
        )

    # --- StopReplica ----------------------------------------------------------------------------------------

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Let partitions be fetched no more, or be deleted; the answer comes when that is on disk."""
        refusal = await self._refusal(request.controller_epoch, request.broker_epoch)
        if refusal:
            return StopReplicaResponse(error_code=refusal)
        async with self._turn:
            refusal = self._fence(request.controller_epoch, request.broker_epoch)
            if refusal:
                return StopReplicaResponse(error_code=refusal)
            kept = await self._kept(request)
            errors: dict[TopicPartition, StopReplicaPartitionError] = {}
            deletes = False
            for count, each in enumerate(_stops(request), 1):
                topic, index = each.key
                code = self._stop_one(each, is_kept=self._is_kept(each, kept))
                errors[each.key] = StopReplicaPartitionError(
                    topic_name=topic, partition_index=index, error_code=code
                )
                deletes = deletes or each.delete
                if count % CHANGED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            self._fetchers.retire_idle()
            if deletes:
                await self._replicas.settle()
            return StopReplicaResponse(partition_errors=list(errors.values()))

    async def _kept(self, request: StopReplicaRequest) -> dict[str, Topic]:
        """The topics of replicas to be deleted that the tree has, and not marked for deletion.

        The caller holds the turn, so that no other replicas come while the tree is read.
        """
        names: dict[str, None] = {}
        for count, each in enumerate(_stops(request), 1):
            if each.delete and self._replicas.topic_id(each.key) is not None:
                names[each.key.topic] = None
            if count % NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        kept: dict[str, Topic] = {}
        rest = iter(names)
        while some := list(islice(rest, TOPICS_AT_ONCE)):
            kept |= await self._read_topics(some)
        return kept

    def _is_kept(self, stop: _Stop, kept: dict[str, Topic]) -> bool:
        """Whether a deletion is refused: the tree assigns this very replica to this broker."""
        topic, index = kept.get(stop.key.topic), stop.key.partition
        if not stop.delete or topic is None or not _has(topic, stop.key):
            return False
        state = topic.partitions[index]
        return (
            self._replicas.topic_id(stop.key) in (topic.id, ZERO_UUID)
            and self._node_id in state.replicas
            and self._node_id not in state.removing
        )

    def _stop_one(self, stop: _Stop, *, is_kept: bool) -> ErrorCode:
        if is_kept:
            logger.warning(
                "%s is not deleted: the metadata assigns it to this broker. The request is late, or no"
                " controller's.",
                stop.key,
            )
            return ErrorCode.FENCED_LEADER_EPOCH
        partition = self._replicas.find(stop.key)
        if partition is not None:
            if partition.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if stop.leader_epoch not in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE) and (
                stop.leader_epoch < partition.leader_epoch
            ):
                return ErrorCode.FENCED_LEADER_EPOCH
            self._stop(partition, for_good=stop.delete)
        if stop.delete:
            try:
                self._replicas.delete(stop.key)
            except KafkaError as error:
                logger.error("%s is deleted, but its files stay: %s", stop.key, error)
                return ErrorCode.KAFKA_STORAGE_ERROR
            self.offline_replicas.pop(stop.key, None)
        return ErrorCode.NONE

    def _stop(self, partition: Partition, *, for_good: bool = True) -> None:
        """Fetch a partition no more; `for_good` says that it will not be led here either."""
        self._fetchers.unfollow(partition.topic_partition)
        partition.wake()
        if for_good and partition.replication.leads:
            self._replicas.tell_leadership(partition, leads=False)

    # --- UpdateMetadata -------------------------------------------------------------------------------------

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Note the offline replicas, and the topics that the image does not have yet."""
        refusal = await self._refusal(request.controller_epoch, request.broker_epoch) or self._fence(
            request.controller_epoch, request.broker_epoch
        )
        if refusal:
            return UpdateMetadataResponse(error_code=refusal)
        await self._note_new_topics(request)
        offline: dict[TopicPartition, list[int]] = {}
        for count, (key, state) in enumerate(_updates(request), 1):
            if state.offline_replicas and state.leader != LEADER_DURING_DELETE:
                offline[key] = state.offline_replicas
            else:
                self.offline_replicas.pop(key, None)
            if count % NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        topics = await self._topics((key, ZERO_UUID) for key in offline)
        for count, (key, brokers) in enumerate(offline.items(), 1):
            topic = topics.get(key.topic)
            if topic is not None and _has(topic, key):
                assigned = topic.partitions[key.partition].replicas
                self.offline_replicas[key] = tuple(broker for broker in assigned if broker in brokers)
            if count % NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return UpdateMetadataResponse()

    async def _note_new_topics(self, request: UpdateMetadataRequest) -> None:
        count = 0
        for topic in request.topic_states:
            is_known = topic.topic_id == ZERO_UUID or topic.topic_id in self._image().topics_by_id
            if is_known or not is_valid(topic.topic_name):
                continue
            for state in topic.partition_states:
                if state.leader == LEADER_DURING_DELETE:
                    self.new_topics.forget(topic.topic_name)
                    break
                taken = _told(state)
                self.new_topics.note(topic.topic_name, topic.topic_id, state.partition_index, taken)
                count += 1
                if count % NAMED_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _refusal(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """The error for a request that need not wait for its turn."""
        if controller_epoch > self._controller_epoch:
            latest = await self._read_controller_epoch()
            if controller_epoch > latest:
                logger.error(
                    "A request with the controller epoch %d is refused: the latest is %d",
                    controller_epoch,
                    latest,
                )
                return ErrorCode.INVALID_REQUEST
        return self._fence(controller_epoch, broker_epoch)

    def _fence(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """The error for a request of an old controller, or for an earlier registration."""
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self._controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._controller_epoch = controller_epoch
        return ErrorCode.NONE


def _wanted(request: LeaderAndIsrRequest) -> Iterator[_Wanted]:
    for state in request.ungrouped_partition_states:
        yield _one_wanted(state.topic_name, ZERO_UUID, state)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _one_wanted(topic.topic_name, topic.topic_id, state)


def _one_wanted(topic: str, topic_id: Uuid, state: LeaderAndIsrPartitionState) -> _Wanted:
    taken = PartitionState(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        state.controller_epoch,
        state.partition_epoch,
        state.leader_recovery_state,
    )
    return _Wanted(TopicPartition(topic, state.partition_index), topic_id, taken, state.is_new)


def _told(state: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        controller_epoch=state.controller_epoch,
        version=state.zk_version,
    )


def _has(topic: Topic, key: TopicPartition) -> bool:
    """Whether a topic has a partition."""
    return 0 <= key.partition < len(topic.partitions) and topic.partitions[key.partition].exists


class _Answers:
    """The error codes of a LeaderAndIsr request, by names (v0-4) or by topic ids."""

    def __init__(self) -> None:
        self.errors: dict[TopicPartition, LeaderAndIsrPartitionError] = {}
        self._topics: dict[Uuid, LeaderAndIsrTopicError] = {}

    def note(self, wanted: _Wanted, code: ErrorCode) -> None:
        """Note the error code of a partition; the last one counts."""
        key = wanted.key
        known = self.errors.get(key)
        if known is not None:
            known.error_code = code
            return
        error = self.errors[key] = LeaderAndIsrPartitionError(
            topic_name=key.topic, partition_index=key.partition, error_code=code
        )
        topic = self._topics.get(wanted.topic_id)
        if topic is None:
            topic = self._topics[wanted.topic_id] = LeaderAndIsrTopicError(topic_id=wanted.topic_id)
        topic.partition_errors.append(error)

    def response(self) -> LeaderAndIsrResponse:
        return LeaderAndIsrResponse(
            partition_errors=list(self.errors.values()), topics=list(self._topics.values())
        )


def _stops(request: StopReplicaRequest) -> Iterator[_Stop]:
    for each in request.ungrouped_partitions:
        key = TopicPartition(each.topic_name, each.partition_index)
        yield _Stop(key, NO_LEADER_EPOCH, request.delete_partitions)
    for old in request.topics:
        for index in old.partition_indexes:
            yield _Stop(TopicPartition(old.name, index), NO_LEADER_EPOCH, request.delete_partitions)
    for topic in request.topic_states:
        for state in topic.partition_states:
            key = TopicPartition(topic.topic_name, state.partition_index)
            yield _Stop(key, state.leader_epoch, state.delete_partition)


def _updates(request: UpdateMetadataRequest) -> Iterator[tuple[TopicPartition, UpdateMetadataPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield TopicPartition(state.topic_name, state.partition_index), state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state
