"""The log directories of one stopped broker: their identity and their partitions.

While they are read, they are locked with the lock that brokers take on `.lock`, so that no broker starts. A
directory without `.lock` was never used by a broker, or is a copy.

Some directories are not partitions: `…-delete` (a deleted log), `…-future` (a future log), `…-stray` (a log
that was set aside), and Kafka's own `__cluster_metadata-0`. They are neither exported nor imported.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from kafkapy.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition, Uuid, uuid_to_text
from kafkapy.storage.directories.identity import DIRECTORY_KEY, SHARED_KEY
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    MetaProperties,
    read_leader_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
)
from kafkapy.storage.disk.directory_names import (
    METADATA_FILE,
    DirectoryKind,
    parse_directory_name,
    stops_kafka,
)
from kafkapy.storage.disk.files import File, FileSystem, release_all
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.migration_error import MigrationError

CLUSTER_METADATA: Final = f"{CLUSTER_METADATA_TOPIC}-0"

PARTIAL_SUFFIX: Final = ".partial"
"""The suffix of what is being written; it stays if the run is killed."""


class PartitionFolder(NamedTuple):
    """The directory of a partition."""

    topic_partition: TopicPartition
    path: str
    directory: int
    """The index of its log directory."""
    topic_id: Uuid | None
    leader_epoch: int
    """The latest leader epoch in its checkpoint, -1 if there is none."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory."""

    path: str
    meta: MetaProperties
    clean: bool
    """Whether its broker was stopped cleanly."""
    recovery_points: dict[TopicPartition, int]
    unknown: tuple[str, ...]
    """The names of directories in it with which Apache Kafka does not start."""

    @property
    def identity(self) -> MetaProperties:
        """Its `meta.properties` without what a copy need not have.

        These are the paths of the other log directories, and the mark of a cluster's broker.
        """
        others = self.meta.others.items()
        kept = {
            key: value for key, value in others if not key.startswith(DIRECTORY_KEY) and key != SHARED_KEY
        }
        return replace(self.meta, others=kept)


