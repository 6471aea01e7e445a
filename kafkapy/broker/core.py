"""The broker: its parts, and the order in which they start and stop.

Everything runs on one event loop. Blocking work runs in threads, in one of four ways. Syncs use the threads
of their log directory (replicas/flusher.py). Long validation uses threads that connections share fairly
(loop/validation.py). Work whose cost clients choose, such as regular expressions and target assignments,
uses the pool of `costly`. All other work uses the pool of `blocking`. So an acknowledgement waits for its own
disk, and for no other blocking work.

Each step of the start registers its reversal. A start that fails reverses the steps that it has taken:

1. Start worker threads, timers and waiters.
2. Bind the listeners. A port in use is the most common mistake, and is found before anything is changed.
   Ephemeral ports are known from here on. Clients queue.
3. Lock the directories, open the metadata, load the logs, and recover them if the last stop was not clean.
4. Attach the followers of the metadata, then publish it: this broker registers, and replicas open their logs.
5. Start groups and housekeeping.
6. Accept clients.

A stop is the reverse. New clients and requests are refused. Requests in flight are answered; those that wait
are answered with what they have. Housekeeping and groups end. The logs are flushed, closed and marked clean.
The session with the metadata store ends, and with it the registration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from kafkapy.broker.cluster_member import ClusterMember
from kafkapy.broker.machine import Machine
from kafkapy.configs import start_warnings
from kafkapy.configs.changes import put_in_effect
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.listeners import WILDCARDS
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.adoption import found_logs
from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.coordination.local_log import LocalTopicLog
from kafkapy.fetch.sessions import FetchSessionCache
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.target import UnusableAssignorError
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.inter_broker.inter_broker import InterBroker
from kafkapy.inter_broker.loopback import LoopbackConnection, LoopbackPeer
from kafkapy.inter_broker.peers import Peers
from kafkapy.loop.cold_reads import THREADS, ColdReads
from kafkapy.loop.timers import Timers
from kafkapy.loop.turns import Turns
from kafkapy.loop.validation import Validation, validation_threads
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.cache import MetadataCache, open_cluster
from kafkapy.metadata.encoded_answers import EncodedAnswers
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.metadata_file import metadata_file, require_no_metadata
from kafkapy.metadata.registration import require_known_name, require_own_place, require_reachable
from kafkapy.metadata.shared_tree import choose_broker_id, open_zookeeper, require_others_in_sync
from kafkapy.metadata.store import MetadataStore, MetadataStoreError
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.znodes import Endpoint
from kafkapy.network.server import ListenError, Server
from kafkapy.policies.calls import Policies, PolicyError
from kafkapy.protocol.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.replicas.controller_requests import ControllerRequests
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.housekeeping import Housekeeping
from kafkapy.replicas.log_cleaner import LogCleaner
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.log_start_saves import LogStartSaves
from kafkapy.replicas.refused_batches import RefusedBatches
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.replicas.replication_quota import QuotaParts, ReplicationQuotas
from kafkapy.replicas.sole_roles import SoleRoles
from kafkapy.replicas.write_gate import WriteGate
from kafkapy.share.persister import Persister
from kafkapy.share.share_parts import ShareParts
from kafkapy.storage.directories.identity import require_not_shared
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import (
    ExhaustedError,
    StorageError,
    is_exhausted,
    what_is_lacking,
)
from kafkapy.storage.disk.log_directory import LogDirectory, LogDirectoryError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.transactions.config import TransactionConfig
from kafkapy.transactions.coordinator import TransactionCoordinator
from kafkapy.transactions.markers import MarkerSender
from kafkapy.transactions.metadata import EPOCH_AT_EACH_END
from kafkapy.transactions.verifier import Verifier

COSTLY_THREADS: Final = 2
"""The threads for work whose cost clients choose."""
DRAIN_SECONDS: Final = 5.0
"""The seconds that a stop of the broker waits for requests in flight."""

DEFAULT_NODE_ID: Final = 1
"""The id of a broker if neither its settings nor its directories have one."""

CONVERSIONS_AT_ONCE: Final = 2
"""Each keeps a thread busy for long."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


