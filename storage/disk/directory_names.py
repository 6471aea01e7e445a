"""The names of the directories in a log directory, as Apache Kafka has them.

    TOPIC-PARTITION                 a log; the text of its TopicPartition
    TOPIC-PARTITION.HEX-future      the copy of one that is moved to another log directory
    TOPIC-PARTITION.HEX-delete      a directory that will be deleted
    TOPIC-PARTITION.HEX-stray       a log that is not that of its topic: kept, and never opened again

HEX is 32 random digits. The topic is shortened if a name of the last two kinds would be too long. The files
in such a directory are named in file_names.py.

A name counts if Apache Kafka would write it. Kafka reads more than it writes: `TOPIC-007` is a log for it,
and any word may stand for HEX. Here such a directory is left alone: a start removes what is called `-delete`.

Source: LocalLog.parseTopicPartitionName, LocalLog.logDirNameWithSuffixCappedLength.
"""

from __future__ import annotations

import os
import re
import sys
from enum import Enum
from typing import Final, NamedTuple

from kafkapy.protocol.types import TopicPartition

METADATA_FILE: Final = "metadata.db"
"""A file: this broker's own metadata, in one of its log directories."""

_NAME: Final = re.compile(
    r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})(?:\.[0-9a-f]{32}-(future|delete|stray))?"
)
_RENAMED: Final = re.compile(r"\S+-\S+\.\S+-(?:future|delete|stray)", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_INT_MAX: Final = (1 << 31) - 1
_MAX_NAME: Final = 255
_REMOTE_INDEXES: Final = "remote-log-index-cache"
"""A directory of Kafka's RemoteIndexCache."""


class DirectoryKind(Enum):
    """Why a partition's directory is there."""

    LOG = "log"
    FUTURE = "future"
    DELETED = "delete"
    STRAY = "stray"


_KINDS: Final = {kind.value: kind for kind in DirectoryKind}


class DirectoryName(NamedTuple):
    """The parts of the name of a partition's directory."""

    topic_partition: TopicPartition
    """The topic of a deleted or stray log may be shortened."""
    kind: DirectoryKind


def parse_directory_name(name: str) -> DirectoryName | None:
    """The parts of the name; None if it is not that of a partition's directory."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    topic, number, kind = match.groups("log")
    partition = int(number)
    if partition > _INT_MAX:
        return None
    return DirectoryName(TopicPartition(sys.intern(topic), partition), _KINDS[kind])


def deleted_name(topic_partition: TopicPartition) -> str:
    """A name for a directory that will be deleted."""
    return _shortened(topic_partition, DirectoryKind.DELETED)


def stray_name(topic_partition: TopicPartition) -> str:
    """A name for a log that is not that of its topic."""
    return _shortened(topic_partition, DirectoryKind.STRAY)


def future_name(topic_partition: TopicPartition) -> str | None:
    """A name for the copy of a log; None if the topic's name is too long for that."""
    name = f"{topic_partition}{_ending(DirectoryKind.FUTURE)}"
    return name if len(name) <= _MAX_NAME else None


def _shortened(topic_partition: TopicPartition, kind: DirectoryKind) -> str:
    ending = f"-{topic_partition.partition}{_ending(kind)}"
    return topic_partition.topic[: _MAX_NAME - len(ending)] + ending


def _ending(kind: DirectoryKind) -> str:
    return f".{os.urandom(16).hex()}-{kind.value}"


def stops_kafka(name: str) -> bool:
    """Whether Apache Kafka refuses to start with a directory of this name in a log directory."""
    if name == _REMOTE_INDEXES:
        return False
    if name.endswith(("-future", "-delete", "-stray")):
        if _RENAMED.fullmatch(name) is None:
            return True
        name = name.rpartition(".")[0]
    topic, _, number = name.rpartition("-")
    return not topic or _NUMBER.fullmatch(number) is None or not -_INT_MAX - 1 <= int(number) <= _INT_MAX
