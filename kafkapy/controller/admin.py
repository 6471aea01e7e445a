"""The broker's part in its cluster: it registers, may be controller, administers topics.

It administers settings, too. What a start does, in order:

- register under `/brokers/ids` (the broker epoch is the transaction's number);
- take `/controller` if it is free, and with it the next controller epoch;
- begin a new leader epoch for each partition led by this broker, so that what a crash may have lost is told
  apart from what is written next (KIP-101; Kafka elects anew after each restart as well);
- publish the image;
- make topics of logs that a new tree does not know;
- go on with interrupted deletions.

From then on it follows the tree: it reads anew what other sessions change, and publishes it. Where the
controller is gone, one of the brokers becomes the next. As in Kafka, the controller finishes what others have
begun by writing a node: topics that are only a node yet, and topics marked for deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkapy.configs.brokers import MIN_INSYNC_REPLICAS, with_min_insync_replicas
from kafkapy.configs.changes import ConfigAdmin
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.entries import ConfigDescriber
from kafkapy.controller.adoption import FoundLog
from kafkapy.controller.client_quotas import ClientQuotaAdmin
from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.controller.topics import TopicAdmin
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.change_notices import ChangeNotices
from kafkapy.metadata.image import (
    NO_CONTROLLER,
    NO_LEADER,
    NO_NODE,
    Broker,
    MetadataImage,
    PartitionState,
    Topic,
)
from kafkapy.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeError,
    NodeExistsError,
    Operation,
    SetData,
)
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.writer import ATTEMPTS, MetadataWriter
from kafkapy.metadata.znodes import BrokerInfo, Endpoint, LeaderAndIsr
from kafkapy.process.clock import Clock
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""How long a store that fails is left alone before the tree is followed again."""


