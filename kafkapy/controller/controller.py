"""The controller of a cluster: it chooses the leaders, and tells the brokers.

One broker is the controller. It follows the metadata tree as every broker does. What has changed there is
an event for it: brokers came or are gone, topics were created, marked for deletion or changed by hand. So
are the answers of brokers, and requests: AlterPartition, ControlledShutdown, ElectLeaders and others. All
of them are handled one after another, under the writer's turn.

Changed brokers and topics only say which partitions to look at again. Each is then brought into line
with what the metadata and the live brokers are now (`reconciliation.py`), some at a time: written, published,
told to the brokers. If the metadata store fails, the rest waits until it answers.

A new controller looks at all partitions. It also reads which registrations of brokers its predecessors have
acted on: a broker that has registered since then has started anew, which nobody may have noticed while
there was no controller.

Source: Kafka's KafkaController.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.channels import Channels, OwnBroker
from kafkapy.controller.context import (
    PartitionStatus,
)
from kafkapy.controller.controlled_shutdown import hand_over
from kafkapy.controller.deletions import asked_to_delete
from kafkapy.controller.elections import ElectionType
from kafkapy.controller.expectations import Expectation, Expectations
from kafkapy.controller.isr_changes import alter_partitions
from kafkapy.controller.producer_ids import reserve_block
from kafkapy.controller.reconciliation import reconcile
from kafkapy.controller.request_batch import ControlRequest, RequestBatch
from kafkapy.controller.state_changes import StateChanges
from kafkapy.controller.state_commits import PARTITIONS_AT_ONCE
from kafkapy.controller.term import Term
from kafkapy.inter_broker.peers import Peers
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import NO_LEADER, Broker, MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    NoNodeError,
    SetData,
)
from kafkapy.metadata.tree_changes import CONTROLLER_REQUESTS, TreeChanges
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import DamagedNodeError
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from kafkapy.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

FIRST_REBALANCE_SECONDS: Final = 5.0
"""The first look for leaders to rebalance after an election, as in Apache Kafka."""

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


class Controller:
    """The controller, while this broker is it; it knows nothing while another broker is."""

    def __init__(
        self,
        writer: MetadataWriter,
        store: MetadataStore,
        cache: MetadataCache,
        config: BrokerConfig,
        changes: TreeChanges,
        own: OwnBroker,
        peers: Peers,
        *,
        node_id: int,
    ) -> None:
        self._writer = writer
        self._store = store
        self._config = config
        self._changes = changes
        self._node_id = node_id
        self._listener: str = config.inter_broker_listener
        self._channels = Channels(
            node_id,
            own,
            peers,
            listener=self._listener,
            seconds=config["controller.socket.timeout.ms"] / 1000,
            answered=self._answered,
        )
        self.term = self._new_term()
        """Its knowledge and its tasks since its election."""
        self._led: Expectations[TopicPartition] = Expectations()
        self._rebalancing: asyncio.Task[None] | None = None
        self._unclean: bool = config[UNCLEAN_ELECTION]
        cache.follow(self._image_changed)
        config.on_change(self._config_changed)

    # --- the term of office -------------------------------------------------------------------------------

    def elected(self) -> None:
        """Begin a term with nothing; `act` finds out the rest."""
        self.term = self._new_term()
        self._changes.requests.update(CONTROLLER_REQUESTS)

    def _new_term(self) -> Term:
        return Term(self._writer, self._store, self._channels, self._config, self._node_id)

    def resigned(self) -> None:
        """Stop telling brokers anything, since another broker is the controller."""
        self.term.has_begun = False
        self._channels.end()
        self._led.give_up()
        self.term.deletions.give_up()
        if self._rebalancing is not None:
            self._rebalancing.cancel()
            self._rebalancing = None

    async def close(self) -> None:
        """Resign, and wait until no request is being sent any more."""
        self.resigned()
        await self._channels.ended()

    def require(self) -> None:
        """Raise KafkaError NOT_CONTROLLER unless this broker is the controller, and ready."""
        self._writer.require_controller()
        if not self.term.has_begun:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async def act(self) -> None:
        """Act on what has changed.

        The caller holds the turn, and has read the changes.

        Raises:
            KafkaError, MetadataStoreError: not all could be done; the next call does the rest.
        """
        if not self.term.has_begun:
            await self._begin()
        await self._take_brokers()
        await self._take_answers()
        await self.term.deletions.take_removed()
        await self._take_requests()
        await self._look_at_partitions()
        await self._advance_deletions()
        self.term.context.restarted.clear()
        await self._note_epochs()
        await self.term.reassignments.advance_all()
        if self.term.answers or self.term.to_do or self._changes.requests:
            # They came meanwhile. A read of the changes forgets the wake that they had caused.
            self._changes.wake()

    async def _begin(self) -> None:
        try:
            node = await self._store.get(znodes.BROKER_EPOCHS)
            self.term.acted_on = znodes.decode_broker_epochs(node.data)
        except (NoNodeError, DamagedNodeError):
            self.term.acted_on = None
        image, context = self._writer.image, self.term.context
        context.brokers.update(image.brokers)
        known = self.term.acted_on or {}
        context.restarted.update(
            broker.id for broker in image.brokers.values() if known.get(broker.id) != broker.epoch
        )
        for broker in image.brokers.values():
            self._channels.add(broker)
        # Brokers follow a leader only if they know it.
        requests = RequestBatch()
        requests.update_metadata(context.brokers)
        self.term.commits.send(requests)
        self.term.to_do = dict.fromkeys(_partitions(image.topics.values()), True)
        self.term.reassignments.find(image)
        self.term.has_begun = True
        if self._config["auto.leader.rebalance.enable"]:
            self._rebalancing = asyncio.create_task(self._rebalance(), name="kafkapy-leader-rebalance")
        logger.info(
            "The controller knows the brokers %s and %d partitions",
            ", ".join(map(str, sorted(context.brokers))),
            len(self.term.to_do),
        )

    async def _note_epochs(self) -> None:
        """Write down which registrations of brokers were acted on, for the next controller."""
        epochs = {broker.id: broker.epoch for broker in self.term.context.brokers.values()}
        if epochs == self.term.acted_on:
            return
        path, data = znodes.BROKER_EPOCHS, znodes.encode_broker_epochs(epochs)

        async def attempt() -> None:
            stat = await self._store.exists(path)
            operation = Create(path, data) if stat is None else SetData(path, data, stat.version)
            await self._writer.commit([operation])

        await self._writer.until_current(attempt)
        self.term.acted_on = epochs

    # --- what changes in the image ------------------------------------------------------------------------

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Note the partitions to look at: others have changed the image, or topics were created."""
        if not self.term.has_begun or self.term.commits.is_publishing:
            return
        for name in new.changed_topics(old):
            before, after = old.topics.get(name), new.topics.get(name)
            if before is not None and (after is None or after.id != before.id):
                self.term.deletions.note_removed(before)
                before = None
            if after is None:
                continue
            for index, state in enumerate(after.partitions):
                known = before.partitions[index] if before and index < len(before.partitions) else None
                if state is not known and state != known:
                    self.term.to_do[TopicPartition(name, index)] = known is not None
            self.term.reassignments.note(after)
            if before is not None and before.configs != after.configs and self._is_unclean(name):
                self._look_at_offline(_partitions([after]))
        self._changes.wake()

    def _config_changed(self) -> None:
        """Look at the offline partitions again, when unclean elections become the default."""
        before, self._unclean = self._unclean, self._config[UNCLEAN_ELECTION]
        if self._unclean and not before and self.term.has_begun:
            self._look_at_offline(self.term.context.partitions)
            self._changes.wake()

    def _look_at_offline(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if self.term.context.partitions.get(partition) is PartitionStatus.OFFLINE:
                self.term.to_do.setdefault(partition, False)

    def _is_unclean(self, topic: str) -> bool:
        """Whether a replica of a topic may lead that is not in sync."""
        configs = self._writer.image.topics[topic].configs
        return configs[UNCLEAN_ELECTION] == "true" if UNCLEAN_ELECTION in configs else self._unclean

    # --- brokers ------------------------------------------------------------------------------------------

    async def _take_brokers(self) -> None:
        """Note the brokers that came and went, and the partitions which that concerns."""
        context, image = self.term.context, self._writer.image
        gone, came = context.differing(image.brokers)
        changed = [broker for broker in image.brokers.values() if context.brokers.get(broker.id) != broker]
        if not gone and not changed:
            return
        for broker_id in gone:
            self._channels.remove(broker_id)
        context.remove_brokers(gone)
        context.add_brokers(came)
        for broker in came:
            self._channels.add(broker)
        for broker in changed:
            context.brokers[broker.id] = broker
        logger.info(
            "Brokers came: %s; gone: %s; live: %s",
            _listed(broker.id for broker in came),
            _listed(gone),
            _listed(context.brokers),
        )
        requests = RequestBatch()
        requests.update_metadata(context.brokers)
        self.term.commits.send(requests)
        concerned = {*gone, *(broker.id for broker in came)}
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                if not concerned.isdisjoint(state.replicas) or state.leader in concerned:
                    self.term.to_do.setdefault(TopicPartition(topic.name, index), False)
        self.term.deletions.brokers_changed()
        await self._tell_of_all_partitions([broker.id for broker in came])

    async def _tell_of_all_partitions(self, came: Collection[int]) -> None:
        """Tell brokers that came the leaders of the partitions that are not looked at anyway."""
        topics = self._writer.image.topics.values() if came else ()
        rest = (partition for partition in _partitions(topics) if partition not in self.term.to_do)
        while some := list(islice(rest, PARTITIONS_AT_ONCE)):
            requests = RequestBatch()
            requests.update_metadata(came, some)
            self.term.commits.send(requests)
            await asyncio.sleep(0)  # let other requests run

    async def _look_at_partitions(self) -> None:
        """Bring the noted partitions into line, some at a time."""
        while self.term.to_do:
            some = dict(islice(self.term.to_do.items(), PARTITIONS_AT_ONCE))
            await self.term.commits.make(lambda changes, some=some: self._reconcile(changes, some))  # type: ignore[misc]
            for partition, tell_all in some.items():
                if self.term.to_do.get(partition) == tell_all:
                    del self.term.to_do[partition]
            await asyncio.sleep(0)  # let other requests run

    def _reconcile(self, changes: StateChanges, partitions: dict[TopicPartition, bool]) -> None:
        for partition, tell_all in partitions.items():
            if changes.find(partition) is not None:
                reconcile(
                    changes,
                    partition,
                    unclean=self._is_unclean(partition.topic),
                    is_new=not tell_all,
                    tell_all=tell_all,
                )

    # --- answers of brokers -------------------------------------------------------------------------------

    def _answered(self, broker: Broker, request: ControlRequest, response: Any) -> None:
        """Note what a broker has answered, if that changes anything."""
        if isinstance(response, LeaderAndIsrResponse):
            errors = [error for topic in response.topics for error in topic.partition_errors]
            if any(error.error_code != ErrorCode.NONE for error in errors) or self.term.context.offline.get(
                broker.id
            ):
                self.term.answers.append((broker, request, response))
                self._changes.wake()
            elif self._led and response.error_code == ErrorCode.NONE:
                self._note_led(broker, response)
        elif isinstance(request, StopReplicaRequest) and next(asked_to_delete(request), None) is not None:
            self.term.answers.append((broker, request, response))
            self._changes.wake()
        if response.error_code != ErrorCode.NONE:
            logger.error(
                "broker %d has answered %s with %s",
                broker.id,
                type(request).__name__,
                ErrorCode(response.error_code).name,
            )

    def _note_led(self, broker: Broker, response: LeaderAndIsrResponse) -> None:
        """Note the partitions whose leader knows that it leads."""
        image = self._writer.image
        for topic in response.topics:
            found = image.topics_by_id.get(topic.topic_id)
            for answer in topic.partition_errors if found is not None else ():
                index = answer.partition_index
                if (
                    found is not None
                    and answer.error_code == ErrorCode.NONE
                    and index < len(found.partitions)
                    and found.partitions[index].leader == broker.id
                ):
                    self._led.happened(TopicPartition(found.name, index))

    async def _take_answers(self) -> None:
        """Act on what brokers have answered: which replicas are offline or deleted."""
        while self.term.answers:
            broker, request, response = self.term.answers[0]
            known = self.term.context.brokers.get(broker.id)
            if known is not None and known.epoch == broker.epoch:
                if isinstance(request, LeaderAndIsrRequest):
                    self._take_offline_replicas(broker, response)
                    self._note_led(broker, response)
                elif isinstance(request, StopReplicaRequest):
                    await self.term.deletions.take_answer(broker.id, request, response)
            self.term.answers.popleft()

    def _take_offline_replicas(self, broker: Broker, response: LeaderAndIsrResponse) -> None:
        image = self._writer.image
        offline = self.term.context.offline.setdefault(broker.id, set())
        for topic in response.topics:
            name = image.topic_name(topic.topic_id)
            for answer in topic.partition_errors if name is not None else ():
                assert name is not None
                partition = TopicPartition(name, answer.partition_index)
                if answer.error_code == ErrorCode.NONE:
                    if partition in offline:
                        logger.info("the replica of %s on broker %d is online again", partition, broker.id)
                        offline.remove(partition)
                        self.term.to_do.setdefault(partition, False)
                elif answer.error_code != ErrorCode.KAFKA_STORAGE_ERROR:
                    # A broker that knows a newer state answers STALE_CONTROLLER_EPOCH.
                    error = ErrorCode(answer.error_code).name
                    logger.info("broker %d does not take the state of %s: %s", broker.id, partition, error)
                elif partition not in offline:
                    logger.warning("the replica of %s on broker %d is offline", partition, broker.id)
                    offline.add(partition)
                    self.term.to_do.setdefault(partition, False)

    # --- deletions ----------------------------------------------------------------------------------------

    async def delete_topics(self, topics: Collection[Topic]) -> None:
        """Begin to delete topics that have just been marked.

        The caller holds the turn.

        Raises:
            KafkaError, MetadataStoreError: it continues later.
        """
        self.term.deletions.begin(topics)
        await self._advance_deletions()

    async def _advance_deletions(self) -> None:
        for name in await self.term.deletions.advance():
            topic = self._writer.image.topics.get(name)
            if topic is not None:  # somebody has created it anew
                self.term.to_do.update(dict.fromkeys(_partitions([topic]), False))
                self._changes.wake()

    # --- what others ask by writing a node ----------------------------------------------------------------

    async def _take_requests(self) -> None:
        for path in CONTROLLER_REQUESTS:
            if path not in self._changes.requests:
                continue
            self._changes.requests.discard(path)
            try:
                if path == znodes.DELETE_TOPICS:
                    await self.term.deletions.take_marked()
                elif path == znodes.PREFERRED_REPLICA_ELECTION:
                    await self._take_preferred_election()
                elif path == znodes.REASSIGN_PARTITIONS:
                    await self._look_at_partitions()
                    await self.term.reassignments.take_by_hand()
                elif path == znodes.ISR_CHANGES:
                    await self._take_isr_changes()
                else:
                    await self._take_log_dir_events()
            except BaseException:
                self._changes.requests.add(path)
                raise

    async def _take_preferred_election(self) -> None:
        try:
            node = await self._store.get(znodes.PREFERRED_REPLICA_ELECTION)
            partitions = znodes.decode_preferred_replica_election(node.data)
        except NoNodeError:
            return
        except DamagedNodeError as error:
            logger.error("an election is ignored: %s", error)
            partitions = []
        await self._look_at_partitions()
        for partition, problem in (
            await self.term.elections.elect(ElectionType.PREFERRED, partitions)
        ).items():
            if problem is not None and problem.code is not ErrorCode.ELECTION_NOT_NEEDED:
                logger.warning("the preferred replica of %s does not lead: %s", partition, problem)
        await self._writer.commit([Delete(znodes.PREFERRED_REPLICA_ELECTION)])

    async def _take_isr_changes(self) -> None:
        """Read the partitions again whose leaders have changed the in-sync replicas themselves.

        Brokers of Apache Kafka do that with an inter.broker.protocol.version below 2.7. The image shows what
        they write in any case; the notices would pile up.
        """
        for name in await self._store.children(znodes.ISR_CHANGES):
            path = f"{znodes.ISR_CHANGES}/{name}"
            try:
                partitions = znodes.decode_isr_changes(path, (await self._store.get(path)).data)
            except NoNodeError:
                continue
            except DamagedNodeError as error:
                logger.error("a notice is ignored: %s", error)
            else:
                self._changes.add(znodes.partition_state_path(*partition) for partition in partitions)
            await self._writer.commit([Delete(path)])

    async def _take_log_dir_events(self) -> None:
        """Ask brokers whose log directories failed, or have room again, which replicas are offline."""
        for name in await self._store.children(znodes.LOG_DIR_EVENTS):
            path = f"{znodes.LOG_DIR_EVENTS}/{name}"
            try:
                broker_id = znodes.decode_log_dir_event(path, (await self._store.get(path)).data)
            except NoNodeError:
                continue
            except DamagedNodeError as error:
                logger.error("a notice is ignored: %s", error)
            else:
                await self._ask_for_offline_replicas(broker_id)
            await self._writer.commit([Delete(path)])

    async def _ask_for_offline_replicas(self, broker_id: int) -> None:
        replicas = iter(
            [
                TopicPartition(topic.name, index)
                for topic in self._writer.image.topics.values()
                for index, state in enumerate(topic.partitions)
                if broker_id in state.replicas
            ]
        )
        while some := list(islice(replicas, PARTITIONS_AT_ONCE)):
            requests = RequestBatch()
            for partition in some:
                requests.leader_and_isr([broker_id], partition)
            self.term.commits.send(requests)
            await asyncio.sleep(0)  # let other requests run

    # --- requests -----------------------------------------------------------------------------------------

    def live(self) -> Collection[int]:
        """The brokers that are live and not shutting down."""
        return [broker for broker in self.term.context.brokers if self.term.context.is_live(broker)]

    def has_led(self, partition: TopicPartition) -> bool:
        """Whether the partition has had a state in this term of office."""
        return self.term.context.partitions.get(partition) in (
            PartitionStatus.ONLINE,
            PartitionStatus.OFFLINE,
        )

    def expect_led(self, topics: Iterable[Topic], first: int = 0) -> Expectation[TopicPartition]:
        """Begin to wait until the leaders of new partitions know that they lead."""
        return self._led.expect(
            [
                TopicPartition(topic.name, index)
                for topic in topics
                for index in range(first, len(topic.partitions))
                if topic.partitions[index].leader != NO_LEADER
            ]
        )

    async def led(
        self, expectation: Expectation[TopicPartition], seconds: float
    ) -> Collection[TopicPartition]:
        """Wait; return the partitions whose leader does not know of it after this time."""
        return await self._led.wait(expectation, seconds)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change in-sync replicas as leaders ask.

        Raises:
            KafkaError: NOT_CONTROLLER, or the metadata could not be changed.
        """
        async with self._writer.turn:
            self.require()
            response, changed = await alter_partitions(self.term.commits, request)
            await self._advance_moves(changed)
            return response

    async def _advance_moves(self, changed: Iterable[TopicPartition]) -> None:
        """Complete the moves of partitions whose new replicas are in sync now."""
        try:
            await self.term.reassignments.advance(changed)
        except KafkaError as error:  # the in-sync replicas are changed all the same
            logger.error(
                "the reassignment of a partition is not completed: %s; the broker tries again", error
            )
            self._changes.wake()

    async def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """Move the leaders away from a broker, and take it out of the in-sync replicas.

        Raises:
            KafkaError: NOT_CONTROLLER, BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH, or the metadata could not be
                changed.
        """
        async with self._writer.turn:
            self.require()
            return await hand_over(self.term.commits, request)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """Reserve producer ids for a broker.

        Raises:
            KafkaError: NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or the ids could not be
                reserved.
        """
        self.require()
        broker = self.term.context.brokers.get(request.broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != request.broker_epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        block = await reserve_block(self._store, broker.id)
        return AllocateProducerIdsResponse(
            producer_id_start=block.first, producer_id_len=block.last - block.first + 1
        )

    async def elect_leaders(
        self, election: ElectionType, partitions: Iterable[TopicPartition], seconds: float
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders as a client asks; return the error of each partition, or None.

        `seconds` is how long to wait until they know that they lead.

        Raises:
            KafkaError: NOT_CONTROLLER, or the metadata could not be changed.
        """
        expected: list[Expectation[TopicPartition]] = []
        async with self._writer.turn:
            self.require()
            results = await self.term.elections.elect(
                election, partitions, lambda elected: expected.append(self._led.expect(elected))
            )
        timed_out = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The leader has not answered in time.")
        until = asyncio.get_running_loop().time() + seconds
        for expectation in expected:
            left = until - asyncio.get_running_loop().time()
            results |= dict.fromkeys(await self._led.wait(expectation, left), timed_out)
        return results

    def moving(self) -> dict[TopicPartition, PartitionState]:
        """The states of the partitions that are moving.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        self.require()
        return self.term.reassignments.moving()

    async def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin or cancel moves as a client asks; return the error of each partition, or None.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        async with self._writer.turn:
            self.require()
            results = await self.term.reassignments.alter(wanted, may_change_factor=may_change_factor)
            begun = [partition for partition, error in results.items() if error is None]
            await self.term.reassignments.forget_by_hand(begun)
            return results

    async def _rebalance(self) -> None:
        """Let preferred replicas lead again, from time to time."""
        seconds: float = FIRST_REBALANCE_SECONDS
        while True:
            await asyncio.sleep(seconds)
            seconds = self._config["leader.imbalance.check.interval.seconds"]
            try:
                async with self._writer.turn:
                    self.require()
                    await self.term.elections.rebalance()
            except KafkaError as error:
                logger.error("leaders are not rebalanced: %s; the broker tries again", error)


def _partitions(topics: Iterable[Topic]) -> Iterator[TopicPartition]:
    for topic in topics:
        for index in range(len(topic.partitions)):
            yield TopicPartition(topic.name, index)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids))) or "none"
