"""The broker's part in its cluster: it registers, may be controller, administers topics.

It administers settings and quotas too. At its start it does the following, in this order:

- register under `/brokers/ids` (the broker epoch is the transaction's number);
- take `/controller` if it is free, and with it the next controller epoch;
- begin a new leader epoch for each partition led by this broker, so that records which a crash may have lost
  are distinguished from later ones (KIP-101; Kafka elects leaders again after each restart, too);
- publish the image;
- adopt logs as topics, if the tree is new;
- continue interrupted deletions.

In a cluster, the controller (controller.py) chooses the leaders: it begins the leader epochs, and tells the
brokers. Logs are not adopted as topics there.

From then on it follows the tree: it reads what other sessions change, and publishes it. If the controller is
gone, another broker becomes controller. As in Kafka, the controller completes what others begin by writing a
node: new topics, and topics marked for deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from kafkapy.configs.brokers import MIN_INSYNC_REPLICAS, with_min_insync_replicas
from kafkapy.configs.changes import ConfigAdmin
from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.adoption import FoundLog
from kafkapy.controller.client_quotas import ClientQuotaAdmin
from kafkapy.controller.entity_nodes import EntityNodes
from kafkapy.controller.feature_node import feature_change
from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.controller.topics import TopicAdmin
from kafkapy.inter_broker.peers import Peers
from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.change_notices import ChangeNotices
from kafkapy.metadata.image import (
    NO_CONTROLLER,
    NO_LEADER,
    NO_NODE,
    MetadataImage,
    PartitionState,
    Topic,
)
from kafkapy.metadata.registration import Registration
from kafkapy.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeError,
    NoNodeError,
    Operation,
    OutcomeUnknownError,
    SetData,
)
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.writer import ATTEMPTS, MetadataWriter
from kafkapy.metadata.znodes import BrokerInfo, Endpoint, LeaderAndIsr
from kafkapy.policies.calls import NO_POLICIES, Policies
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.configs.entries import ConfigDescriber
    from kafkapy.controller.acls import AclAdmin
    from kafkapy.controller.channels import OwnBroker
    from kafkapy.controller.controller import Controller
    from kafkapy.controller.delegation_tokens import DelegationTokenAdmin
    from kafkapy.controller.user_credentials import UserCredentialAdmin
    from kafkapy.security.acls.authorizer import Authorizer
    from kafkapy.security.tls.certificate_names import CertificateNames
    from kafkapy.security.token_cache import TokenCache

logger = logging.getLogger(__name__)

EXPIRY_SLACK_SECONDS: Final = 5.0
"""How much later than a session's timeout ZooKeeper may expire it: it looks every few seconds."""

