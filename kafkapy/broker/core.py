"""A broker: how it starts, stops and fails.

Each step of the start is a named function, which returns the parts that it makes, and registers their
reversal. A start that fails reverses the steps that it has taken:

1. `start_workers` starts worker threads, timers and waiters.
2. `listen` binds the listeners. Clients queue. `Policies.load` loads the operator's classes.
3. `open_data` locks the directories, opens the metadata, loads the logs, and recovers them if the last stop
   was not clean.
4. `make_replication`, `join_cluster`, `make_administration` and `Coordination.prepare` make the parts that
   follow the metadata. Then it is published: this broker registers, and replicas open their logs.
5. `Coordination.start` and `start_upkeep` start groups and housekeeping.
6. The server accepts clients.

A stop is the reverse. New clients and requests are refused. Requests in flight are answered; those that wait
are answered with what they have. Housekeeping and groups end. The logs are flushed, closed and marked clean.
The session with the metadata store ends, and with it the registration.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from kafkapy.broker.administration import make_administration
from kafkapy.broker.coordination import Coordination
from kafkapy.broker.data import Data, new_logs, open_data
from kafkapy.broker.links import link_security, zookeeper_of
from kafkapy.broker.listeners import endpoints, listen
from kafkapy.broker.machine import Machine
from kafkapy.broker.quotas import BrokerQuotas, load_callback
from kafkapy.broker.replication import Replication, make_replication, start_upkeep
from kafkapy.broker.start import Start
from kafkapy.broker.tokens import token_cache
from kafkapy.broker.workers import Threads, Workers, start_workers
from kafkapy.configs import start_warnings
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.unsupported import AUTHORIZER
from kafkapy.controller.adoption import found_logs
from kafkapy.fetch.sessions import FetchSessionCache
from kafkapy.handlers.context import BrokerParts
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.inter_broker.loopback import LoopbackPeer
from kafkapy.logs import REQUESTS
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.encoded_answers import EncodedAnswers
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import MetadataStore, MetadataStoreError
from kafkapy.network.server import ListenError, Server
from kafkapy.operator_class import UnusableClassError
from kafkapy.policies.calls import Policies, PolicyError
from kafkapy.protocol.types import Uuid
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.log_cleaner import LogCleaner
from kafkapy.replicas.refused_batches import RefusedBatches
from kafkapy.replicas.sole_roles import SoleRoles
from kafkapy.storage.disk.errors import (
    ExhaustedError,
    StorageError,
    is_exhausted,
    what_is_lacking,
)
from kafkapy.storage.disk.log_directory import LogDirectory, LogDirectoryError
from kafkapy.transactions.verifier import Verifier

if TYPE_CHECKING:
    from kafkapy.broker.cluster_member import ClusterMember
    from kafkapy.broker.coordinators import Coordinators
    from kafkapy.metrics.endpoint import MetricsEndpoint
    from kafkapy.quotas.managers import QuotaManagers
    from kafkapy.security.acls.audit_log import AuditLog
    from kafkapy.security.acls.authorizer import Authorizer
    from kafkapy.security.links import LinkSecurity
    from kafkapy.telemetry.telemetry import ClientTelemetry

_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
DRAIN_SECONDS: Final = 5.0
"""The seconds that a stop of the broker waits for requests in flight."""

CONVERSIONS_AT_ONCE: Final = 2
"""Each keeps a thread busy for long."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


START_ERRORS: Final = (
    ConfigError,
    UnusableClassError,
    ListenError,
    LogDirectoryError,
    MetadataStoreError,
    PolicyError,
    StorageError,
)
"""The errors that end a start with their message, which is for the operator."""


class StartError(Exception):
    """The broker cannot start; the message is one line for the operator."""


