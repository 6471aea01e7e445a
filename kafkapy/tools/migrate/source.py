"""The log directories of one stopped broker: whose they are, and their partitions.

They are named in the broker's `log.dirs`. They are locked while they are read (the lock that brokers take on
`.lock`), so that no broker starts meanwhile. A directory without `.lock` was never used by a broker, or is a
copy.

Some names are no partitions: `…-delete` (a deleted partition), `…-future` (a copy on its way to another log
directory), `…-stray` (a partition that the broker should not have), and Kafka's own `__cluster_metadata-0`.
These directories stay where they are.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from kafkapy.metadata.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition, Uuid, uuid_to_text
from kafkapy.storage.directories.siblings import DIRECTORY_KEY
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
from kafkapy.storage.disk.files import File, FileSystem, release_all
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.offline.data_directory import METADATA_FILE
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.migration_error import MigrationError

CLUSTER_METADATA: Final = f"{CLUSTER_METADATA_TOPIC}-0"

PARTIAL_SUFFIX: Final = ".partial"
"""What is being written, or was when a run was killed."""

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_OTHER = re.compile(r"\S+-\S+\.\S+-(delete|future|stray)")


class PartitionFolder(NamedTuple):
    """The directory of a partition."""

    topic_partition: TopicPartition
    path: str
    directory: int
    """Which of the log directories it lies in."""
    topic_id: Uuid | None
    leader_epoch: int
    """The latest that wrote to it, -1 where none is noted."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory."""

    path: str
    meta: MetaProperties
    clean: bool
    """Its broker stopped in order."""
    recovery_points: dict[TopicPartition, int]
    unknown: tuple[str, ...]
    """Directories in it that Apache Kafka would not know what to do with."""

    @property
    def identity(self) -> MetaProperties:
        """Its `meta.properties` without the paths of the other log directories.

        They may be elsewhere when the directory was moved.
        """
        others = self.meta.others.items()
        kept = {key: value for key, value in others if not key.startswith(DIRECTORY_KEY)}
        return replace(self.meta, others=kept)


class Source:
    """Log directories, locked until `close`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Lock and read them.

        Raises:
            MigrationError: one is not there, in use, damaged, or not that of a broker.
        """
        self.files = ReadOnlyFiles()
        self._locks: list[File] = []
        self.folders: dict[TopicPartition, PartitionFolder] = {}
        self.log_dirs: list[LogDir] = []
        try:
            for index, path in enumerate(paths):
                self._read(index, str(path.absolute()))
            self._check_identity()
            self._check_siblings()
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
        """The broker stopped in order."""
        return all(each.clean for each in self.log_dirs)

    @property
    def is_kafkapy(self) -> bool:
        """It is this broker's: its metadata lies in it."""
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
        """The partitions by topic and number."""
        topics: dict[str, dict[int, PartitionFolder]] = {}
        for (topic, partition), folder in sorted(self.folders.items()):
            topics.setdefault(topic, {})[partition] = folder
        return topics

    def close(self) -> None:
        """Let a broker use the directories."""
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
            raise MigrationError(f"It cannot be told whose directory this is: {error}.") from None
        if meta is None:
            raise MigrationError(
                f"{path} has no {META_PROPERTIES}: name the data directory of a broker (its log.dirs)."
            )
        try:
            recovery_points = read_offsets(self.files, f"{path}/{RECOVERY_POINTS}")
        except CorruptCheckpointError:
            recovery_points = {}  # as brokers do, which then look at all of each log
        unknown = []
        for entry in entries:
            if not entry.is_dir() or _OTHER.fullmatch(entry.name):
                continue
            match = _PARTITION.fullmatch(entry.name)
            if match is None and not entry.name.endswith(PARTIAL_SUFFIX):
                unknown.append(entry.name)
            elif match is not None and match[1] != CLUSTER_METADATA_TOPIC:
                self._add(index, TopicPartition(match[1], int(match[2])), entry.path)
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

    def _check_siblings(self) -> None:
        """All log directories must be named that this broker had at its last start (siblings.py)."""
        present = {uuid_to_text(each.meta.directory_id) for each in self.log_dirs if each.meta.directory_id}
        for log_dir in self.log_dirs:
            for key, path in log_dir.meta.others.items():
                if key.startswith(DIRECTORY_KEY) and key.removeprefix(DIRECTORY_KEY) not in present:
                    raise MigrationError(
                        f"{path} is missing, which this broker had as a log directory at its last start: "
                        "name all of its log.dirs, separated by commas. To give up what is in it, remove "
                        f"{key} from {log_dir.path}/{META_PROPERTIES}."
                    )

    def _check_identity(self) -> None:
        for what, ids in (
            ("cluster", {each.meta.cluster_id for each in self.log_dirs}),
            ("broker", {each.meta.node_id for each in self.log_dirs}),
        ):
            known = sorted(str(each) for each in ids if each is not None)
            if len(known) > 1:
                raise MigrationError(
                    f"The directories belong to {what} {' and '.join(known)}: name those of one broker."
                )
        if self.node_id < 0:
            raise MigrationError(
                f"{self.log_dirs[0].path}/{META_PROPERTIES} names no broker id: write it there."
            )
