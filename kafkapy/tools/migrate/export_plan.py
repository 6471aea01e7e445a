"""The plan of an export: the topics in the metadata and their partitions' directories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kafkapy.metadata.znodes import UNKNOWN_PRODUCER_IDS
from kafkapy.protocol.types import TopicPartition, Uuid, random_uuid
from kafkapy.storage.damage.damage import load_damage
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.cluster import Cluster
from kafkapy.tools.migrate.internal_topics import highest_producer_id
from kafkapy.tools.migrate.metadata_file import read_metadata
from kafkapy.tools.migrate.migration_error import MigrationError, some_of
from kafkapy.tools.migrate.settings import exported_image
from kafkapy.tools.migrate.source import PartitionFolder, Source

EXPORTED_SUFFIX: Final = ".exported"
"""The suffix that metadata.db gets when its directory was exported in place."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The topics to export, and the log directory of each."""

    cluster: Cluster
    folders: list[PartitionFolder]
    topic_ids: dict[TopicPartition, Uuid]
    directory_ids: list[Uuid]
    """The ids of the log directories; those without one get a new id."""
    left: list[str]
    """Partition directories that are not exported, because no topic has these partitions."""
    damaged: list[str]
    """Partitions with damaged offsets, in words (storage/damage/damage.py)."""
    not_carried: list[str]
    """The losses with Apache Kafka 3.9, in words."""

    def directories(self) -> dict[TopicPartition, Uuid]:
        """Return the id of the log directory of each partition."""
        return {folder.topic_partition: self.directory_ids[folder.directory] for folder in self.folders}


def plan_export(source: Source, files: FileSystem, scratch: str, *, zookeeper: bool) -> ExportPlan:
    """Plan the export of `source` to a Kafka with or without ZooKeeper.

    Args:
        scratch: a directory for a temporary copy of the metadata.

    Raises:
        MigrationError: the source is not a data directory of this broker, is damaged, or is not complete.
        OSError: the disk failed.
    """
    metadata = source.metadata_file
    if metadata is None:
        raise _not_ours(source, files)
    cluster = read_metadata(files, metadata, scratch, source.node_id)
    not_carried: list[str] = []
    image = exported_image(cluster.image, not_carried, zookeeper=zookeeper)
    cluster = replace(cluster, image=image)
    topic_ids = {
        TopicPartition(topic.name, index): topic.id
        for topic in cluster.image.topics.values()
        for index in range(len(topic.partitions))
    }
    folders, left = [], []
    for topic_partition, folder in sorted(source.folders.items()):
        topic_id = topic_ids.get(topic_partition)
        if topic_id is not None and folder.topic_id in (None, topic_id):
            folders.append(folder)
        else:
            left.append(folder.path)
    absent = sorted(topic_ids.keys() - {folder.topic_partition for folder in folders})
    if absent:
        raise MigrationError(
            f"{some_of([str(each) for each in absent])}: the partition's directory is missing. Name all of "
            "the broker's log.dirs, or restore the directory. If it never existed, start the broker once: it "
            "creates the directory."
        )
    if not cluster.next_producer_id:
        # If Apache Kafka wrote these logs, they may hold producer ids that this broker did not give out.
        highest = max((highest_producer_id(source.files, each.path) for each in folders), default=-1)
        if highest >= 0:
            cluster = replace(cluster, next_producer_id=highest + 1 + UNKNOWN_PRODUCER_IDS)
    ids = [each.meta.directory_id or random_uuid() for each in source.log_dirs]
    damaged = [
        f"{folder.topic_partition} offsets {each.first_offset} to {each.end_offset - 1}"
        for folder in folders
        for ranges in load_damage(files, folder.path).values()
        for each in ranges
    ]
    return ExportPlan(cluster, folders, topic_ids, ids, left, damaged, not_carried)


def _not_ours(source: Source, files: FileSystem) -> MigrationError:
    said = f"{source.log_dirs[0].path} has no {METADATA_FILE}: it"
    exported = [files.exists(f"{each.path}/{METADATA_FILE}{EXPORTED_SUFFIX}") for each in source.log_dirs]
    if any(exported) or source.cluster_metadata is not None:
        return MigrationError(f"{said} is already a data directory of Apache Kafka.")
    if source.folders:
        return MigrationError(
            f"{said} is either one of several log.dirs of kafkapy (then name all of them, separated by "
            "commas), or already a data directory of Apache Kafka."
        )
    return MigrationError(f"{said} is not a data directory of kafkapy.")