class BrokerCore(BrokerParts):
    """One broker of a cluster.

    Handlers reach its parts through it (`BrokerParts`); they exist when it has started.
    """

    server: Server
    group_commit: GroupCommit
    log_cleaner: LogCleaner
    loopback: LoopbackPeer
    store: MetadataStore
    _threads: Threads
    _coordination: Coordination

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
            cluster_store = partial(zookeeper_of, config)
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
        self._member: ClusterMember | None = None
        """The parts that it has in a cluster only."""
        self.telemetry: ClientTelemetry | None = None
        self.metrics: MetricsEndpoint | None = None
        """Serves metrics, if metrics.port is set."""
        self._keep_data = True
        self.encoded_metadata = EncodedAnswers()
        self.audit_log: AuditLog | None = None
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
        self._coordination.close_topics()
        await draining
        await self._started.aclose()

    async def kill(self) -> None:
        """End nearly as after SIGKILL: nothing is handed over, answered, synced or marked as clean."""
        self._keep_data = False
        self.server.stop_accepting()
        await self._started.aclose()

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread (see `Threads.blocking`)."""
        return await self._threads.blocking(call, *args, **kwargs)

    async def costly(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call`, whose cost clients choose, in one of the threads for such work."""
        return await self._threads.costly(call, *args, **kwargs)

    def _why_not(self, error: BaseException) -> str:
        if is_exhausted(error):
            return f"cannot start: {what_is_lacking(error)}"
        if isinstance(error, ExhaustedError):
            return f"cannot start: {error.message}"
        if not isinstance(error, StorageError):
            return str(error)
        offline = [directory.error for directory in self.logs.directories if directory.error is not None]
        reasons = "; ".join(f"{each.log_dir} cannot be used: {each.message}" for each in offline or [error])
        if any(_is_refused(each.__cause__) for each in offline or [error]):
            remedy = "Run the broker as the owner of the directory and its files, or make them writable."
        else:
            remedy = "Check it, or choose another directory."
        return f"{reasons}. {remedy}"

    async def _start(self) -> None:
        config = self.config
        start = Start(config, self._machine, self.metadata, self._cluster_store, self._started, {})
        workers = start_workers(start)
        self._offer_workers(workers)
        tokens = token_cache(start, workers)
        self.server = listen(start, workers, tokens)
        security = link_security(config)
        self.metrics = await _bind_metrics(start)
        policies = await workers.threads.blocking(Policies.load, config.originals)
        self._started.push_async_callback(policies.close)
        quota_callback = await workers.threads.blocking(load_callback, config)
        self.authorizer = await workers.threads.blocking(_load_authorizer, config)
        if self.authorizer is not None:
            from kafkapy.security.acls.audit_log import AuditLog

            self.audit_log = audit_log = AuditLog(asyncio.get_running_loop().call_later)
            self._started.callback(self.authorizer.close)
            self._started.callback(audit_log.close)
        start_warnings.before_the_start(config)
        self.logs = new_logs(start)
        self._started.push_async_callback(self._close_logs)
        self.server.lacks_files = lambda: self.logs.files.open_files.crowded
        data = await open_data(start, workers, self.logs, endpoints(config, self.server))
        self.node_id, self.cluster_id, self.store = data.node_id, data.cluster_id, data.store
        replication = make_replication(start, workers, data)
        self._offer_replication(replication)
        member = self._member = _cluster_member(start, data, replication, security)
        self.zookeeper_offsets = None if member is None else member.zookeeper_offsets
        quotas = BrokerQuotas(config, self.server, quota_callback, data.node_id)
        self.metadata.follow(quotas.follow)
        self._started.callback(quotas.close)
        if self.metrics is not None:
            self.telemetry = self._new_telemetry()
        dispatcher = Dispatcher(self)
        administration = make_administration(
            start, data, member, dispatcher, policies, self.authorizer, tokens
        )
        self.loopback, self.inter_broker = administration.loopback, administration.inter_broker
        self.admin, self.automatic_topics = administration.admin, administration.automatic_topics
        self.producer_ids = self.admin.producer_ids
        self.group_commit.on_damage = self.replicas.on_room = self.admin.replicas_changed
        self.verifier = self._new_verifier(data)
        self._started.push_async_callback(self.verifier.stop)
        self._coordination = coordination = Coordination(
            start, workers, data, replication, administration, made=self._offer_coordinators
        )
        self.replicas.on_leadership(coordination.leadership_changed)
        coordination.prepare(data.image)
        if member is not None:
            self.controller_requests = member.requests
            member.start(self.admin)
            self._started.push_async_callback(member.stop)
        await self._publish(data, replication.sole)
        self._started.push_async_callback(coordination.stop)
        coordination.start()
        self.log_cleaner = start_upkeep(start, workers, data, replication)
        self.measure_requests()
        if self.metrics is not None:
            self.metrics.serve(self)
        self.server.accept(dispatcher)

    def _offer_workers(self, workers: Workers) -> None:
        self._threads = workers.threads
        self.validation = workers.validation
        self.turns, self.timers, self.waiters = workers.turns, workers.timers, workers.waiters
        self.cold_reads = workers.cold_reads
        self.refused_batches = RefusedBatches(asyncio.get_running_loop().time)
        self.fetch_sessions = FetchSessionCache(
            self.config["max.incremental.fetch.session.cache.slots"],
            now_ms=self.clock.now_ms,
            wake=self.waiters.wake,
        )

    def _offer_replication(self, replication: Replication) -> None:
        self.replicas, self.group_commit = replication.replicas, replication.group_commit
        self.log_mover, self.log_starts = replication.log_mover, replication.log_starts
        self.write_gate = replication.write_gate
        self.logs.on_directory_failure = self._log_directory_failed

    def _offer_coordinators(self, made: Coordinators) -> None:
        self.groups, self.shares, self.transactions = made.groups, made.shares, made.transactions

    def measure_requests(self) -> None:
        """Count and time requests from now on, if metrics or the logs of requests want it."""
        slow_ms, shared = self.config["slow.request.log.ms"], self.server.shared
        logs_all = REQUESTS.isEnabledFor(logging.DEBUG)
        if self.metrics is None and slow_ms is None and not logs_all:
            shared.metrics = None
            return
        from kafkapy.network.request_metrics import RequestMetrics

        if shared.metrics is None:
            shared.metrics = RequestMetrics()
            if slow_ms is not None:
                from kafkapy.network.slow_requests import SlowRequests

                shared.metrics.slow = SlowRequests(slow_ms / 1000)
        if logs_all:
            from kafkapy.network.request_log import RequestLog

            shared.metrics.log = RequestLog()
        else:
            shared.metrics.log = None

    def _new_telemetry(self) -> ClientTelemetry:
        from kafkapy.telemetry.telemetry import ClientTelemetry

        return ClientTelemetry(self.metadata, self.clock, self.costly, self.config["telemetry.max.bytes"])

    def _new_verifier(self, data: Data) -> Verifier:
        config = self.config
        return Verifier(
            self.metadata,
            self.inter_broker,
            lambda: self.transactions if self._coordination.is_made else None,
            node_id=data.node_id,
            is_enabled=lambda: config["transaction.partition.verification.enable"],
            seconds=config["request.timeout.ms"] / 1000,
            retry_seconds=config["add.partitions.to.txn.retry.backoff.ms"] / 1000,
            most_retry_seconds=config["add.partitions.to.txn.retry.backoff.max.ms"] / 1000,
        )

    async def _publish(self, data: Data, sole: SoleRoles | None) -> None:
        """Register the broker and publish the metadata, which the replicas follow."""
        config = self.config
        self.metadata.follow(self.replicas.apply)
        if sole is not None:
            self.metadata.follow(sole.apply)
            self.metadata.prepare_with(sole.prepare)
            self.metadata.settle_with(sole.settle)
        self._started.push_async_callback(self.admin.stop)
        await self.admin.start(data.image, endpoints(config, self.server), found_logs(self.logs.logs))
        start_warnings.settings_of_groups(config, data.image.group_configs)
        if sole is None:
            self.producer_ids.reserve_ahead()
        else:
            sole.drop_stray_copies()
            sole.report_orphans()
            start_warnings.sole_broker(config)
        config.on_change(self._apply_topic_defaults)
        self._apply_topic_defaults()

    @property
    def has_coordinators(self) -> bool:
        """Whether the coordinators are made."""
        return self._coordination.is_made

    @property
    def is_at_rest(self) -> bool:
        """Whether its coordinators have ended all that they have begun."""
        return self._coordination.is_at_rest

    def hear_from_all_members(self) -> None:
        """Take each member of a group that it coordinates to have sent a heartbeat now."""
        if self.has_coordinators:
            self.groups.hear_from_all()

    async def make_coordinators(self) -> None:
        """Make the coordinators, unless they are made (see `Coordination.make`)."""
        await self._coordination.make()

    @property
    def quotas(self) -> QuotaManagers | None:
        """The quotas of clients; None while there are none."""
        return self.server.shared.quotas

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

    async def _close_logs(self) -> None:
        registered = self.metadata.image.brokers.get(self.node_id)
        epoch = -1 if registered is None else registered.epoch
        await self.blocking(self.logs.close, clean=self._keep_data, broker_epoch=epoch)


