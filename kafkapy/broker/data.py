"""The data of a broker: its log directories and the metadata of its cluster.

The step of the start that opens them locks the directories, opens the metadata, finds the broker's id, loads
the logs, and recovers them if the last stop was not clean.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkapy.broker.listeners import inner_endpoint
from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers
from kafkapy.configs.changes import put_in_effect
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.metadata_file import metadata_file, require_no_metadata
from kafkapy.metadata.registration import require_known_name, require_own_place, require_reachable
from kafkapy.metadata.shared_tree import choose_broker_id, require_others_in_sync
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.znodes import Endpoint
from kafkapy.storage.directories.identity import require_not_shared
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.log.log_config import LogConfig

DEFAULT_NODE_ID: Final = 1
"""The id of a broker if neither its settings nor its directories have one."""


class Data(NamedTuple):
    """The open data of a broker, and what it found there."""

    logs: LogManager
    store: MetadataStore
    changes: TreeChanges
    image: MetadataImage
    """The metadata as it was found; it is published by `ClusterAdmin.start`."""
    node_id: int

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return self.image.cluster_id


def new_logs(start: Start) -> LogManager:
    """The log manager, which has opened nothing yet."""
    config, machine = start.config, start.machine
    logs = LogManager(
        config.log_dirs,
        defaults=LogConfig.from_mapping(config.topic_defaults()),
        clock=machine.clock,
        durability=config["durability"],
        files=machine.files,
        producer_expiration_ms=config["producer.id.expiration.ms"],
        check_on_first_read=config["log.check.on.first.read"],
        max_open_files=config["log.max.open.files"],
        new_pool=machine.pool,
    )
    config.on_change(lambda: logs.remember_producers(config["producer.id.expiration.ms"]))
    return logs


async def open_data(start: Start, workers: Workers, logs: LogManager, registered: list[Endpoint]) -> Data:
    """Open the log directories and the metadata.

    Args:
        logs: of `new_logs`.
        registered: the endpoints that the broker will register.

    Raises:
        LogDirectoryError, StorageError: a directory cannot be used.
        MetadataStoreError: the metadata cannot be used, or the broker cannot have its place in the cluster.
    """
    config, blocking = start.config, workers.threads.blocking
    identity = await blocking(logs.open)
    if config.clustered:
        await require_known_name(inner_endpoint(config, registered))
    store = await _open_store(start, logs)
    start.started.push_async_callback(store.close)
    changes = TreeChanges(store)
    await changes.watch()
    await store.sync()  # the replicas in sync decide whether empty directories may be served
    image = await open_cluster(store, identity.cluster_id, shared=config.clustered)
    node_id = config.node_id
    if config.clustered:
        node_id = await choose_broker_id(store, config, node_id, identity.node_id)
        await _require_place(start, logs, store, image, node_id, registered)
    elif node_id < 0:
        node_id = DEFAULT_NODE_ID if identity.node_id is None else identity.node_id
    # Before the logs are loaded, which depends on these settings.
    put_in_effect(config, image, node_id)
    logs.recovery_threads_per_dir = config["num.recovery.threads.per.data.dir"]
    await blocking(logs.load, image.cluster_id, node_id, shared=config.clustered)
    logs.watch_writes()
    return Data(logs, store, changes, image, node_id)


async def _open_store(start: Start, logs: LogManager) -> MetadataStore:
    config = start.config
    if start.cluster_store is not None:
        require_no_metadata(config.log_dirs)
        return await start.cluster_store()
    file = metadata_file(config.log_dirs, logs.offline_dirs)
    if not file.exists():
        require_not_shared(logs.directories)
    sync = config["durability"] == "fsync"
    return await start.machine.open_store(file, sync=sync, directory=logs.directory_of(file))


async def _require_place(
    start: Start,
    logs: LogManager,
    store: MetadataStore,
    image: MetadataImage,
    node_id: int,
    registered: list[Endpoint],
) -> None:
    """Require that the broker can have its place, before it claims its directories.

    Raises:
        MetadataStoreError: it cannot have the id, its address, or its replicas.
    """
    require_own_place(image, node_id, registered)
    await require_reachable(image, node_id, inner_endpoint(start.config, registered))
    if logs.were_empty:
        paths = " and ".join(str(path) for path in start.config.log_dirs)
        await require_others_in_sync(store, image, node_id, paths)
