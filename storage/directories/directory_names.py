"""The names of partitions' directories in a log directory, as Apache Kafka has them.

    TOPIC-PARTITION                 a log
    TOPIC-PARTITION.HEX-future      the copy of one that is moved to another log directory
    TOPIC-PARTITION.HEX-delete      what is to be deleted
    TOPIC-PARTITION.HEX-stray       a log that is not that of its topic: kept, and never opened again

HEX is 32 random digits. The topic is shortened if a name of the last two kinds would be too long.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from kafkapy.protocol.types import TopicPartition

LOG_NAME: Final = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})(?P<future>\.[0-9a-f]{32}-future)?"
)
DELETED_NAME: Final = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-delete")
_MAX_NAME: Final = 255


def deleted_name(topic_partition: TopicPartition) -> str:
    """A name for what is to be deleted."""
    return _name(topic_partition, "delete")


def stray_name(topic_partition: TopicPartition) -> str:
    """A name for a log that is not that of its topic."""
    return _name(topic_partition, "stray")


def _name(topic_partition: TopicPartition, kind: str) -> str:
    suffix = f"-{topic_partition.partition}.{uuid.uuid4().hex}-{kind}"
    return topic_partition.topic[: _MAX_NAME - len(suffix)] + suffix
