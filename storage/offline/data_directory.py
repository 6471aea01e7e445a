"""The partitions in a broker's log directories, and what their checkpoints say.

The meaning of a checkpoint depends on the program that wrote it, and on the time:

- `replication-offset-checkpoint` has the high watermarks. A broker writes it every 5 seconds while it runs
  (replica.high.watermark.checkpoint.interval.ms) and at a clean stop, so it may be out of date after a crash
  and while a broker is running. A log of Apache Kafka is read up to its high watermark, since other replicas
  may lack the records above it. A kafkapy broker that keeps its metadata in its own directory (`metadata.db`)
  is the only replica: nothing truncates its log, and it serves all of it after a restart. So its logs are
  read up to the log end offset. A log without a line in the file is read to its end too: its topic may be
  newer than the checkpoint.
- `log-start-offset-checkpoint` has the log start offsets that DeleteRecords raised. A running broker writes
  it every minute; what was deleted since then is still read.
- `recovery-point-offset-checkpoint` has the offsets up to which logs are known to be on disk: bad bytes below
  such an offset are damage, not the end of the log.
- `.kafka_cleanshutdown` exists only after a clean stop: then all checkpoints are exact.

A copied directory is read like one whose broker crashed. If the copy has no
`replication-offset-checkpoint`, its logs are read to their ends.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
)
from kafkapy.storage.disk.directory_names import METADATA_FILE, DirectoryKind, parse_directory_name
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_MANY = 5


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A partition's directory, and what the checkpoints say about it."""

    topic_partition: TopicPartition
    path: str
    high_watermark: int | None
    """Where readers must stop; None if that is the end of the log."""
    log_start_offset: int
    promised: int
    """The offset below which everything was on disk."""
    clean: bool
    """Whether the broker stopped cleanly and none has started since."""


def find_partitions(
    files: ReadOnlyFiles, paths: Iterable[str], topics: Iterable[str]
) -> list[PartitionDirectory]:
    """Return the partitions of the topics, in order of topic and partition.

    Raises:
        LogSourceError: a directory or a topic does not exist or cannot be read.
    """
    paths = list(paths)
    found = _found(files, paths)
    known = {topic for topic, _ in found}
    wanted = set(topics)
    for topic in sorted(wanted - known):
        raise LogSourceError(_missing_topic(topic, known, ", ".join(paths)))
    return [found[each] for each in sorted(found) if each.topic in wanted]


def find_matching(
    files: ReadOnlyFiles, paths: Iterable[str], matches: Callable[[str], object]
) -> list[PartitionDirectory]:
    """Return the partitions of all topics whose name `matches`, in the same order.

    Raises:
        LogSourceError: a directory does not exist or cannot be read.
    """
    found = _found(files, paths)
    wanted = {topic for topic in {each.topic for each in found} if matches(topic)}
    return [found[each] for each in sorted(found) if each.topic in wanted]


def _found(files: ReadOnlyFiles, paths: Iterable[str]) -> dict[TopicPartition, PartitionDirectory]:
    found: dict[TopicPartition, PartitionDirectory] = {}
    for path in paths:
        for partition in _scan(files, path):
            other = found.setdefault(partition.topic_partition, partition)
            if other is not partition:
                raise LogSourceError(
                    f"{partition.topic_partition} is in both {other.path} and {partition.path}: remove the "
                    f"one that is out of date, or name only one of the directories."
                )
    return found


def _scan(files: ReadOnlyFiles, path: str) -> list[PartitionDirectory]:
    try:
        names = [entry.name for entry in files.scan(path) if entry.is_dir()]
        starts = _checkpoint(files, path, LOG_START_OFFSETS)
        watermarks = _checkpoint(files, path, HIGH_WATERMARKS)
        recovery_points = _checkpoint(files, path, RECOVERY_POINTS)
        clean = files.exists(f"{path}/{CLEAN_SHUTDOWN}")
        alone = files.exists(f"{path}/{METADATA_FILE}")
    except OSError as error:
        raise LogSourceError(why_unreadable(path, error)) from None
    partitions = []
    for name in names:
        parsed = parse_directory_name(name)
        if parsed is None or parsed.kind is not DirectoryKind.LOG:
            continue
        each = parsed.topic_partition
        watermark = watermarks.get(each)
        partitions.append(
            PartitionDirectory(
                topic_partition=each,
                path=f"{path}/{name}",
                high_watermark=None if alone else watermark,
                log_start_offset=starts.get(each, 0),
                promised=max(recovery_points.get(each, 0), watermark or 0),
                clean=clean,
            )
        )
    return partitions


def _checkpoint(files: ReadOnlyFiles, path: str, name: str) -> Mapping[TopicPartition, int]:
    try:
        return read_offsets(files, f"{path}/{name}")
    except CorruptCheckpointError:
        return {}  # a broker works without it too


def why_unreadable(path: str, error: OSError) -> str:
    """Say in one line why a directory cannot be listed."""
    if error.errno == errno.ENOENT:
        return f"There is no directory {path}: name the data directory of a broker."
    if error.errno == errno.ENOTDIR:
        return f"{path} is not a directory: name the data directory of a broker."
    return f"{path} cannot be read: {error.strerror or error}."


def _missing_topic(topic: str, known: set[str], path: str) -> str:
    """Return one line that suggests similar topics or lists those that exist."""
    names = difflib.get_close_matches(topic, sorted(known), n=_MANY)
    if names:
        return f"There is no topic {topic} in {path}; did you mean {' or '.join(names)}?"
    topics = sorted(name for name in known if not name.startswith("__"))
    if not topics:
        return f"There is no topic {topic} in {path}, nor any other: name the data directory of a broker."
    more = f" and {len(topics) - _MANY} more" if len(topics) > _MANY else ""
    return f"There is no topic {topic} in {path}; there are {', '.join(topics[:_MANY])}{more}."
