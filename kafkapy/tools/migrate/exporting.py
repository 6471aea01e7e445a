"""The conversion of a data directory of this broker into one of Apache Kafka.

Records, indexes, checkpoints and producer snapshots have Kafka's formats already. Kafka also needs:

- KRaft: `meta.properties` of version 1 with the ids of the node, the cluster and the directory, and
  `__cluster_metadata-0` with a snapshot of the metadata (kraft_snapshot.py).
- ZooKeeper mode: `meta.properties` of version 0, and the cluster's tree in ZooKeeper (zookeeper.py).

The original is not changed, unless it is exported in place. In that case Kafka's metadata is written first,
and `metadata.db` is renamed last. Until then this broker still opens the directory, and an interrupted export
can be run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkapy.metadata.sqlite_tree import WAL_SUFFIX
from kafkapy.metadata.zookeeper_access import EVERYBODY, ZooKeeperAccess
from kafkapy.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    META_PROPERTIES,
    PARTITION_METADATA,
    write_meta_properties,
    write_partition_metadata,
)
from kafkapy.storage.disk.directory_names import stray_name
from kafkapy.storage.disk.disk_space import RESERVE_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.checkpoint_files import bring_checkpoints
from kafkapy.tools.migrate.export_plan import EXPORTED_SUFFIX, ExportPlan, plan_export
from kafkapy.tools.migrate.kraft_snapshot import snapshot
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.source import CLUSTER_METADATA, PARTIAL_SUFFIX, Source
from kafkapy.tools.migrate.target import Target
from kafkapy.tools.migrate.transfer import Progress, Transfer, bring_partitions
from kafkapy.tools.migrate.zookeeper import check_is_free, connected, write_tree


@dataclass(frozen=True, slots=True)
class Exported:
    """The report of an export."""

    plan: ExportPlan
    clean: bool
    transfer: Transfer = field(default_factory=Transfer)
    nodes: int = 0
    """How many nodes the cluster has in ZooKeeper."""


def export_copy(
    paths: Sequence[Path],
    targets: Sequence[Path],
    zookeeper: str | None,
    progress: Progress,
    *,
    access: ZooKeeperAccess = EVERYBODY,
    files: FileSystem | None = None,
) -> Exported:
    """Export the log directories `paths` to as many new directories.

    Args:
        zookeeper: the address of the target's ZooKeeper, HOST:PORT[,…][/chroot]; None for KRaft.
        access: how to come in there.
        files: the file system of the new directories.

    Raises:
        MigrationError: the export failed; the new directories were removed.
    """
    files = files or FileSystem()
    with Source(paths) as source, Target(targets, files) as target:
        try:
            plan = plan_export(source, files, target.paths[0], zookeeper=zookeeper is not None)
            if zookeeper is not None:
                with connected(zookeeper, access) as client:
                    check_is_free(client, plan.cluster)
                    transfer = _copy(source, plan, target, files, progress)
                    nodes = _finish_zookeeper(client, source, plan, target.paths, files, access)
                    target.commit()
                return Exported(plan, source.clean, transfer, nodes)
            transfer = _copy(source, plan, target, files, progress)
            _write_cluster_metadata(plan, target.paths[0], files)
            _write_meta_properties(source, plan, target.paths, files, version=1)
            target.commit()
            return Exported(plan, source.clean, transfer)
        except OSError as error:
            raise MigrationError(f"{error.filename or target.final[0]}: {error.strerror}.") from None


def export_in_place(
    paths: Sequence[Path],
    zookeeper: str | None,
    *,
    access: ZooKeeperAccess = EVERYBODY,
    files: FileSystem | None = None,
) -> Exported:
    """Export the log directories `paths` in place.

    The arguments are those of `export_copy`.

    Raises:
        MigrationError: the export failed; this broker still opens the directories.
    """
    files = files or FileSystem()
    with Source(paths) as source:
        own = [each.path for each in source.log_dirs]
        for log_dir in source.log_dirs:
            if log_dir.unknown:
                raise MigrationError(
                    f"Apache Kafka does not start, because {log_dir.path}/{log_dir.unknown[0]} is not a "
                    "partition's directory: move it out of the data directory."
                )
        try:
            plan = plan_export(source, files, own[0], zookeeper=zookeeper is not None)
            nodes = 0
            if zookeeper is not None:
                with connected(zookeeper, access) as client:
                    check_is_free(client, plan.cluster)
                    _write_topic_ids(plan, own, files)
                    nodes = _finish_zookeeper(client, source, plan, own, files, access)
            else:
                _write_topic_ids(plan, own, files)
                _write_cluster_metadata(plan, own[0], files)
                _write_meta_properties(source, plan, own, files, version=1)
            _put_aside_metadata(source, files)
            return Exported(plan, source.clean, nodes=nodes)
        except OSError as error:
            raise MigrationError(f"{error.filename or own[0]}: {error.strerror}.") from None


def _copy(
    source: Source, plan: ExportPlan, target: Target, files: FileSystem, progress: Progress
) -> Transfer:
    transfer = bring_partitions(source, plan.folders, target.paths, files, progress)
    _write_topic_ids(plan, target.paths, files)
    for log_dir, path in zip(source.log_dirs, target.paths, strict=True):
        bring_checkpoints(files, log_dir, path)
    return transfer


def _write_topic_ids(plan: ExportPlan, paths: Sequence[str], files: FileSystem) -> None:
    """Give each log without a topic id its id: Kafka takes a log without one for a stray."""
    for folder in plan.folders:
        if folder.topic_id is None:
            path = f"{paths[folder.directory]}/{folder.topic_partition}/{PARTITION_METADATA}"
            write_partition_metadata(files, path, plan.topic_ids[folder.topic_partition])


def _write_cluster_metadata(plan: ExportPlan, path: str, files: FileSystem) -> None:
    name, content = snapshot(plan.cluster, plan.directories(), plan.directory_ids[0])
    final = f"{path}/{CLUSTER_METADATA}"
    partial = final + PARTIAL_SUFFIX
    files.remove(partial)
    files.make_directory(partial)
    files.write_atomically(f"{partial}/{name}", content)
    if files.exists(final):
        put_aside(files, final)
    files.rename(partial, final)
    files.sync_directory(path)


def put_aside(files: FileSystem, path: str) -> str:
    """Rename Kafka's metadata, which is out of date from now on, so that Kafka ignores it."""
    log_dir = path.rpartition("/")[0]
    aside = f"{log_dir}/{stray_name(TopicPartition(CLUSTER_METADATA_TOPIC, 0))}"
    files.rename(path, aside)
    files.sync_directory(log_dir)
    return aside