class ClusterAdmin:
    """Administration of the cluster through one broker."""

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        config: BrokerConfig,
        changes: TreeChanges,
        *,
        node_id: int,
        clock: Clock,
    ) -> None:
        self._store = store
        self._cache = cache
        self._config = config
        self._node_id = node_id
        self._clock = clock
        self._changes = changes
        self._writer = MetadataWriter(store, cache, changes)
        self._following: asyncio.Task[None] | None = None
        self.topics = TopicAdmin(self._writer, store, config)
        notices = ChangeNotices(self._writer, clock)
        self.configs = ConfigAdmin(self._writer, config, notices, node_id=node_id)
        self.quotas = ClientQuotaAdmin(self._writer, notices)
        self.describer = ConfigDescriber(config, cache, node_id)
        self.producer_ids = ProducerIds(store, node_id)
        cache.follow(self.configs.follow)

    async def start(
        self,
        image: MetadataImage,
        endpoints: Sequence[Endpoint],
        found: Mapping[TopicPartition, FoundLog] | None = None,
    ) -> None:
        """Join the cluster that `image` shows.

        `endpoints` are what other brokers and clients connect to; `found` are the logs in the data
        directories, which become topics if the cluster is new.

        Raises:
            MetadataStoreError: the store failed, or another broker has this id.
        """
        now = self._clock.now_ms()
        rack: str | None = self._config["broker.rack"]
        path = znodes.broker_path(self._node_id)
        info = BrokerInfo(tuple(endpoints), rack)
        try:
            await self._store.create(path, znodes.encode_broker(info, now), ephemeral=True)
        except NodeExistsError:
            raise MetadataStoreError(
                f"broker id {self._node_id} is in use by another broker of this cluster: set node.id"
            ) from None
        epoch = (await self._store.get(path)).stat.created_zxid
        broker = Broker(self._node_id, rack, {endpoint.listener: endpoint for endpoint in endpoints}, epoch)
        async with self._writer.turn:
            controller_id = await self._writer.elect(self._node_id, now)
            image = image.with_brokers([*image.brokers.values(), broker], controller_id)
            if self._writer.is_controller:
                image = await self._take_over(image, starting=True)
            self._cache.publish(image)
        if found and self._writer.is_controller and self._writer.controller_epoch == 1:
            highest = max(log.highest_producer_id for log in found.values())
            if highest >= 0:
                await self.producer_ids.begin_behind(highest)
            await self.topics.adopt(found, self._node_id)
        if self._writer.is_controller:
            async with self._writer.turn:
                try:
                    await self._finish()
                except KafkaError as error:
                    logger.error("not all topics can be finished: %s; it is tried again", error)
                    self._changes.wake()
        self._following = asyncio.create_task(self._follow(), name="kafkapy-metadata")

    async def stop(self) -> None:
        """Follow the tree no longer."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The internal topic `name`, created if need be, ready to be written. Raises KafkaError."""
        return await self.topics.ensure_internal_topic(name)

    # --- the controller -----------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Publish what others change in the tree, and do the controller's part of it."""
        while True:
            await self._changes.wait()
            try:
                async with self._writer.turn:
                    await self._writer.catch_up()
                    await self._act()
            except (KafkaError, MetadataStoreError) as error:
                logger.error("cannot follow the cluster's metadata: %s; it is tried again", error)
            except Exception:
                logger.exception("cannot follow the cluster's metadata; it is tried again")
            else:
                continue
            await asyncio.sleep(RETRY_SECONDS)
            self._changes.wake()

    async def _act(self) -> None:
        """Elect a controller where there is none; as the controller finish what others have begun."""
        shown = self._writer.image.controller_id
        lost = self._writer.is_controller != (shown == self._node_id)
        if lost:
            await self._writer.resign()
        if lost or shown == NO_CONTROLLER:
            controller_id = await self._writer.elect(self._node_id, self._clock.now_ms())
            image = self._writer.image.with_brokers(self._writer.image.brokers.values(), controller_id)
            if self._writer.is_controller:
                logger.info("this broker is the controller now, in epoch %d", self._writer.controller_epoch)
                image = await self._take_over(image, starting=False)
            self._writer.publish(image)
        if self._writer.is_controller:
            await self._finish()

    async def _finish(self) -> None:
        """Finish what was interrupted or begun by others. The caller holds the turn."""
        await self.topics.delete_marked_topics()
        await self.topics.finish_topics()

    async def _take_over(self, image: MetadataImage, *, starting: bool) -> MetadataImage:
        """`image` with what the new controller changes first, before it is published.

        Raises:
            MetadataStoreError: the store failed.
        """
        for _ in range(ATTEMPTS):
            try:
                return await self._changed_first(image, starting=starting)
            except NodeError:
                image = await self._writer.read_anew(image)
            except KafkaError:  # another broker is the controller already, which is read then
                return image
        raise MetadataStoreError("the metadata cannot be taken over: others change it all the time")

    async def _changed_first(self, image: MetadataImage, *, starting: bool) -> MetadataImage:
        """Write the first changes: old notices go, and a start begins leader epochs.

        The notices tell of old changes. When `starting`, each partition led here gets a new leader epoch. All
        brokers get a min.insync.replicas that stays, whatever their files say from then on.
        """
        notices = await self._store.children(znodes.CONFIG_CHANGES)
        operations: list[Operation] = [Delete(f"{znodes.CONFIG_CHANGES}/{name}") for name in notices]
        changed: list[Topic] = []
        for topic in image.topics.values() if starting else ():
            partitions = list(topic.partitions)
            for index, state in enumerate(partitions):
                if self._leads(state):
                    partitions[index] = state = self._in_new_epoch(state)
                    operations.append(_state_written(topic.name, index, state))
            changed.append(replace(topic, partitions=tuple(partitions)))
        image = image.with_topics(changed)
        own = image.broker_configs.get(str(self._node_id), {})
        number = own.get(MIN_INSYNC_REPLICAS, str(self._config[MIN_INSYNC_REPLICAS]))
        for name, configs in with_min_insync_replicas(image.broker_configs, number).items():
            path, data = znodes.broker_config_path(name), znodes.encode_config(configs)
            version = image.settings_versions.get(path, NO_NODE)
            operations.append(Create(path, data) if version == NO_NODE else SetData(path, data, version))
            image = image.with_broker_config(name, configs).with_settings_versions({path: version + 1})
        await self._writer.multi(operations)
        return image

    def _leads(self, state: PartitionState) -> bool:
        """Whether this broker leads a partition, or can where nobody does."""
        return state.leader in (self._node_id, NO_LEADER) and self._node_id in state.isr

    def _in_new_epoch(self, state: PartitionState) -> PartitionState:
        return state._replace(
            leader=self._node_id,
            leader_epoch=state.leader_epoch + 1,
            controller_epoch=self._writer.controller_epoch,
            version=state.version + 1,
        )


def _state_written(topic: str, index: int, state: PartitionState) -> SetData:
    """What writes the state of a partition in place of the version before."""
    content = LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
    path = znodes.partition_state_path(topic, index)
    return SetData(path, znodes.encode_state(content), state.version - 1)
