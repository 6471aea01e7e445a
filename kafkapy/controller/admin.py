"""The broker's part in its cluster: it registers, it may be the controller, it administers topics and
settings.

Start, in order: register under `/brokers/ids` (the broker epoch is the transaction's number); take
`/controller` if it is free, and with it the next controller epoch; begin a new leader epoch for each
partition led by this broker, so that what a crash may have cut off is told apart from what is written next
(KIP-101; Kafka elects anew after each restart as well); publish the
image; make topics of logs that a new tree does not know; go on with interrupted deletions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkapy.clock import Clock
from kafkapy.config import BrokerConfig
from kafkapy.controller.adoption import FoundLog
from kafkapy.controller.change_notices import ChangeNotices
from kafkapy.controller.client_quotas import ClientQuotaAdmin
from kafkapy.controller.config_brokers import MIN_INSYNC_REPLICAS, with_min_insync_replicas
from kafkapy.controller.config_entries import ConfigDescriber
from kafkapy.controller.configs import ConfigAdmin
from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.controller.topics import TopicAdmin
from kafkapy.controller.writer import MetadataWriter
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import Broker, MetadataImage, Topic
from kafkapy.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    Operation,
    SetData,
)
from kafkapy.metadata.znodes import BrokerInfo, Endpoint, LeaderAndIsr
from kafkapy.protocol.types import TopicPartition


class ClusterAdmin:
    """Administration of the cluster through one broker."""

    def __init__(
        self, store: MetadataStore, cache: MetadataCache, config: BrokerConfig, *, node_id: int, clock: Clock
    ) -> None:
        self._store = store
        self._cache = cache
        self._config = config
        self._node_id = node_id
        self._clock = clock
        self._writer = MetadataWriter(store, cache)
        self.topics = TopicAdmin(self._writer, config)
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
        controller_id = await self._writer.elect(self._node_id, now)
        image = image.with_brokers([*image.brokers.values(), broker], controller_id)
        if controller_id == self._node_id:
            image = await self._take_over(image)
        self._cache.publish(image)
        if controller_id == self._node_id:
            if found and self._writer.controller_epoch == 1:
                highest = max(log.highest_producer_id for log in found.values())
                if highest >= 0:
                    await self.producer_ids.begin_behind(highest)
                await self.topics.adopt(found, self._node_id)
            await self.topics.resume_deletions(await self._store.children(znodes.DELETE_TOPICS))

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The internal topic `name`, created if need be, ready to be written. Raises KafkaError."""
        return await self.topics.ensure_internal_topic(name)

    async def _take_over(self, image: MetadataImage) -> MetadataImage:
        """Lead what this broker can, each partition in a new leader epoch; drop notices of old changes.

        All brokers get a min.insync.replicas that stays, whatever their files say from then on.
        """
        notices = await self._store.children(znodes.CONFIG_CHANGES)
        operations: list[Operation] = [Delete(f"{znodes.CONFIG_CHANGES}/{name}") for name in notices]
        changed: list[Topic] = []
        for topic in image.topics.values():
            partitions = list(topic.partitions)
            for index, state in enumerate(partitions):
                if state.leader not in (self._node_id, -1) or self._node_id not in state.isr:
                    continue
                state = state._replace(
                    leader=self._node_id,
                    leader_epoch=state.leader_epoch + 1,
                    controller_epoch=self._writer.controller_epoch,
                    version=state.version + 1,
                )
                partitions[index] = state
                operations.append(
                    SetData(
                        znodes.partition_state_path(topic.name, index),
                        znodes.encode_state(
                            LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
                        ),
                    )
                )
            changed.append(replace(topic, partitions=tuple(partitions)))
        image = image.with_topics(changed)
        own = image.broker_configs.get(str(self._node_id), {})
        number = own.get(MIN_INSYNC_REPLICAS, str(self._config[MIN_INSYNC_REPLICAS]))
        for name, configs in with_min_insync_replicas(image.broker_configs, number).items():
            path, data = znodes.broker_config_path(name), znodes.encode_config(configs)
            exists = name in image.broker_configs
            operations.append(SetData(path, data) if exists else Create(path, data))
            image = image.with_broker_config(name, configs)
        await self._store.multi(operations)
        return image