def _write_meta_properties(
    source: Source, plan: ExportPlan, paths: Sequence[str], files: FileSystem, *, version: int
) -> None:
    for log_dir, path, directory_id in zip(source.log_dirs, paths, plan.directory_ids, strict=True):
        meta = replace(
            log_dir.identity,
            version=version,
            cluster_id=plan.cluster.image.cluster_id,
            node_id=plan.cluster.node_id,
            directory_id=directory_id,
        )
        write_meta_properties(files, f"{path}/{META_PROPERTIES}", meta)


def _finish_zookeeper(
    client: Any,
    source: Source,
    plan: ExportPlan,
    paths: Sequence[str],
    files: FileSystem,
    access: ZooKeeperAccess,
) -> int:
    _write_meta_properties(source, plan, paths, files, version=0)
    return write_tree(client, plan.cluster, access)


def _put_aside_metadata(source: Source, files: FileSystem) -> None:
    metadata = source.metadata_file
    assert metadata is not None
    for log_dir in source.log_dirs:
        files.unlink(f"{log_dir.path}/{RESERVE_FILE}")
    for suffix in (WAL_SUFFIX, ""):
        if files.exists(metadata + suffix):
            files.rename(metadata + suffix, metadata + EXPORTED_SUFFIX + suffix)
    files.sync_directory(metadata.rpartition("/")[0])
