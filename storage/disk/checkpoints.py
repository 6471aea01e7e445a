"""The small files that a broker reads at a restart, in Apache Kafka's formats.

In a log directory:

    recovery-point-offset-checkpoint    everything below these offsets is on disk
    log-start-offset-checkpoint         log start offsets that are not a first segment's base offset
    replication-offset-checkpoint       high watermarks
    cleaner-offset-checkpoint           everything below these offsets was compacted
    meta.properties                     cluster id, broker or node id, directory id
    .kafka_cleanshutdown                JSON with the broker epoch; says that every log was closed and synced

In a partition's directory:

    leader-epoch-checkpoint             the start offset of each leader epoch
    partition.metadata                  "version: 0\\ntopic_id: <22 characters of URL-safe base64>"

A checkpoint is text: "0\\n" (its version), "<count>\\n", then a line for each entry: "topic partition
offset\\n" or "epoch start-offset\\n".

Crash story: each is written as a temporary file, synced and renamed, and the directory is synced. So a crash
leaves the old file or the new one. A damaged file must not keep the broker from starting: reading it raises
CorruptCheckpointError, and the caller uses instead:

    recovery points       recover every log from its start
    log start offsets     the base offset of the first segment
    high watermarks       the log start offset; without other replicas, the end of the recovered log
    cleaner offsets       compact every log from its start
    meta.properties       the ids of the metadata store, and a new directory id
    .kafka_cleanshutdown  nothing, since only its existence counts
    leader epochs         the epochs in the batch headers of the log (each batch carries its own)
    partition.metadata    the topic id of the metadata store

Source: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile, MetaProperties
and CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkapy.protocol.types import TopicPartition, Uuid, uuid_from_text, uuid_to_text
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.properties import format_properties, parse_properties

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION = 0
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_BLANKS = re.compile(r"\s+", re.ASCII)


class CorruptCheckpointError(ValueError):
    """The file at `path` is not in Kafka's format.

    The caller decides what to do without it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


# --- offsets by partition -----------------------------------------------------------------------------------


def read_offsets(files: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; none if the file is missing or empty.

    Raises:
        CorruptCheckpointError: the file is damaged.
        OSError: the disk failed.
    """
    offsets: dict[TopicPartition, int] = {}
    for line in _read_entries(files, path):
        words = _BLANKS.split(line)
        if len(words) != 3:
            raise CorruptCheckpointError(path, f"malformed line {line!r}")
        partition = _number(path, words[1], 31)
        offsets[TopicPartition(sys.intern(words[0]), partition)] = _number(path, words[2], 63)
    return offsets


def write_offsets(
    files: FileSystem, path: str, offsets: Mapping[TopicPartition, int], *, durable: bool = True
) -> None:
    """Replace the offsets of `path`."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    files.write_atomically(path, _format_entries(lines), durable=durable)


# --- leader epochs ------------------------------------------------------------------------------------------


def read_leader_epochs(files: FileSystem, path: str) -> list[tuple[int, int]]:
    """(epoch, start offset) in file order; none if the file is missing or empty.

    Raises:
        CorruptCheckpointError: the file is damaged.
        OSError: the disk failed.
    """
    entries = []
    for epoch, start_offset in read_numbers(files, path, columns=2):
        if epoch >= 1 << 31:
            raise CorruptCheckpointError(path, f"{epoch} is not a leader epoch")
        entries.append((epoch, start_offset))
    return entries


def format_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """The content of a leader-epoch-checkpoint."""
    return format_numbers(entries)


# --- lines of numbers ---------------------------------------------------------------------------------------


def read_numbers(files: FileSystem, path: str, *, columns: int) -> list[tuple[int, ...]]:
    """The lines of a checkpoint with only numbers; no lines if the file is missing or empty.

    Raises:
        CorruptCheckpointError: the file is damaged.
        OSError: the disk failed.
    """
    lines: list[tuple[int, ...]] = []
    for line in _read_entries(files, path):
        words = _BLANKS.split(line)
        if len(words) != columns:
            raise CorruptCheckpointError(path, f"malformed line {line!r}")
        lines.append(tuple(_number(path, word, 63) for word in words))
    return lines


def format_numbers(lines: Iterable[Sequence[int]]) -> bytes:
    """The content of a checkpoint with only numbers."""
    return _format_entries([" ".join(map(str, line)) for line in lines])


# --- partition.metadata -------------------------------------------------------------------------------------


def read_partition_metadata(files: FileSystem, path: str) -> Uuid | None:
    """The topic id; None if the file is missing.

    Raises:
        CorruptCheckpointError: the file is damaged or names no topic id.
        OSError: the disk failed.
    """
    text = _read_text(files, path)
    if text is None:
        return None
    match = re.fullmatch(r"version:\s*([0-9]+)\r?\ntopic_id:\s*([A-Za-z0-9_-]{22})\s*", text)
    if match is None:
        raise CorruptCheckpointError(path, "not a version and a topic id")
    if match[1] != str(_VERSION):
        raise CorruptCheckpointError(path, f"unknown version {match[1]}")
    try:
        topic_id = uuid_from_text(match[2])
    except ValueError as error:
        raise CorruptCheckpointError(path, f"no topic id: {error}") from None
    if not any(topic_id):
        raise CorruptCheckpointError(path, "the topic id is zero")
    return topic_id


def write_partition_metadata(files: FileSystem, path: str, topic_id: Uuid, *, durable: bool = True) -> None:
    """Record the topic id of a partition's directory."""
    text = f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}"
    files.write_atomically(path, text.encode(), durable=durable)