def _load_authorizer(config: BrokerConfig) -> Authorizer | None:
    """The operator's authorizer, or None; raises ConfigError."""
    if not config[AUTHORIZER]:
        return None
    from kafkapy.security.acls.loading import load_authorizer  # most brokers do not need its code

    return load_authorizer(config.originals)


def _cluster_member(
    start: Start, data: Data, replication: Replication, security: LinkSecurity | None
) -> ClusterMember | None:
    """The parts that only a broker of a cluster has; a broker alone does not even import them."""
    if not start.config.clustered:
        return None
    from kafkapy.broker.cluster_member import join_cluster

    return join_cluster(start, data, replication, security)


async def _bind_metrics(start: Start) -> MetricsEndpoint | None:
    """Bind the port for metrics, if one is set; a broker without one does not even import them.

    Raises:
        ConfigError: the client library is not installed.
        ListenError: the address cannot be used.
    """
    if start.config["metrics.port"] is None:
        return None
    from kafkapy.metrics.endpoint import MetricsEndpoint

    endpoint = MetricsEndpoint(start.config)
    start.started.push_async_callback(endpoint.stop)
    await endpoint.bind()
    return endpoint


def _is_refused(cause: BaseException | None) -> bool:
    """Whether rights are missing, or the file system is read-only."""
    return isinstance(cause, OSError) and cause.errno in _REFUSED
