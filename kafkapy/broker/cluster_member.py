"""The requests of a broker of a cluster to others, and those of the controller to it.

A broker alone has none of it. The parts, and whom they talk to:

    ControllerLink       asks the controller: ISR changes, topics to create, the hand-over before a stop
    ClusterReplication   gives this broker's partitions their roles, as the controller asks, fetches those
                         that it follows, and proposes which replicas are in sync
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkapy.broker.data import Data
from kafkapy.broker.replication import Replication
from kafkapy.broker.start import Start
from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.controller_link import ControllerLink
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.inter_broker.peers import PeerAddress, PeerError, Peers, peer_address
from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import PartitionState, Topic, read_partition, read_topic
from kafkapy.metadata.store import MetadataStore, Node
from kafkapy.metadata.znodes import DamagedNodeError
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition import AlterPartitionRequest
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.cluster_replication import ClusterReplication, ReplicationSettings
from kafkapy.replicas.controller_requests import ControllerRequests
from kafkapy.replicas.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from kafkapy.security.links import LinkSecurity

NO_CONTROLLER_SECONDS: Final = 0.1
"""The pause before a controller that does not answer is asked again."""

MOVED_SECONDS: Final = 1.0
NEWS_SECONDS: Final = 0.01
"""How long, and how often, a broker looks before it stops whether it knows the new leaders."""

TOLD_SECONDS: Final = 0.3
"""How long clients are told the new leaders, before this broker stops.

