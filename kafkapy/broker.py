"""The broker: what it is made of, and the order in which the parts start and stop.

Everything runs on one event loop. What blocks goes to a thread, in one of three ways and no other. Syncs go
to the threads of their log directory (replicas/flusher.py). Validation that takes long goes to threads that
connections share fairly (process/validation.py). All else goes to the pool that `blocking` uses. So an
acknowledgement waits for its disk, and for nothing else that blocks.

Each step of the start registers how it is undone; a start that fails half-way undoes what it had done:

1. worker threads, timers, waiters
2. the listeners are bound: a port in use is the commonest mistake, found before anything is touched, and
   ephemeral ports are known from here on; clients queue
3. the directories, locked; the metadata; the logs, recovered where the last stop was not clean
4. the followers of the metadata, then the metadata itself: this broker registers, replicas open what it says
5. what works on the logs: groups, housekeeping
6. clients are accepted

A stop is the same backwards: no new clients and no new requests; requests in flight are answered, those that
wait with what there is; housekeeping and groups end; the last flush; the logs are closed and marked clean;
the session with the metadata store ends, and with it the registration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from kafkapy.configs.brokers import MIN_INSYNC_REPLICAS, hints
from kafkapy.configs.changes import put_in_effect
from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.adoption import FoundLog
from kafkapy.coordination.local_log import LocalTopicLog
from kafkapy.fetch.sessions import FetchSessionCache
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.metadata.cache import MetadataCache, open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import MetadataStoreError
from kafkapy.metadata.topic_names import GROUP_METADATA_TOPIC
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.znodes import Endpoint
from kafkapy.network.server import ListenError, Server
from kafkapy.process.clock import Clock
from kafkapy.process.timers import Timers
from kafkapy.process.turns import Turns
from kafkapy.process.validation import Validation, validation_threads
from kafkapy.process.waiters import Waiters
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.housekeeping import Housekeeping
from kafkapy.replicas.log_cleaner import LogCleaner
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.log_start_saves import LogStartSaves
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.files import ExhaustedError, StorageError, is_exhausted, what_is_lacking
from kafkapy.storage.disk.log_directory import LogDirectory, LogDirectoryError
from kafkapy.storage.disk.open_files import share_descriptors
from kafkapy.storage.log.log_config import NEVER, LogConfig

DRAIN_SECONDS: Final = 5.0
"""How long requests in flight have to be answered when the broker stops."""

DEFAULT_NODE_ID: Final = 1
"""The id of a broker that is given none and whose directories name none."""

CONVERSIONS_AT_ONCE: Final = 2
"""Each keeps a thread busy for long."""

METADATA_FILE: Final = "metadata.db"
"""In the first log directory."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The broker cannot start; the message is one line for the operator."""