# --- meta.properties ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The cluster and broker to which a log directory belongs.

    Version 0 is ZooKeeper mode (broker.id), 1 is KRaft (node.id). `others` has the keys that this class does
    not know, so that rewriting the file keeps them.
    """

    version: int = 0
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: Uuid | None = None
    others: Mapping[str, str] = field(default_factory=dict)


class UnknownVersionError(CorruptCheckpointError):
    """The version is unknown to this release, or a digit of it is damaged."""

    def __init__(self, path: str, version: int, meta: MetaProperties) -> None:
        super().__init__(path, f"unknown version {version}")
        self.meta = meta
        """The known properties of the file."""


def read_meta_properties(files: FileSystem, path: str) -> MetaProperties | None:
    """The file's content; None if it is missing.

    Raises:
        UnknownVersionError: the file has an unknown version.
        CorruptCheckpointError: the file is damaged or empty, or lacks a key that its version requires.
        OSError: the disk failed.
    """
    text = _read_text(files, path)
    if text is None:
        return None
    try:
        properties = parse_properties(text)
    except ValueError as error:
        raise CorruptCheckpointError(path, str(error)) from None
    stated = _number(path, properties.pop("version", "0"), 31)
    version = stated if stated <= 1 else int("node.id" in properties)
    node_text = properties.pop("node.id" if version else "broker.id", None)
    directory_text = properties.pop("directory.id", None)
    meta = MetaProperties(
        version=version,
        cluster_id=properties.pop("cluster.id", None),
        node_id=None if node_text is None else _number(path, node_text, 31),
        directory_id=None if directory_text is None else _uuid(path, directory_text),
        others=properties,
    )
    if stated > 1:
        raise UnknownVersionError(path, stated, meta)
    if meta.cluster_id is None and (version or meta.node_id is None):
        raise CorruptCheckpointError(path, "cluster.id is missing")
    if version and meta.node_id is None:
        raise CorruptCheckpointError(path, "node.id is missing")
    return meta


def write_meta_properties(
    files: FileSystem, path: str, meta: MetaProperties, *, durable: bool = True
) -> None:
    """Replace the file; unknown keys are kept."""
    properties = dict(meta.others)
    properties["version"] = str(meta.version)
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    if meta.node_id is not None:
        properties["node.id" if meta.version else "broker.id"] = str(meta.node_id)
    if meta.directory_id is not None:
        properties["directory.id"] = uuid_to_text(meta.directory_id)
    text = format_properties(properties, comment="", seconds=time.time())
    files.write_atomically(path, text.encode(), durable=durable)


# --- .kafka_cleanshutdown -----------------------------------------------------------------------------------


def write_clean_shutdown(files: FileSystem, path: str, broker_epoch: int, *, durable: bool = True) -> None:
    """Record that every log of the directory was closed and synced."""
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_atomically(path, content.encode(), durable=durable)


def take_clean_shutdown(files: FileSystem, path: str) -> bool:
    """Whether the last stop was clean.

    The marker is removed, and that is synced, as it does not apply to this run.

    Raises:
        OSError: the disk failed.
    """
    if not files.exists(path):
        return False
    files.unlink(path)
    files.sync_directory(path.rpartition("/")[0])
    return True


def read_clean_shutdown_epoch(files: FileSystem, path: str) -> int | None:
    """The broker epoch in the marker; None if there is no marker or it cannot be read."""
    try:
        epoch = json.loads(files.read(path))["brokerEpoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return epoch if isinstance(epoch, int) else None


# --- the format that offset and epoch checkpoints share -----------------------------------------------------


def _read_text(files: FileSystem, path: str) -> str | None:
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptCheckpointError(path, "not UTF-8 text") from None


def _read_entries(files: FileSystem, path: str) -> list[str]:
    """The lines after version and count.

    A missing or empty file has none: Kafka creates these files empty.
    """
    text = _read_text(files, path)
    if not text:
        return []
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if len(lines) < 2:
        raise CorruptCheckpointError(path, "the file is cut short")
    version, count = _number(path, lines[0], 31), _number(path, lines[1], 31)
    if version != _VERSION:
        raise CorruptCheckpointError(path, f"unknown version {version}")
    if len(lines) - 2 != count:
        raise CorruptCheckpointError(path, f"{count} entries promised, {len(lines) - 2} found")
    return lines[2:]


def _format_entries(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in [str(_VERSION), str(len(lines)), *lines]).encode()


def _number(path: str, text: str, bits: int) -> int:
    """A number of 0 to 2**bits - 1.

    int() alone also takes underscores, blanks and any script's digits.
    """
    if not _NUMBER.fullmatch(text) or not 0 <= int(text) < 1 << bits:
        raise CorruptCheckpointError(path, f"{text!r} is not a number that can stand there")
    return int(text)


def _uuid(path: str, text: str) -> Uuid:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise CorruptCheckpointError(path, f"no directory id: {error}") from None