A client that finds its leader gone may look for another only once a second, as librdkafka does.
"""

STORE_AWAY_SECONDS: Final = 5.0
"""How long the controller may take to answer while this broker cannot reach ZooKeeper: it may not either."""

logger = logging.getLogger(__name__)


class ClusterMember:
    """The parts of a broker that only a broker of a cluster has."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        *,
        node_id: int,
        store: MetadataStore,
        cache: MetadataCache,
        replicas: ReplicaManager,
        peers: Peers,
    ) -> None:
        self._config = config
        self._node_id = node_id
        self._store = store
        self._cache = cache
        self.peers = peers
        self._listener = config.inter_broker_listener
        self.zookeeper_offsets = ZooKeeperOffsets(store)
        self._admin: ClusterAdmin | None = None
        self.controller = ControllerLink(
            cache, peers, node_id=node_id, listener=self._listener, own=self._ask_own_controller
        )
        self._replication = ClusterReplication(
            replicas,
            ReplicationSettings(config),
            node_id=node_id,
            image=lambda: cache.image,
            read_topics=self._read_topics,
            read_states=self._read_states,
            read_controller_epoch=self._read_controller_epoch,
            peers=peers,
            address=self._address,
            ask_controller=self._ask_controller,
            now_ms=clock.now_ms,
        )
        cache.follow(self.requests.new_topics.image_changed)

    @property
    def requests(self) -> ControllerRequests:
        """The requests that the controller may send to this broker."""
        return self._replication.requests

    def start(self, admin: ClusterAdmin) -> None:
        """Begin to ask the controller, which may be that of `admin`."""
        self._admin = admin
        self._replication.start()

    async def stop(self) -> None:
        """End the connections to other brokers."""
        await self._replication.stop()
        self.controller.close()

    async def hand_over(self) -> None:
        """Let other brokers lead what this broker leads, as far as there are others in sync.

        This broker still answers for a moment, so that its clients learn the new leader here. While ZooKeeper
        is away nobody can be elected: the stop does not wait for that.

        Source: KafkaServer.controlledShutdown.
        """
        config = self._config
        if not config["controlled.shutdown.enable"]:
            return
        self.requests.is_leaving = True
        led = [leader.partition.topic_partition for leader in self.requests.leaders() if leader.has_others]
        for attempt in range(config["controlled.shutdown.max.retries"]):
            if not self._cache.image.brokers.keys() - {self._node_id}:
                return
            if attempt:
                await asyncio.sleep(config["controlled.shutdown.retry.backoff.ms"] / 1000)
            remaining = await self._ask_for_hand_over()
            if remaining == 0:
                await self._let_clients_know(led)
                return
            if not self._store.is_connected:
                logger.warning(
                    "The broker stops without a hand-over, as ZooKeeper does not answer. Others lead when it"
                    " answers and this broker's session is over."
                )
                return
            logger.info("%s partitions have no other leader yet", "Some" if remaining is None else remaining)
        logger.warning("The broker stops though it leads partitions that no other broker can lead.")

    async def _let_clients_know(self, led: Sequence[TopicPartition]) -> None:
        """Tell clients for a moment, where this broker led partitions, that others do now."""
        if not led:
            return
        until = asyncio.get_running_loop().time() + MOVED_SECONDS
        while any(self._leads(partition) for partition in led):
            if asyncio.get_running_loop().time() > until:
                return
            await asyncio.sleep(NEWS_SECONDS)
        await asyncio.sleep(TOLD_SECONDS)

    def _leads(self, partition: TopicPartition) -> bool:
        """Whether the metadata has this broker as the leader."""
        state = self._cache.image.partition(*partition)
        return state is not None and state.leader == self._node_id

    async def _ask_for_hand_over(self) -> int | None:
        """How many partitions are left that another broker should lead; None if nobody knows."""
        registered = self._cache.image.brokers.get(self._node_id)
        if registered is None:
            return None
        request = ControlledShutdownRequest(broker_id=self._node_id, broker_epoch=registered.epoch)
        seconds: float = self._config["controller.socket.timeout.ms"] / 1000
        if not self._store.is_connected:
            seconds = min(seconds, STORE_AWAY_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        response = await self.controller.ask(request, seconds=seconds)
                        break
                    except (PeerError, KafkaError):  # another broker is about to be the controller
                        await asyncio.sleep(NO_CONTROLLER_SECONDS)
        except TimeoutError:
            return None
        if response.error_code != ErrorCode.NONE:
            logger.info("The controller refuses the hand-over: %s", ErrorCode(response.error_code).name)
            return None
        return len(response.remaining_partitions)

    # --- what the parts ask for -----------------------------------------------------------------------------

    def _address(self, broker: int) -> PeerAddress | None:
        registered = self._cache.image.brokers.get(broker)
        return None if registered is None else peer_address(registered, self._listener)

    async def _ask_controller(self, request: Any) -> Any:
        return await self.controller.ask(request, seconds=self._config["controller.socket.timeout.ms"] / 1000)

    async def _ask_own_controller(self, request: Any) -> Any:
        """The answer of this broker, which is the controller."""
        if self._admin is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        controller = self._admin.active_controller()
        if isinstance(request, AlterPartitionRequest):
            return await controller.alter_partition(request)
        assert isinstance(request, ControlledShutdownRequest)
        return await controller.controlled_shutdown(request)

    async def _read_topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Topics as the tree has them, without leaders; those marked for deletion are left out."""
        kinds = (znodes.topic_path, znodes.topic_config_path, znodes.delete_topic_path)
        await self._store.sync()
        nodes = await self._store.nodes([kind(name) for kind in kinds for name in names])
        marked = {name for name in names if znodes.delete_topic_path(name) in nodes}
        topics = (_topic(nodes, name) for name in names if name not in marked)
        return {topic.name: topic for topic in topics if topic is not None}

    async def _read_states(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of partitions as the tree has them, without replicas."""
        await self._store.sync()
        nodes = await self._store.nodes([znodes.partition_state_path(*key) for key in keys])
        states: dict[TopicPartition, PartitionState] = {}
        for key in keys:
            node = nodes.get(znodes.partition_state_path(*key))
            if node is not None:
                try:
                    states[key] = read_partition(node, *key, znodes.GAP)
                except DamagedNodeError as error:
                    logger.error("The state of %s is not known here: %s", key, error)
        return states

    async def _read_controller_epoch(self) -> int:
        await self._store.sync()
        return int((await self._store.get(znodes.CONTROLLER_EPOCH)).data)


def join_cluster(
    start: Start, data: Data, replication: Replication, security: LinkSecurity | None
) -> ClusterMember:
    """Make the parts that only a broker of a cluster has.

    `security` is for its connections to others.
    """
    return ClusterMember(
        start.config,
        start.machine.clock,
        node_id=data.node_id,
        store=data.store,
        cache=start.metadata,
        replicas=replication.replicas,
        peers=start.machine.peers(data.node_id, security),
    )


def _topic(nodes: Mapping[str, Node], name: str) -> Topic | None:
    """The topic that nodes describe; None if they do not."""
    path, config_path = znodes.topic_path(name), znodes.topic_config_path(name)
    if path not in nodes:
        return None
    try:
        return read_topic(nodes, name)
    except DamagedNodeError as error:
        if error.path != config_path:
            logger.error("a topic is not known here: %s", error)
            return None
        logger.error("a topic has no settings here: %s", error)
        return read_topic({path: nodes[path]}, name)
