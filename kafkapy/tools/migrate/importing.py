"""The conversion of a data directory of Apache Kafka into one of this broker.

The files of partitions stay as they are, except segments from before Kafka 0.11 (old_segments.py).
`metadata.db` is made from Kafka's metadata, or from the names of the directories. `meta.properties` is
written in version 0, which a KRaft node refuses. So nobody starts Kafka on the directory by mistake: without
its metadata, Kafka would set all topics aside as strays.

The original is not changed, unless it is imported in place. In that case `metadata.db` is written first. From
then on the directory is one of this broker; the later steps only prevent that Kafka opens it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkapy.metadata.sqlite_tree import SHM_SUFFIX, WAL_SUFFIX
from kafkapy.metadata.zookeeper_access import EVERYBODY, ZooKeeperAccess
from kafkapy.storage.disk.checkpoints import CLEAN_SHUTDOWN, META_PROPERTIES, write_meta_properties
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.checkpoint_files import bring_checkpoints, raise_recovery_points
from kafkapy.tools.migrate.cluster import Cluster, KnownCluster, KnownPartition, KnownTopic
from kafkapy.tools.migrate.exporting import put_aside
from kafkapy.tools.migrate.import_plan import ImportPlan, plan_import
from kafkapy.tools.migrate.kraft_log import read_metadata_log
from kafkapy.tools.migrate.kraft_replay import replay
from kafkapy.tools.migrate.metadata_file import write_metadata
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.source import CLUSTER_METADATA, PARTIAL_SUFFIX, Source
from kafkapy.tools.migrate.target import Target
from kafkapy.tools.migrate.transfer import Progress, Transfer, bring_partitions
from kafkapy.tools.migrate.zookeeper import connected, read_tree


@dataclass(frozen=True, slots=True)
class MetadataPlace:
    """Where the cluster's metadata is, if not in the log directories."""

    zookeeper: str | None = None
    """HOST:PORT[,…][/chroot]"""
    directory: Path | None = None
    """Kafka's metadata.log.dir."""
    access: ZooKeeperAccess = EVERYBODY
    """How to come in at ZooKeeper."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The report of an import."""

    plan: ImportPlan
    source: Source
    transfer: Transfer = field(default_factory=Transfer)
    put_aside: str | None = None
    """Where Kafka's own metadata is now; None if it was not moved."""


def import_copy(
    paths: Sequence[Path],
    targets: Sequence[Path],
    place: MetadataPlace,
    progress: Progress,
    *,
    files: FileSystem | None = None,
) -> Imported:
    """Import the log directories `paths` into as many new directories.

    `files` is the file system of these.

    Raises:
        MigrationError: the import failed; the new directories were removed.
    """
    files = files or FileSystem()
    with Source(paths) as source:
        plan = _plan(source, place)
        with Target(targets, files) as target:
            try:
                transfer = bring_partitions(
                    source, plan.folders, target.paths, files, progress, convert=plan.old
                )
                for log_dir, path in zip(source.log_dirs, target.paths, strict=True):
                    bring_checkpoints(files, log_dir, path)
                _raise_recovery_points(source, plan, target.paths, files)
                write_metadata(f"{target.paths[0]}/{METADATA_FILE}", plan.cluster)
                _write_meta_properties(source, plan.cluster, target.paths, files)
                target.commit()
            except OSError as error:
                raise MigrationError(f"{error.filename or target.final[0]}: {error.strerror}.") from None
        return Imported(plan, source, transfer)