class BrokerCore:
    """One broker of a cluster. Handlers reach everything through it."""

    def __init__(self, config: BrokerConfig, clock: Clock | None = None) -> None:
        self.config = config
        self.clock = clock or Clock()
        self.node_id = config.node_id
        self.cluster_id = ""
        self.metadata = MetadataCache()
        self.conversions = asyncio.Semaphore(CONVERSIONS_AT_ONCE)
        """Taken by requests that keep a worker thread busy with converting records of other formats."""
        self.failed = asyncio.Event()
        """No log directory is left: the broker serves nobody any more and is to be stopped."""
        self._keep_data = True
        self._started = AsyncExitStack()
        """What has been started, to be stopped in reverse order."""

    async def start(self) -> None:
        """Start to serve; when it returns, clients are answered.

        Raises:
            StartError: an address or a directory cannot be used.
        """
        try:
            await self._start()
        except BaseException as error:
            await self._started.aclose()
            known = (ListenError, LogDirectoryError, MetadataStoreError, StorageError)
            if isinstance(error, known) or is_exhausted(error):
                raise StartError(self._why_not(error)) from None
            raise

    async def stop(self, *, keep_data: bool = True) -> None:
        """Stop in order; requests in flight have DRAIN_SECONDS to be answered.

        Without `keep_data` the logs are not synced and not marked clean: nobody will open them again.
        """
        self._keep_data = keep_data
        self.server.stop_accepting()
        draining = asyncio.ensure_future(self.server.drain(DRAIN_SECONDS))
        await asyncio.sleep(0)
        # No new requests from here on. What is on its way to the disk is acknowledged before those who still
        # wait are sent away: a producer that is told nothing would send its records again.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.group_commit.drain(), DRAIN_SECONDS)
        self.waiters.expire_all()
        self.groups.runtime.close_topic()
        await draining
        await self._started.aclose()

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread: the one place where blocking work leaves the loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))

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
        self._background_threads: int = self.config["background.threads"]
        self._executor = _running_threads(self._background_threads)
        self._started.callback(lambda: self._executor.shutdown())
        self.config.on_change(self._resize_executor)
        threads = validation_threads()
        self.validation = Validation(_running_threads(threads, "kafkapy-validation"), threads)
        self._started.callback(self.validation.close)
        self.turns = Turns(loop)
        self.timers = Timers(loop)
        self._started.callback(self.timers.close)
        self.waiters = Waiters(loop, self.timers)
        self.fetch_sessions = FetchSessionCache(
            self.config["max.incremental.fetch.session.cache.slots"], now_ms=self.clock.now_ms
        )
        self.server = Server(self.config, loop, self.validation)
        self._started.callback(self.server.close)
        self.server.bind(self.config.listeners)
        self.config.on_change(self.server.configure)
        self._warn_of_idle_settings()
        self._warn_of_relaxed_syncs()
        self._report_descriptors()
        image = await self._open_data()
        self.group_commit = GroupCommit()
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
        )
        self.log_starts = LogStartSaves(self.logs, self.blocking)
        self.logs.on_directory_failure = self._log_directory_failed
        self._started.push_async_callback(self._close_replicas)
        self._started.push_async_callback(self.log_mover.stop)
        self.admin = ClusterAdmin(
            self._store, self.metadata, self.config, self._changes, node_id=self.node_id, clock=self.clock
        )
        offsets_log = LocalTopicLog(
            GROUP_METADATA_TOPIC,
            clock=self.clock,
            metadata=self.metadata,
            replicas=self.replicas,
            blocking=self.blocking,
            create=self.admin.ensure_internal_topic,
        )
        self.groups = GroupCoordinator(
            GroupConfig.from_broker(self.config),
            self.clock,
            self.timers,
            offsets_log,
            blocking=self.blocking,
        )
        self.producer_ids = self.admin.producer_ids
        self.metadata.follow(self.replicas.apply)
        self.metadata.prepare_with(self.replicas.prepare)
        self.metadata.settle_with(self.replicas.settle)
        self._started.push_async_callback(self.admin.stop)
        await self.admin.start(image, self._endpoints(), self._found_logs())
        self.replicas.drop_stray_copies()
        self.replicas.report_orphans()
        self._warn_of_missing_brokers()
        self._warn_of_min_insync_replicas()
        self.config.on_change(self._apply_topic_defaults)
        self._apply_topic_defaults()
        self.groups.start()
        self.metadata.follow(self.groups.metadata_changed)
        self._started.push_async_callback(self.groups.stop)
        cleaner = LogCleaner(
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            replicas=self.replicas,
            group_commit=self.group_commit,
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
        )
        housekeeping.start()
        self._started.push_async_callback(housekeeping.stop)
        self.server.accept(Dispatcher(self))

    @property
    def _durable(self) -> bool:
        return bool(self.config["durability"] == "fsync")

    def _warn_of_idle_settings(self) -> None:
        """Log the settings that the broker was given and does nothing with."""
        if unknown := self.config.unknown():
            logger.warning("These settings are not known and have no effect: %s", hints(unknown))
        if idle := self.config.without_effect():
            logger.info("These settings have no effect in this broker: %s", ", ".join(idle))

    def _warn_of_relaxed_syncs(self) -> None:
        for name in ("log.flush.interval.messages", "log.flush.interval.ms"):
            value = self.config[name]
            if self._durable and value < NEVER:
                logger.warning(
                    "%s=%s relaxes durability=fsync for all topics: a power cut may take what was"
                    " acknowledged and not synced yet.",
                    *(name, value),
                )

    def _report_descriptors(self) -> None:
        """Say what the limit of open files leaves of settings that ask for more."""
        shares = share_descriptors(self.config["log.max.open.files"])
        logger.info(
            "The limit of open files leaves room for %s files of logs and %s connections",
            *(f"{shares.log_files:,}", f"{shares.connections:,}"),
        )
        for name, share in (
            ("log.max.open.files", shares.log_files),
            ("max.connections", shares.connections),
        ):
            if name in self.config.originals and (self.config[name] or 0) > share:
                logger.warning(
                    "%s=%d is more than that; raise the limit (ulimit -n).", name, self.config[name]
                )

    async def _open_data(self) -> MetadataImage:
        config = self.config
        self.logs = LogManager(
            config.log_dirs,
            defaults=LogConfig.from_mapping(config.topic_defaults()),
            clock=self.clock,
            durability=config["durability"],
            producer_expiration_ms=config["producer.id.expiration.ms"],
            check_on_first_read=config["log.check.on.first.read"],
            max_open_files=config["log.max.open.files"],
        )
        self._started.push_async_callback(self._close_logs)
        self.server.lacks_files = lambda: self.logs.files.open_files.crowded
        config.on_change(lambda: self.logs.remember_producers(config["producer.id.expiration.ms"]))
        identity = await self.blocking(self.logs.open)
        if self.node_id < 0:
            self.node_id = DEFAULT_NODE_ID if identity.node_id is None else identity.node_id
        file = self._metadata_file()
        self._store = await EmbeddedStore.open(
            file, sync=self._durable, directory=self.logs.directory_of(file)
        )
        self._started.push_async_callback(self._store.close)
        self._changes = TreeChanges(self._store)
        await self._changes.watch()
        image = await open_cluster(self._store, identity.cluster_id)
        self.cluster_id = image.cluster_id
        # Before the logs are loaded: how, and which producers are remembered, depends on them.
        put_in_effect(config, image, self.node_id)
        self.logs.recovery_threads_per_dir = config["num.recovery.threads.per.data.dir"]
        await self.blocking(self.logs.load, self.cluster_id, self.node_id)
        return image

    def _metadata_file(self) -> Path:
        """The metadata.db in one of the log directories; a new one in the first."""
        found = [path / METADATA_FILE for path in self.config.log_dirs if (path / METADATA_FILE).exists()]
        if len(found) > 1:
            raise LogDirectoryError(
                f"{found[0]} and {found[1]} are metadata of two brokers, or of two times. Name only"
                " directories of one broker in log.dirs, or move away the one that is out of date."
            )
        if not found and self.logs.offline_dirs:
            raise LogDirectoryError(
                f"The log directory {self.logs.offline_dirs[0]} is offline or missing, and with it, as it"
                " seems, the metadata: there is no metadata.db in the others. Mount it, name it in log.dirs."
            )
        return found[0] if found else self.config.log_dirs[0] / METADATA_FILE

    def _found_logs(self) -> dict[TopicPartition, FoundLog]:
        """The logs that were in the directories before the metadata was looked at."""
        return {
            topic_partition: FoundLog(
                log.topic_id,
                max((epoch for epoch, _ in log.leader_epochs.entries), default=-1),
                max((producer_id for producer_id, _ in log.producers), default=-1),
                log.cleaned_offset is not None,
            )
            for topic_partition, log in self.logs.logs.items()
        }

    def _endpoints(self) -> list[Endpoint]:
        """What this broker registers: what is advertised, else where it listens.

        There is no host where clients of any address are told the one by which they came.
        """
        advertised = {listener.name: listener for listener in self.config.advertised_listeners}
        endpoints = []
        for listener in self.server.listening:
            shown = advertised.get(listener.name)
            host, port = ("", listener.port) if shown is None else (shown.host, shown.port or listener.port)
            endpoints.append(Endpoint(listener.name, host, port, "PLAINTEXT"))
        return endpoints

    def _warn_of_missing_brokers(self) -> None:
        """Say what a production cluster's settings would only show as clients that retry for ever."""
        for name, what in (
            ("default.replication.factor", "topics without a replication factor of their own"),
            ("offsets.topic.replication.factor", "__consumer_offsets, and so any consumer group,"),
        ):
            brokers = len(self.metadata.image.brokers)
            if self.config[name] > brokers:
                logger.warning(
                    "%s=%d, and brokers: %d. Until there are enough, %s cannot be created; set it to %d.",
                    name,
                    self.config[name],
                    brokers,
                    what,
                    brokers,
                )

    def _warn_of_min_insync_replicas(self) -> None:
        """Warn where the file has another value than the cluster, whose value counts."""
        given, in_effect = self.config.originals.get(MIN_INSYNC_REPLICAS), self.config[MIN_INSYNC_REPLICAS]
        if given is not None and given.strip() != str(in_effect):
            logger.warning(
                "%s=%s has no effect: the cluster's is %d. Change it as a setting of all brokers"
                " (kafka-configs --entity-type brokers --entity-default).",
                *(MIN_INSYNC_REPLICAS, given, in_effect),
            )

    def _resize_executor(self) -> None:
        """Have new work done by as many threads as background.threads says, if they can be had."""
        wanted: int = self.config["background.threads"]
        if wanted == self._background_threads:
            return
        try:
            executor = _running_threads(wanted)
        except RuntimeError as error:
            logger.error("background.threads stays %d: %s", self._background_threads, error)
            return
        # What runs in the old threads, or waits for them, is done there.
        self._executor.shutdown(wait=False)
        self._executor, self._background_threads = executor, wanted

    def _apply_topic_defaults(self) -> None:
        self.replicas.set_defaults(self.config.topic_defaults(), self.metadata.image)

    def _log_directory_failed(self, error: StorageError) -> None:
        """Called by whichever thread touched the disk."""
        for directory in self.logs.directories:
            if Path(directory.path) == error.log_dir:
                self.server.loop.call_soon_threadsafe(self._take_offline, directory, error)

    def _take_offline(self, directory: LogDirectory, error: StorageError) -> None:
        self.replicas.log_directory_failed(directory, error)
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


def _running_threads(count: int, name: str = "kafkapy") -> ThreadPoolExecutor:
    """Worker threads that all run already: these go on where no new one can be started.

    Raises:
        RuntimeError: so many cannot be started.
    """
    pool = ThreadPoolExecutor(count, name)
    together = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(together.wait)
        together.wait()
    except BaseException:
        together.abort()
        pool.shutdown()
        raise
    return pool
