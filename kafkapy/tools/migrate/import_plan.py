"""The plan of an import: the topics of which every partition is there.

Kafka's metadata says which topics there are. Without metadata, the names of the directories do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.znodes import UNKNOWN_PRODUCER_IDS
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid, random_uuid, uuid_to_text
from kafkapy.storage.disk.file_names import find_logs
from kafkapy.tools.migrate.checkpoint_files import cleaner_offsets
from kafkapy.tools.migrate.cluster import Cluster, KnownCluster, KnownPartition, KnownTopic
from kafkapy.tools.migrate.compaction_gaps import end_of_last_gap
from kafkapy.tools.migrate.internal_topics import InternalTopics, highest_producer_id, read_internal_topics
from kafkapy.tools.migrate.migration_error import MigrationError, some_of
from kafkapy.tools.migrate.old_segments import begins_with_message
from kafkapy.tools.migrate.settings import (
    broker_settings,
    client_metrics_settings,
    group_settings,
    topic_settings,
    unknown_settings,
)
from kafkapy.tools.migrate.source import PartitionFolder, Source


@dataclass(slots=True)
class ImportPlan:
    """The topics, groups and settings to import."""

    cluster: Cluster
    folders: list[PartitionFolder]
    internal: InternalTopics
    described_by: str | None
    """Where the metadata was found, in words; None if there is none."""
    recovery_points: list[dict[TopicPartition, int]]
    """The recovery points to raise, for each log directory (compaction_gaps.py)."""
    old: list[PartitionFolder]
    """The `folders` with messages to convert into record batches (old_segments.py)."""
    not_carried: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def plan_import(source: Source, known: KnownCluster | None, *, in_place: bool = False) -> ImportPlan:
    """Plan the import of `source`.

    Args:
        known: what Kafka's metadata says; None if there is none.

    Raises:
        MigrationError: the metadata may be incomplete, and does not know a directory.
        OSError: the disk failed.
    """
    chooser = _Chooser(source, in_place=in_place)
    if known is None:
        chooser.choose_by_directories()
    else:
        chooser.choose_known(known)
    internal = read_internal_topics(source.files, chooser.folders)
    next_producer_id = known.next_producer_id if known else _unused_producer_id(source, chooser, internal)
    image = MetadataImage(
        cluster_id=source.cluster_id or uuid_to_text(random_uuid()),
    ).with_topics(chooser.topics)
    if known is not None:
        image = replace(
            image,
            broker_configs=broker_settings(known.broker_configs, source.node_id, chooser.not_carried),
            group_configs=group_settings(known.group_configs, chooser.not_carried),
            client_metrics_configs=client_metrics_settings(known.client_metrics_configs, chooser.not_carried),
            client_quotas=known.client_quotas,
            acls=known.acls,
            delegation_tokens=known.delegation_tokens,
            salt_secret=known.salt_secret,
        )
    return ImportPlan(
        Cluster(source.node_id, image, next_producer_id),
        chooser.folders,
        internal,
        None if known is None else known.described_by,
        _recovery_points(source, [each for each in chooser.folders if each not in chooser.old]),
        chooser.old,
        chooser.not_carried + ([] if known is None else known.not_carried),
        chooser.remarks,
    )


def _unused_producer_id(source: Source, chooser: _Chooser, internal: InternalTopics) -> int:
    highest = internal.highest_producer_id
    for folder in chooser.folders:
        highest = max(highest, highest_producer_id(source.files, folder.path))
    return 0 if highest < 0 else highest + 1 + UNKNOWN_PRODUCER_IDS


def _recovery_points(source: Source, folders: list[PartitionFolder]) -> list[dict[TopicPartition, int]]:
    points: list[dict[TopicPartition, int]] = [{} for _ in source.log_dirs]
    cleaned = [cleaner_offsets(source.files, log_dir) for log_dir in source.log_dirs]
    for folder in folders:
        log_dir, topic_partition = source.log_dirs[folder.directory], folder.topic_partition
        if not log_dir.clean:
            offset = cleaned[folder.directory].get(topic_partition, 0)
            known = max(log_dir.recovery_points.get(topic_partition, 0), offset)
            point = end_of_last_gap(source.files, folder.path, known)
            if point > known:
                points[folder.directory][topic_partition] = point
    return points


class _Chooser:
    """Chooses the topics to import."""

    def __init__(self, source: Source, *, in_place: bool) -> None:
        self._source = source
        self._in_place = in_place
        self._node_id = source.node_id
        self._directory_ids = {each.meta.directory_id for each in source.log_dirs}
        self.topics: list[Topic] = []
        self.folders: list[PartitionFolder] = []
        self.old: list[PartitionFolder] = []
        """The folders to convert (old_segments.py)."""
        self.not_carried: list[str] = []
        self.remarks: list[str] = []

    def choose_by_directories(self) -> None:
        """Choose the topics in the names of the directories."""
        compacted = {
            each.topic
            for log_dir in self._source.log_dirs
            for each in cleaner_offsets(self._source.files, log_dir)
        }
        for name, folders in self._source.topics().items():
            ids = {folder.topic_id for folder in folders.values() if folder.topic_id is not None}
            if sorted(folders) != list(range(len(folders))):
                self._leave(name, f"only partitions {_numbers(folders)} are here")
            elif len(ids) > 1:
                self._leave(name, "its partitions have different topic ids")
            else:
                topic_id = ids.pop() if ids else random_uuid()
                self._take(name, topic_id, folders, {}, len(folders), unknown_settings(name, compacted))

    def choose_known(self, known: KnownCluster) -> None:
        """Choose the topics in Kafka's metadata.

        Raises:
            MigrationError: the metadata may be incomplete, and does not know a directory.
        """
        if known.doubt is not None:
            self._doubt(known.doubt, known)
        here = self._source.topics()
        for name, topic in sorted(known.topics.items()):
            folders = here.pop(name, {})
            strays = [n for n, folder in folders.items() if folder.topic_id not in (None, topic.id)]
            for number in strays:
                self.not_carried.append(
                    f"{folders.pop(number).path}: it belongs to another topic with the name {name}"
                )
            for number in sorted(folders.keys() - topic.partitions.keys()):
                self.not_carried.append(
                    f"{folders.pop(number).path}: the metadata does not know this partition"
                )
            self._choose(topic, folders)
        for name in here:
            self._leave(name, "it was deleted: the metadata does not know it")

    def _doubt(self, doubt: str, known: KnownCluster) -> None:
        """Refuse partitions that the metadata does not know; `doubt` says why it may be incomplete.

        Kafka makes a partition's directory after the metadata about the partition is on disk. So if the
        metadata does not know a partition, the topic was deleted, or damage has removed the metadata.

        Raises:
            MigrationError: there are such partitions.
        """
        unknown = []
        for topic_partition, folder in sorted(self._source.folders.items()):
            topic = known.topics.get(topic_partition.topic)
            if (
                topic is None
                or folder.topic_id not in (None, topic.id)
                or topic_partition.partition not in topic.partitions
            ):
                unknown.append(str(topic_partition))
        if unknown:
            raise MigrationError(
                f"{doubt}, and the metadata does not know {some_of(unknown)}: records about them may be "
                "missing there. Restore the metadata from a copy. If the topics were deleted, move these "
                "directories away instead."
            )

    def _choose(self, topic: KnownTopic, folders: Mapping[int, PartitionFolder]) -> None:
        missing = [
            number
            for number, partition in topic.partitions.items()
            if number not in folders and not self._is_new(partition)
        ]
        if len(missing) == len(topic.partitions):
            self._leave(topic.name, "it is on other brokers, or in a directory that was not named")
        elif missing:
            self._leave(
                topic.name,
                f"partitions {_numbers(missing)} are on other brokers, or in a directory that was not named",
            )
        else:
            new = sorted(topic.partitions.keys() - folders.keys())
            if new:
                self.remarks.append(
                    f"{topic.name}: these partitions have no directory, and will be empty: {_numbers(new)}. "
                    "If they had records, restore their directories and import again"
                )
            configs = topic_settings(topic.name, topic.configs, self.not_carried)
            count = len(topic.partitions)
            self._take(topic.name, topic.id, folders, topic.partitions, count, configs)

    def _is_new(self, partition: KnownPartition) -> bool:
        """Return whether a partition without a directory is this broker's, and thus empty."""
        if self._node_id not in partition.replicas or not partition.directories:
            return False
        directory = partition.directories[partition.replicas.index(self._node_id)]
        return directory == ZERO_UUID or directory in self._directory_ids

    def _has_messages(self, folder: PartitionFolder) -> bool:
        """Return whether a segment holds messages in a format from before Kafka 0.11."""
        files = self._source.files
        logs = find_logs(entry.name for entry in files.scan(folder.path))
        return any(begins_with_message(files, f"{folder.path}/{name}") for _, name in logs)

    def _take(
        self,
        name: str,
        topic_id: Uuid,
        folders: Mapping[int, PartitionFolder],
        known: Mapping[int, KnownPartition],
        count: int,
        configs: dict[str, str],
    ) -> None:
        old = [folder for folder in folders.values() if self._has_messages(folder)]
        if old and self._in_place:
            self._leave(
                name, "it has messages in format v0 or v1; an import into a new directory converts them"
            )
            return
        if old:
            self.remarks.append(
                f"{name}: messages in format v0 or v1 become record batches; their offsets stay"
            )
            self.old += old
        states = []
        for number in range(count):
            epoch = folders[number].leader_epoch if number in folders else -1
            if number in known:
                epoch = max(epoch, known[number].leader_epoch)
                if self._node_id not in known[number].in_sync:
                    self.remarks.append(
                        f"{name}-{number}: this broker was not an in-sync replica, and may lack the last "
                        "records"
                    )
            states.append(PartitionState(self._node_id, max(epoch, 0), (self._node_id,), (self._node_id,)))
        self.topics.append(Topic(name, topic_id, tuple(states), configs))
        self.folders += folders.values()

    def _leave(self, name: str, why: str) -> None:
        self.not_carried.append(f"topic {name}: {why}")


def _numbers(numbers: Mapping[int, object] | list[int]) -> str:
    return some_of([str(number) for number in sorted(numbers)])