def import_in_place(
    paths: Sequence[Path], place: MetadataPlace, *, files: FileSystem | None = None
) -> Imported:
    """Import the log directories `paths` in place.

    Raises:
        MigrationError: the import failed; without metadata.db the directories are still Apache Kafka's.
    """
    files = files or FileSystem()
    with Source(paths) as source:
        plan = _plan(source, place, in_place=True)
        own = [each.path for each in source.log_dirs]
        partial = f"{own[0]}/{METADATA_FILE}{PARTIAL_SUFFIX}"
        try:
            _raise_recovery_points(source, plan, own, files)
            for suffix in ("", WAL_SUFFIX, SHM_SUFFIX):
                files.unlink(partial + suffix)
            write_metadata(partial, plan.cluster)
            files.rename(partial, f"{own[0]}/{METADATA_FILE}")
            files.sync_directory(own[0])
            _write_meta_properties(source, plan.cluster, own, files)
            metadata = source.cluster_metadata
            aside = None if metadata is None else put_aside(files, metadata)
        except OSError as error:
            raise MigrationError(f"{error.filename or own[0]}: {error.strerror}.") from None
        return Imported(plan, source, put_aside=aside)


def _plan(source: Source, place: MetadataPlace, *, in_place: bool = False) -> ImportPlan:
    if source.is_kafkapy:
        path = source.log_dirs[0].path
        raise MigrationError(
            f"{path} is already a data directory of kafkapy: start kafkapy serve --data {path}"
        )
    try:
        return plan_import(source, _known(source, place), in_place=in_place)
    except OSError as error:
        raise MigrationError(f"{error.filename or source.log_dirs[0].path}: {error.strerror}.") from None


def _known(source: Source, place: MetadataPlace) -> KnownCluster | None:
    if place.zookeeper is not None:
        return _known_in_zookeeper(source, place.zookeeper, place.access)
    directory = source.cluster_metadata
    if place.directory is not None:
        directory = f"{place.directory.absolute()}/{CLUSTER_METADATA}"
        if not source.files.exists(directory):
            raise MigrationError(f"There is no {directory}: name Kafka's metadata.log.dir.")
    if directory is None:
        return None
    clean = source.files.exists(f"{directory.rpartition('/')[0]}/{CLEAN_SHUTDOWN}")
    log = read_metadata_log(source.files, directory, clean=clean)
    known = replay(log.messages, f"the metadata log {directory}")
    known.doubt = log.doubt
    return known


def _known_in_zookeeper(source: Source, address: str, access: ZooKeeperAccess) -> KnownCluster:
    with connected(address, access) as client:
        found = read_tree(client)
    image = found.image
    if source.cluster_id not in (None, image.cluster_id):
        raise MigrationError(
            f"ZooKeeper at {address} has the cluster {image.cluster_id}, but the directory belongs to the "
            f"cluster {source.cluster_id}: correct the address or its chroot."
        )
    topics = {
        topic.name: KnownTopic(
            topic.name,
            topic.id,
            {
                number: KnownPartition(state.leader_epoch, state.replicas, state.isr)
                for number, state in enumerate(topic.partitions)
            },
            dict(topic.configs),
        )
        for topic in image.topics.values()
    }
    configs = {name: dict(each) for name, each in image.broker_configs.items()}
    return KnownCluster(
        f"ZooKeeper at {address}",
        topics,
        configs,
        client_quotas=image.client_quotas,
        acls=dict(image.acls),
        delegation_tokens=dict(image.delegation_tokens),
        salt_secret=image.salt_secret,
        next_producer_id=found.next_producer_id,
        not_carried=found.not_carried,
    )


def _raise_recovery_points(source: Source, plan: ImportPlan, paths: Sequence[str], files: FileSystem) -> None:
    for log_dir, path, points in zip(source.log_dirs, paths, plan.recovery_points, strict=True):
        raise_recovery_points(files, log_dir, path, points, may_be_compacted=plan.described_by is None)


def _write_meta_properties(source: Source, cluster: Cluster, paths: Sequence[str], files: FileSystem) -> None:
    for log_dir, path in zip(source.log_dirs, paths, strict=True):
        meta = replace(
            log_dir.identity, version=0, cluster_id=cluster.image.cluster_id, node_id=cluster.node_id
        )
        write_meta_properties(files, f"{path}/{META_PROPERTIES}", meta)