class Source:
    """The log directories, locked until `close`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Lock and read the directories.

        Raises:
            MigrationError: a directory is missing, in use, damaged, or not a data directory of a broker.
        """
        self.files = ReadOnlyFiles()
        self._locks: list[File] = []
        self.folders: dict[TopicPartition, PartitionFolder] = {}
        self.log_dirs: list[LogDir] = []
        try:
            for index, path in enumerate(paths):
                self._read(index, str(path.absolute()))
            self._check_identity()
            self._check_all_are_named()
        except OSError as error:
            self.close()
            raise MigrationError(f"{error.filename or paths[0]} cannot be read: {error.strerror}.") from None
        except BaseException:
            self.close()
            raise

    @property
    def cluster_id(self) -> str | None:
        return next((each.meta.cluster_id for each in self.log_dirs if each.meta.cluster_id), None)

    @property
    def node_id(self) -> int:
        return next((each.meta.node_id for each in self.log_dirs if each.meta.node_id is not None), -1)

    @property
    def clean(self) -> bool:
        """Whether the broker was stopped cleanly."""
        return all(each.clean for each in self.log_dirs)

    @property
    def is_kafkapy(self) -> bool:
        """Whether it is a data directory of this broker, with its metadata."""
        return self.metadata_file is not None

    @property
    def metadata_file(self) -> str | None:
        paths = [f"{each.path}/{METADATA_FILE}" for each in self.log_dirs]
        return next((path for path in paths if self.files.exists(path)), None)

    @property
    def cluster_metadata(self) -> str | None:
        """The directory of Kafka's KRaft metadata, if there is one."""
        paths = [f"{each.path}/{CLUSTER_METADATA}" for each in self.log_dirs]
        return next((path for path in paths if self.files.exists(path)), None)

    def topics(self) -> dict[str, dict[int, PartitionFolder]]:
        """Return the partitions by topic and number."""
        topics: dict[str, dict[int, PartitionFolder]] = {}
        for (topic, partition), folder in sorted(self.folders.items()):
            topics.setdefault(topic, {})[partition] = folder
        return topics

    def close(self) -> None:
        """Release the locks."""
        release_all(self._locks)
        self._locks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, index: int, path: str) -> None:
        self._lock(path)
        try:
            entries = self.files.scan(path)
        except (FileNotFoundError, NotADirectoryError):
            raise MigrationError(
                f"There is no directory {path}: name the data directory of a broker."
            ) from None
        try:
            meta = read_meta_properties(self.files, f"{path}/{META_PROPERTIES}")
        except CorruptCheckpointError as error:
            raise MigrationError(f"The owner of this directory is unknown: {error}.") from None
        if meta is None:
            raise MigrationError(
                f"{path} has no {META_PROPERTIES}: name the data directory of a broker (its log.dirs)."
            )
        try:
            recovery_points = read_offsets(self.files, f"{path}/{RECOVERY_POINTS}")
        except CorruptCheckpointError:
            recovery_points = {}  # brokers do so too, and recover each log from its start
        unknown = []
        for entry in entries:
            if not entry.is_dir():
                continue
            name = parse_directory_name(entry.name)
            if name is None:
                if stops_kafka(entry.name) and not entry.name.endswith(PARTIAL_SUFFIX):
                    unknown.append(entry.name)
            elif name.kind is DirectoryKind.LOG and name.topic_partition.topic != CLUSTER_METADATA_TOPIC:
                self._add(index, name.topic_partition, entry.path)
        clean = self.files.exists(f"{path}/{CLEAN_SHUTDOWN}")
        self.log_dirs.append(LogDir(path, meta, clean, recovery_points, tuple(unknown)))

    def _lock(self, path: str) -> None:
        lock = f"{path}/{LOCK_FILE}"
        if not self.files.exists(lock):
            return
        try:
            self._locks.append(FileSystem().lock(lock))
        except BlockingIOError:
            raise MigrationError(
                f"{path} is in use by a broker (its {LOCK_FILE} is locked): stop the broker first."
            ) from None
        except PermissionError:
            raise MigrationError(f"{lock} cannot be opened: run this as the user who owns it.") from None
        except OSError as error:
            if error.errno != errno.EROFS:  # on a read-only file system no broker runs
                raise

    def _add(self, index: int, topic_partition: TopicPartition, path: str) -> None:
        try:
            topic_id = read_partition_metadata(self.files, f"{path}/{PARTITION_METADATA}")
        except CorruptCheckpointError:
            topic_id = None
        try:
            epochs = read_leader_epochs(self.files, f"{path}/{LEADER_EPOCHS}")
        except CorruptCheckpointError:
            epochs = []
        epoch = max((epoch for epoch, _ in epochs), default=-1)
        folder = PartitionFolder(topic_partition, path, index, topic_id, epoch)
        other = self.folders.setdefault(topic_partition, folder)
        if other is not folder:
            raise MigrationError(
                f"{topic_partition} is in both {other.path} and {path}: remove the one that is out of date."
            )

    def _check_all_are_named(self) -> None:
        """Refuse a source that lacks a log directory of the broker's last start (identity.py)."""
        present = {uuid_to_text(each.meta.directory_id) for each in self.log_dirs if each.meta.directory_id}
        for log_dir in self.log_dirs:
            for key, path in log_dir.meta.others.items():
                if key.startswith(DIRECTORY_KEY) and key.removeprefix(DIRECTORY_KEY) not in present:
                    raise MigrationError(
                        f"{path} is missing, but was a log directory of this broker at its last start: name "
                        "all of its log.dirs, separated by commas. To continue without the partitions in it, "
                        f"remove {key} from {log_dir.path}/{META_PROPERTIES}."
                    )

    def _check_identity(self) -> None:
        for what, ids in (
            ("cluster", {each.meta.cluster_id for each in self.log_dirs}),
            ("broker", {each.meta.node_id for each in self.log_dirs}),
        ):
            known = sorted(str(each) for each in ids if each is not None)
            if len(known) > 1:
                raise MigrationError(
                    f"The directories belong to {what} {' and '.join(known)}: name those of one broker only."
                )
        if self.node_id < 0:
            raise MigrationError(
                f"{self.log_dirs[0].path}/{META_PROPERTIES} has no broker id: add broker.id to it."
            )