RETRY_SECONDS: Final = 1.0
"""The pause after a failure of the store, before the tree is followed again."""


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
        own_broker: OwnBroker | None = None,
        peers: Peers | None = None,
        policies: Policies = NO_POLICIES,
        authorizer: Authorizer | None = None,
        tokens: TokenCache | None = None,
        certificate_names: Mapping[str, CertificateNames] | None = None,
    ) -> None:
        """In a cluster, a controller needs `own_broker` and `peers`.

        `own_broker` is what it asks of this broker, and `peers` reach the others. `policies` and `authorizer`
        are the operator's; without `tokens` there are no delegation tokens. `certificate_names` has the
        names in the certificates that are in use, by listener, whenever it is asked.
        """
        self._store = store
        self._cache = cache
        self._config = config
        self._node_id = node_id
        self._clock = clock
        self.retry_seconds = RETRY_SECONDS
        self._changes = changes
        self.writer = MetadataWriter(store, cache, changes)
        """Writes the tree, one change after the other."""
        self._registration: Registration
        self._following: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        """Reports failed replicas."""
        self.controller: Controller | None = None
        """The controller of a cluster, if this broker is it; None if this broker is the only one."""
        if own_broker is not None and peers is not None:
            from kafkapy.controller.controller import Controller  # a broker alone does not need its code

            self.controller = Controller(
                self.writer, store, cache, config, changes, own_broker, peers, node_id=node_id
            )
        self.topics = TopicAdmin(
            self.writer, store, config, controller=self.controller, policy=policies.create_topic
        )
        self._notices = ChangeNotices(self.writer, clock)
        self.configs = ConfigAdmin(
            self.writer,
            config,
            self._notices,
            node_id=node_id,
            check_listeners=partial(_check_listeners, {} if certificate_names is None else certificate_names),
            policy=policies.alter_config,
        )
        self._entity_nodes = EntityNodes(self.writer, self._notices)
        self.quotas = ClientQuotaAdmin(self._entity_nodes)
        self.acls: AclAdmin | None = None
        """Changes ACLs; None if no authorizer uses them."""
        if authorizer is not None:
            self._use_acls(authorizer)
        self.delegation_tokens: DelegationTokenAdmin | None = None
        """Changes delegation tokens; None if there are none."""
        if tokens is not None:
            from kafkapy.controller.delegation_tokens import DelegationTokenAdmin

            self.delegation_tokens = DelegationTokenAdmin(
                self.writer, store, self._notices, tokens, config, clock
            )
        self.producer_ids = ProducerIds(store, node_id)
        cache.follow(self.configs.follow)

    def _use_acls(self, authorizer: Authorizer) -> None:
        """Let an authorizer that decides by ACLs follow them; only then is their code imported."""
        from kafkapy.controller.acls import AclAdmin
        from kafkapy.security.acls.standard_authorizer import StandardAuthorizer

        if isinstance(authorizer, StandardAuthorizer):
            self.acls = AclAdmin(self.writer, self._store, self._notices, authorizer)
            self._cache.follow(authorizer.follow)

    @cached_property
    def user_credentials(self) -> UserCredentialAdmin:
        """Changes the credentials of users; its code is imported when it is first needed."""
        from kafkapy.controller.user_credentials import UserCredentialAdmin

        return UserCredentialAdmin(self._entity_nodes)

    @cached_property
    def describer(self) -> ConfigDescriber:
        """Describes settings to clients; its code and texts are imported when the first one asks."""
        from kafkapy.configs.entries import ConfigDescriber

        return ConfigDescriber(self._config, self._cache, self._node_id)

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
        self._registration = Registration(
            self._store,
            self._node_id,
            BrokerInfo(tuple(endpoints), self._config["broker.rack"]),
            self._clock,
            # The session of its last life; alone, none outlives its process.
            self._config["zookeeper.session.timeout.ms"] / 1000 + EXPIRY_SLACK_SECONDS
            if self._config.clustered
            else 0,
        )
        broker = await self._registration.register()
        image = image.with_brokers([*image.brokers.values(), broker], NO_CONTROLLER)
        async with self.writer.turn:
            try:
                image = await self._elect(image, starting=True)
            except OutcomeUnknownError as error:
                logger.error(
                    "cannot take part in the controller's election: %s; the broker tries again", error
                )
                with contextlib.suppress(OutcomeUnknownError):
                    await self.writer.resign()
            self._cache.publish(image)
        if (
            found
            and self.controller is None
            and self.writer.is_controller
            and self.writer.controller_epoch == 1
        ):
            highest = max(log.highest_producer_id for log in found.values())
            if highest >= 0:
                await self.producer_ids.begin_after(highest)
            await self.topics.adopt(found, self._node_id)
        if self.writer.is_controller:
            async with self.writer.turn:
                await self.writer.catch_up()
                try:
                    await self._finish()
                except (KafkaError, OutcomeUnknownError) as error:
                    logger.error("not all topics can be completed: %s; the broker tries again", error)
        self._changes.wake()  # something may be left to do, or another broker have become controller
        self._following = asyncio.create_task(self._follow(), name="kafkapy-metadata")
        if self.delegation_tokens is not None:
            self.delegation_tokens.start()

    @contextlib.asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Have changes of topics, settings and all other metadata wait for the end of a block."""
        async with self.writer.turn:
            yield

    async def stop(self) -> None:
        """Stop following the tree."""
        if self.delegation_tokens is not None:
            await self.delegation_tokens.stop()
        await self.producer_ids.stop()
        for task in (self._following, self._reporting):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self.controller is not None:
            await self.controller.close()

    def replicas_changed(self) -> None:
        """Have the controller of a cluster ask which replicas of this broker are offline.

        A log directory failed, or the log of a replica is damaged: it elects other leaders. Or a replica that
        lacked room does so no more: the broker can take its role now.
        """
        if self.controller is not None and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.create_task(self._report_replicas(), name="kafkapy-changed-replicas")

    async def _report_replicas(self) -> None:
        """Write the notice that replicas failed or have room, as soon as the store takes it."""
        data = znodes.encode_log_dir_event(self._node_id)
        while True:
            try:
                await self._store.create(znodes.LOG_DIR_EVENT_PREFIX, data, sequence=True)
                break
            except MetadataStoreError as error:
                logger.error(
                    "the controller cannot be told of offline replicas: %s; the broker tries again", error
                )
            await asyncio.sleep(self.retry_seconds)
        # The store does not report to this session what it has written.
        self._changes.requests.add(znodes.LOG_DIR_EVENTS)
        self._changes.wake()

    @property
    def elections(self) -> tuple[int, int]:
        """How many partitions have got another leader from this broker as the controller.

        The second number is of those whose leader was not in sync.
        """
        if self.controller is None:
            return 0, 0
        commits = self.controller.term.commits
        return commits.elections, commits.unclean_elections

    def active_controller(self) -> Controller:
        """The controller of the cluster, which is this broker.

        Raises:
            KafkaError: NOT_CONTROLLER, another broker is.
        """
        self.writer.require_controller()
        if self.controller is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return self.controller

    # --- the controller -----------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Publish changes of the tree by others, and act on them if this broker is the controller."""
        complaint = ""
        while True:
            await self._changes.wait()
            try:
                if not self._registration.is_current:  # the session has expired
                    await self._require_cluster()
                    await self._registration.register()
                    # The store need not tell a session of its own changes, and this broker may be controller.
                    self._changes.add([znodes.broker_path(self._node_id)])
                async with self.writer.turn:
                    await self.writer.catch_up()
                    await self._act()
            except (KafkaError, MetadataStoreError) as error:
                if complaint != str(error):
                    complaint = str(error)
                    logger.error("cannot follow the cluster's metadata: %s; the broker tries again", error)
            except Exception:
                logger.exception("cannot follow the cluster's metadata; the broker tries again")
            else:
                complaint = ""
                continue
            await asyncio.sleep(self.retry_seconds)
            self._changes.wake()

    async def _require_cluster(self) -> None:
        """Control nothing unless the new session is with the same cluster's ZooKeeper.

        Raises:
            MetadataStoreError: it is not, or the store failed.
        """
        try:
            await self._changes.require_cluster(self._cache.image.cluster_id)
        except MetadataStoreError:
            if self.controller is not None:
                self.controller.resigned()
            await self.writer.resign()
            raise

    async def _act(self) -> None:
        """Become the controller if there is none; as the controller, complete what others began."""
        shown = self.writer.image.controller_id
        lost = self.writer.is_controller != (shown == self._node_id)
        if self.controller is not None and (lost or not self.writer.is_controller):
            self.controller.resigned()
        if lost:
            await self.writer.resign()
        if lost or shown == NO_CONTROLLER:
            self.writer.publish(await self._elect(self.writer.image, starting=False))
            # What others wrote before the election is read first: this session has heard of all of it. An
            # Apache Kafka leader would ignore a second state of the same leader epoch.
            self._changes.wake()
        elif self.writer.is_controller:
            await self._finish()

    async def _elect(self, image: MetadataImage, *, starting: bool) -> MetadataImage:
        """`image` with the controller, which is this broker if there was none.

        It is not published yet.

        Raises:
            MetadataStoreError: the store failed.
        """
        controller_id = await self.writer.elect(self._node_id, self._clock.now_ms())
        image = image.with_brokers(image.brokers.values(), controller_id)
        if not self.writer.is_controller:
            return image
        logger.info("this broker is the controller now, in epoch %d", self.writer.controller_epoch)
        return await self._take_over(image, starting=starting)

    async def _finish(self) -> None:
        """Complete what was interrupted, or begun by others.

        The caller holds the turn.
        """
        if self.controller is None:
            await self.topics.delete_marked_topics()
        await self.topics.finish_topics()
        if self.controller is not None:
            await self.controller.act()

    async def _take_over(self, image: MetadataImage, *, starting: bool) -> MetadataImage:
        """`image` with the first changes of the new controller, before it is published.

        Raises:
            MetadataStoreError: the store failed.
        """
        for _ in range(ATTEMPTS):
            try:
                return await self._changed_first(image, starting=starting)
            except NodeError:
                image = await self.writer.read_anew(image)
            except KafkaError:  # another broker became controller; the image is read again
                return image
        raise MetadataStoreError("the start cannot change the metadata: other brokers keep changing it")

    async def _changed_first(self, image: MetadataImage, *, starting: bool) -> MetadataImage:
        """Write the first changes: delete old notices, and begin leader epochs at a start.

        When `starting`, each partition led here gets a new leader epoch. A sole broker needs no notices of
        old changes, and its min.insync.replicas becomes a setting of all brokers, which from then on has
        precedence over their files. In a cluster the controller begins the leader epochs.
        """
        notices = list(await self._store.subtree(*znodes.CHANGES))
        operations: list[Operation] = []
        if self._config.clustered:  # other brokers may not have read them yet
            self._notices.found(notices)
        else:
            operations += map(Delete, notices)
        if self.controller is not None:
            await self._set_up_features()
            self.controller.elected()
            return image
        changed: list[Topic] = []
        for topic in image.topics.values() if starting else ():
            partitions = list(topic.partitions)
            for index, state in enumerate(partitions):
                if self._leads(state):
                    partitions[index] = state = self._in_new_epoch(state)
                    operations.append(_state_written(topic.name, index, state))
            changed.append(replace(topic, partitions=tuple(partitions)))
        image = image.with_topics(changed)
        if not self._config.clustered:
            image = self._with_min_insync_replicas(image, operations)
        await self.writer.multi(operations)
        return image

    async def _set_up_features(self) -> None:
        """Say whether features are versioned, as brokers of Apache Kafka expect of a controller."""
        try:
            node = await self._store.get(znodes.FEATURE)
        except NoNodeError:
            node = None
        change = feature_change(node, self._config["inter.broker.protocol.version"])
        if change is not None:
            await self.writer.multi([change])

    def _with_min_insync_replicas(self, image: MetadataImage, operations: list[Operation]) -> MetadataImage:
        """Make min.insync.replicas a setting of all brokers; the writes are added to `operations`."""
        own = image.broker_configs.get(str(self._node_id), {})
        number = own.get(MIN_INSYNC_REPLICAS, str(self._config[MIN_INSYNC_REPLICAS]))
        for name, configs in with_min_insync_replicas(image.broker_configs, number).items():
            path, data = znodes.broker_config_path(name), znodes.encode_config(configs)
            version = image.settings_versions.get(path, NO_NODE)
            operations.append(Create(path, data) if version == NO_NODE else SetData(path, data, version))
            image = image.with_broker_config(name, configs).with_settings_versions({path: version + 1})
        return image

    def _leads(self, state: PartitionState) -> bool:
        """Whether this broker leads a partition, or can lead it if it has no leader."""
        return state.leader in (self._node_id, NO_LEADER) and self._node_id in state.isr

    def _in_new_epoch(self, state: PartitionState) -> PartitionState:
        return state._replace(
            leader=self._node_id,
            leader_epoch=state.leader_epoch + 1,
            controller_epoch=self.writer.controller_epoch,
            version=state.version + 1,
        )


def _check_listeners(in_use: Mapping[str, CertificateNames], config: BrokerConfig) -> None:
    """Try the keys, certificates and JAAS lines of all listeners; raises ConfigError."""
    from kafkapy.security.entrances import check_listeners  # few brokers need its code

    check_listeners(config, in_use)


def _state_written(topic: str, index: int, state: PartitionState) -> SetData:
    """The operation that replaces the state of a partition."""
    content = LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
    path = znodes.partition_state_path(topic, index)
    return SetData(path, znodes.encode_state(content), state.version - 1)