START_ERRORS: Final = (
    UnusableAssignorError,
    ListenError,
    LogDirectoryError,
    MetadataStoreError,
    PolicyError,
    StorageError,
)
"""The errors that end a start with their message, which is for the operator."""


class StartError(Exception):
    """The broker cannot start; the message is one line for the operator."""


class BrokerCore:
    """One broker of a cluster.

    Handlers reach everything through it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        machine: Machine | None = None,
        *,
        cluster_store: Callable[[], Awaitable[MetadataStore]] | None = None,
    ) -> None:
        """A broker with these settings, which is not started.

        Args:
            machine: what it runs on.
            cluster_store: opens the metadata that it shares with other brokers. If None, the broker shares
                those of zookeeper.connect; without that, it is alone.
        """
        if config.clustered and cluster_store is None:
            cluster_store = partial(open_zookeeper, config)
        elif cluster_store is not None and not config.clustered:
            config = BrokerConfig(config.originals, clustered=True)
        self.config = config
        self._machine = machine or Machine()
        self._cluster_store = cluster_store
        self.clock = self._machine.clock
        self.node_id = config.node_id
        self.clustered = cluster_store is not None
        """Whether other brokers may be in the cluster."""
        self.cluster_id = ""
        self.metadata = MetadataCache()
        self.conversions = asyncio.Semaphore(CONVERSIONS_AT_ONCE)
        """Limits the requests that occupy a worker thread with the conversion of records."""
        self.failed = asyncio.Event()
        """Set when no log directory is left: the broker cannot serve requests and must be stopped."""
        # The parts, in the order in which the start makes them.
        self.validation: Validation
        self.refused_batches: RefusedBatches
        self.turns: Turns
        self.timers: Timers
        self.waiters: Waiters
        self.fetch_sessions: FetchSessionCache
        self.cold_reads: ColdReads
        self.server: Server
        self.logs: LogManager
        self.group_commit: GroupCommit
        self.log_mover: LogMover
        self.replicas: ReplicaManager
        self.controller_requests: ControllerRequests
        self.loopback: LoopbackPeer
        self.inter_broker: InterBroker
        self.log_starts: LogStartSaves
        self.write_gate: WriteGate
        self.admin: ClusterAdmin
        self.automatic_topics: AutomaticTopics
        self.groups: GroupCoordinator
        self.shares: ShareParts
        self.transactions: TransactionCoordinator
        self.verifier: Verifier
        self.zookeeper_offsets: ZooKeeperOffsets | None = None
        self.producer_ids: ProducerIds
        self._store: MetadataStore
        self._changes: TreeChanges
        self._executor: Executor
        self._background_threads: int
        self._member: ClusterMember | None = None
        """The parts that it has in a cluster only."""
        self._keep_data = True
        self.encoded_metadata = EncodedAnswers()
        self._started = AsyncExitStack()
        """The parts that have been started, which are stopped in reverse order."""

    async def start(self) -> None:
        """Start the broker.

        When it returns, clients are served.

        Raises:
            StartError: an address or a directory cannot be used.
        """
        try:
            await self._start()
        except BaseException as error:
            await self._started.aclose()
            if isinstance(error, START_ERRORS) or is_exhausted(error):
                raise StartError(self._why_not(error)) from None
            raise

    async def stop(self, *, keep_data: bool = True) -> None:
        """Stop in order; requests in flight have DRAIN_SECONDS to be answered.

        Without `keep_data`, the logs are neither synced nor marked clean, since they will not be opened
        again.
        """
        self._keep_data = keep_data
        if self._member is not None:
            await self._member.hand_over()
        self.server.stop_accepting()
        draining = asyncio.ensure_future(self.server.drain(DRAIN_SECONDS))
        await asyncio.sleep(0)
        # No new requests from here on. Records that are being synced are acknowledged before the waiting
        # requests are ended: a producer without an answer would send its records again.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.group_commit.drain(), DRAIN_SECONDS)
        self.waiters.expire_all()
        self.groups.runtime.close_topic()
        self.transactions.runtime.close_topic()
        self.shares.close_topic()
        await draining
        await self._started.aclose()

    async def kill(self) -> None:
        """End nearly as after SIGKILL: nothing is handed over, answered, synced or marked as clean."""
        self._keep_data = False
        self.server.stop_accepting()
        await self._started.aclose()

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread: the one place where blocking work leaves the loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))

    async def costly(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call`, whose cost clients choose, in one of the threads for such work.

        So it keeps nobody else waiting: not the broker's own work, nor requests that read the disk.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._costly_executor, lambda: call(*args, **kwargs))

    def _why_not(self, error: BaseException) -> str:
        if is_exhausted(error):
            return f"cannot start: {what_is_lacking(error)}"
        if isinstance(error, ExhaustedError):
            return f"cannot start: {error.message}"
        if not isinstance(error, StorageError):
            return str(error)
        offline = [directory.error for directory in self.logs.directories if directory.error is not None]
        reasons = "; ".join(f"{each.log_dir} cannot be used: {each.message}" for each in offline or [error])
        return f"{reasons}. Check it, or choose another directory."

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._background_threads = self.config["background.threads"]
        self._executor = self._machine.running_pool(self._background_threads, "kafkapy")
        self._started.callback(lambda: self._executor.shutdown())
        self.config.on_change(self._resize_executor)
        self._costly_executor = self._machine.running_pool(COSTLY_THREADS, "kafkapy-costly")
        self._started.callback(lambda: self._costly_executor.shutdown())
        threads = validation_threads()
        self.validation = Validation(self._machine.running_pool(threads, "kafkapy-validation"), threads)
        self._started.callback(self.validation.close)
        self.refused_batches = RefusedBatches(loop.time)
        self.turns = Turns(loop)
        self.timers = Timers(loop)
        self._started.callback(self.timers.close)
        self.waiters = Waiters(loop, self.timers)
        self.fetch_sessions = FetchSessionCache(
            self.config["max.incremental.fetch.session.cache.slots"],
            now_ms=self.clock.now_ms,
            wake=self.waiters.wake,
        )
        self.cold_reads = ColdReads(
            loop, self._machine.pool(THREADS, "kafkapy-reader"), self._machine.pool(1, "kafkapy-indexes")
        )
        self._started.callback(self.cold_reads.close)
        self.server = self._machine.server(self.config, loop, self.validation, self.cold_reads)
        self._started.callback(self.server.close)
        self.server.bind(self.config.listeners)
        self.config.on_change(self.server.configure)
        policies = await self.blocking(Policies.load, self.config.originals)
        self._started.push_async_callback(policies.close)
        start_warnings.settings(self.config)
        start_warnings.compiled_parts()
        start_warnings.open_listeners(self.config)
        start_warnings.descriptors(self.config)
        image = await self._open_data()
        self.group_commit = GroupCommit(self._machine.flush_threads)
        self._started.callback(self.group_commit.close)
        if self._durable:
            for directory in self.logs.directories:
                self.group_commit.start(directory)
        self.log_mover = LogMover(
            self.logs,
            self.blocking,
            self.config["num.replica.alter.log.dirs.threads"] or len(self.logs.directories),
            lambda: self.config["replica.alter.log.dirs.io.max.bytes.per.second"],
        )
        self.replicas = ReplicaManager(
            self.logs,
            self.group_commit,
            blocking=self.blocking,
            mover=self.log_mover,
            waiters=self.waiters,
            node_id=self.node_id,
            defaults=self.config.topic_defaults(),
            sync=self._durable,
            quotas=ReplicationQuotas(
                self.config["replication.quota.window.num"],
                self.config["replication.quota.window.size.seconds"],
                QuotaParts(self.config.__getitem__, self._topic_configs, loop.time, self.node_id),
            ),
        )
        self.log_starts = LogStartSaves(self.logs, self.blocking)
        self.write_gate = WriteGate()
        self._started.callback(self.write_gate.close)
        self.logs.on_directory_failure = self._log_directory_failed
        self._started.push_async_callback(self._close_replicas)
        self._started.push_async_callback(self.log_mover.stop)
        member, peers = self._join_cluster()
        dispatcher = Dispatcher(self)
        listener = self.config.inter_broker_listener
        self.loopback = LoopbackPeer(dispatcher, LoopbackConnection(self.node_id, listener))
        self.inter_broker = InterBroker(
            self.metadata, self.loopback, node_id=self.node_id, listener=listener, peers=peers
        )
        self._started.callback(self.inter_broker.close)
        self.admin = ClusterAdmin(
            self._store,
            self.metadata,
            self.config,
            self._changes,
            node_id=self.node_id,
            clock=self.clock,
            own_broker=None if member is None else member.requests,
            peers=peers,
            policies=policies,
        )
        self.group_commit.on_damage = self.replicas.on_room = self.admin.replicas_changed
        self.automatic_topics = AutomaticTopics(
            self.admin.topics,
            self.metadata,
            self.config,
            node_id=self.node_id,
            clock=self.clock,
            ask_controller=None if member is None else member.controller.ask,
        )
        self._started.push_async_callback(self.automatic_topics.stop)
        self.producer_ids = self.admin.producer_ids
        self.shares = self._share_parts()
        self.groups = GroupCoordinator(
            GroupConfig.from_broker(self.config),
            self.clock,
            self.timers,
            self._internal_log(GROUP_METADATA_TOPIC),
            blocking=self.blocking,
            costly=self.costly,
            share_state=self.shares.persister,
        )
        self.config.on_change(lambda: self.groups.configure(GroupConfig.from_broker(self.config)))
        self.transactions = self._transaction_coordinator()
        self.verifier = Verifier(
            self.metadata,
            self.inter_broker,
            self.transactions,
            node_id=self.node_id,
            is_enabled=lambda: self.config["transaction.partition.verification.enable"],
            seconds=self.config["request.timeout.ms"] / 1000,
            retry_seconds=self.config["add.partitions.to.txn.retry.backoff.ms"] / 1000,
            most_retry_seconds=self.config["add.partitions.to.txn.retry.backoff.max.ms"] / 1000,
        )
        self._started.push_async_callback(self.verifier.stop)
        self.replicas.on_leadership(self.groups.leadership_changed)
        self.replicas.on_leadership(self.transactions.leadership_changed)
        self.replicas.on_leadership(self.shares.leadership_changed)
        if member is not None:
            self.zookeeper_offsets = ZooKeeperOffsets(self._store)
            member.start(self.admin)
            self._started.push_async_callback(member.stop)
        self.metadata.follow(self.replicas.apply)
        sole = None
        if not self.clustered:
            sole = SoleRoles(self.replicas, self.log_mover, node_id=self.node_id, now=loop.time)
            self.metadata.follow(sole.apply)
            self.metadata.prepare_with(sole.prepare)
            self.metadata.settle_with(sole.settle)
        self._started.push_async_callback(self.admin.stop)
        await self.admin.start(image, self._endpoints(), found_logs(self.logs.logs))
        if self.clustered:
            self.producer_ids.reserve_ahead()
        if sole is not None:
            sole.drop_stray_copies()
            sole.report_orphans()
            start_warnings.sole_broker(self.config)
        self.config.on_change(self._apply_topic_defaults)
        self._apply_topic_defaults()
        self.shares.start(self.metadata.image)
        self.metadata.follow(self.shares.metadata_changed)
        self._started.push_async_callback(self.shares.stop)
        self.groups.start(self.metadata.image)
        self.metadata.follow(self.groups.metadata_changed)
        self._started.push_async_callback(self.groups.stop)
        self.transactions.start()
        self.metadata.follow(self.transactions.metadata_changed)
        self._started.push_async_callback(self.transactions.stop)
        cleaner = LogCleaner(
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            replicas=self.replicas,
            group_commit=self.group_commit,
            new_pool=self._machine.pool,
            provide=self.cold_reads.provide,
        )
        cleaner.start()
        self._started.push_async_callback(cleaner.stop)
        housekeeping = Housekeeping(
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            replicas=self.replicas,
            metadata=self.metadata,
            blocking=self.blocking,
            provide=self.cold_reads.provide,
            sole=sole,
        )
        housekeeping.start()
        self._started.push_async_callback(housekeeping.stop)
        self.server.accept(dispatcher)

    def _join_cluster(self) -> tuple[ClusterMember | None, Peers | None]:
        """The parts that only a broker of a cluster has."""
        if not self.clustered:
            return None, None
        peers = self._machine.peers(self.node_id)
        self._member = ClusterMember(
            self.config,
            self.clock,
            node_id=self.node_id,
            store=self._store,
            cache=self.metadata,
            replicas=self.replicas,
            peers=peers,
        )
        self.controller_requests = self._member.requests
        return self._member, peers

    def _internal_log(self, topic: str) -> LocalTopicLog:
        return LocalTopicLog(
            topic,
            metadata=self.metadata,
            replicas=self.replicas,
            blocking=self.blocking,
            provide=self.cold_reads.provide,
            create=self.automatic_topics.ensure_internal_topic,
        )

    def _share_parts(self) -> ShareParts:
        return ShareParts(
            self.config,
            self.clock,
            self.timers,
            self.waiters,
            self._internal_log(SHARE_GROUP_STATE_TOPIC),
            Persister(
                self.metadata,
                self.inter_broker.ask,
                self.automatic_topics.ensure_internal_topic,
                self.turns,
                seconds=self.config["request.timeout.ms"] / 1000,
            ),
            image=lambda: self.metadata.image,
            find_partition=self.replicas.partition,
            blocking=self.blocking,
        )

    def _transaction_coordinator(self) -> TransactionCoordinator:
        config = TransactionConfig.from_broker(self.config)
        markers = MarkerSender(
            self._leader_of,
            partial(self.inter_broker.ask, seconds=config.request_timeout_ms / 1000),
            self.timers,
        )
        return TransactionCoordinator(
            config,
            self.clock,
            self.timers,
            self._internal_log(TRANSACTION_STATE_TOPIC),
            markers,
            new_producer_id=self.producer_ids.next_producer_id,
            blocking=self.blocking,
            version=0 if self.clustered else EPOCH_AT_EACH_END,
        )

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """The leader of a partition, which may be NO_LEADER; None if there is no such partition."""
        state = self.metadata.image.partition(*partition)
        return None if state is None else state.leader

    @property
    def offline_replicas(self) -> Mapping[tuple[str, int], tuple[int, ...]]:
        """The brokers of each partition whose replicas are offline, as the controller reports them."""
        return {} if self._member is None else self._member.requests.offline_replicas

    @property
    def shown_image(self) -> MetadataImage:
        """The metadata that clients see, with the topics of which only the controller has told."""
        image = self.metadata.image
        return image if self._member is None else self._member.requests.new_topics.added_to(image)

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of a topic; None if neither the metadata nor the controller knows it."""
        name = self.metadata.image.topic_name(topic_id)
        return self._member.requests.new_topics.name(topic_id) if name is None and self._member else name

    def _topic_configs(self, topic: str) -> Mapping[str, str]:
        found = self.metadata.image.topics.get(topic)
        return {} if found is None else found.configs

    @property
    def _durable(self) -> bool:
        return bool(self.config["durability"] == "fsync")

    async def _open_data(self) -> MetadataImage:
        config = self.config
        self.logs = LogManager(
            config.log_dirs,
            defaults=LogConfig.from_mapping(config.topic_defaults()),
            clock=self.clock,
            durability=config["durability"],
            files=self._machine.files,
            producer_expiration_ms=config["producer.id.expiration.ms"],
            check_on_first_read=config["log.check.on.first.read"],
            max_open_files=config["log.max.open.files"],
            new_pool=self._machine.pool,
        )
        self._started.push_async_callback(self._close_logs)
        self.server.lacks_files = lambda: self.logs.files.open_files.crowded
        config.on_change(lambda: self.logs.remember_producers(config["producer.id.expiration.ms"]))
        identity = await self.blocking(self.logs.open)
        if self.clustered:
            await require_known_name(self._inner_endpoint())
        self._store = await self._open_store()
        self._started.push_async_callback(self._store.close)
        self._changes = TreeChanges(self._store)
        await self._changes.watch()
        await self._store.sync()  # the replicas in sync decide whether empty directories may be served
        image = await open_cluster(self._store, identity.cluster_id, shared=self.clustered)
        self.cluster_id = image.cluster_id
        if self.clustered:
            await self._find_place(image, identity.node_id)
        elif self.node_id < 0:
            self.node_id = DEFAULT_NODE_ID if identity.node_id is None else identity.node_id
        # Before the logs are loaded, which depends on these settings.
        put_in_effect(config, image, self.node_id)
        self.logs.recovery_threads_per_dir = config["num.recovery.threads.per.data.dir"]
        await self.blocking(self.logs.load, self.cluster_id, self.node_id, shared=self.clustered)
        self.logs.watch_writes()
        return image

    async def _find_place(self, image: MetadataImage, stored: int | None) -> None:
        """Find the broker's id in its cluster, before its directories are claimed by it.

        Raises:
            MetadataStoreError: it cannot have the id, its address, or its replicas.
        """
        self.node_id = await choose_broker_id(self._store, self.config, self.node_id, stored)
        require_own_place(image, self.node_id, self._endpoints())
        await require_reachable(image, self.node_id, self._inner_endpoint())
        if self.logs.were_empty:
            paths = " and ".join(str(path) for path in self.config.log_dirs)
            await require_others_in_sync(self._store, image, self.node_id, paths)

    def _inner_endpoint(self) -> Endpoint | None:
        """Where other brokers reach this one."""
        inner = self.config.inter_broker_listener
        return next((each for each in self._endpoints() if each.listener == inner), None)

    async def _open_store(self) -> MetadataStore:
        if self._cluster_store is not None:
            require_no_metadata(self.config.log_dirs)
            return await self._cluster_store()
        file = metadata_file(self.config.log_dirs, self.logs.offline_dirs)
        if not file.exists():
            require_not_shared(self.logs.directories)
        return await self._machine.open_store(
            file, sync=self._durable, directory=self.logs.directory_of(file)
        )

    def _endpoints(self) -> list[Endpoint]:
        """The endpoints that this broker registers: its advertised listeners, or its listeners.

        An endpoint has no host if each client is told the address by which it reached the broker.
        """
        advertised = {listener.name: listener for listener in self.config.advertised_listeners}
        endpoints = []
        for listener in self.server.listening:
            shown = advertised.get(listener.name)
            host, port = ("", listener.port) if shown is None else (shown.host, shown.port or listener.port)
            if self.clustered and not host:
                host = socket.getfqdn() if listener.host in ("", *WILDCARDS) else listener.host
            endpoints.append(Endpoint(listener.name, host, port, "PLAINTEXT"))
        return endpoints

    def _resize_executor(self) -> None:
        """Use background.threads threads for new work, if they can be started."""
        wanted: int = self.config["background.threads"]
        if wanted == self._background_threads:
            return
        try:
            executor = self._machine.running_pool(wanted, "kafkapy")
        except RuntimeError as error:
            logger.error("background.threads stays %d: %s", self._background_threads, error)
            return
        # The old threads finish their present and queued work.
        self._executor.shutdown(wait=False)
        self._executor, self._background_threads = executor, wanted

    def _apply_topic_defaults(self) -> None:
        self.replicas.set_defaults(self.config.topic_defaults(), self.metadata.image)

    def _log_directory_failed(self, error: StorageError) -> None:
        """Handle the failure of a log directory.

        Any thread may call it.
        """
        for directory in self.logs.directories:
            if Path(directory.path) == error.log_dir:
                self.server.loop.call_soon_threadsafe(self._take_offline, directory, error)

    def _take_offline(self, directory: LogDirectory, error: StorageError) -> None:
        self.replicas.log_directory_failed(directory, error)
        self.admin.replicas_changed()
        if all(each.error is not None for each in self.logs.directories):
            logger.critical("No log directory is left: the broker stops.")
            self.failed.set()

    async def _close_replicas(self) -> None:
        await self.group_commit.drain()
        self.replicas.close()

    async def _close_logs(self) -> None:
        registered = self.metadata.image.brokers.get(self.node_id)
        epoch = -1 if registered is None else registered.epoch
        await self.blocking(self.logs.close, clean=self._keep_data, broker_epoch=epoch)
