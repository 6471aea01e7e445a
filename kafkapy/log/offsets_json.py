"""Offsets by partition in JSON, as Spark's Kafka source has them: {"topic": {"0": 17}}."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kafkapy.protocol.special_timestamps import EARLIEST
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.offline.offline_error import LogSourceError


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """Return the offsets by partition in JSON such as {"topic": {"0": 17}}.

    Raises:
        LogSourceError: the text is something else.
    """
    try:
        return offsets_from(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise LogSourceError(
            f"{name} is {text!r}: it must be earliest, latest or JSON such as "
            f'{{"topic": {{"0": 17, "1": -2}}}}.'
        ) from None


def offsets_from(topics: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Return the offsets by partition in the form of `offsets_to`."""
    offsets = {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
    if any(type(offset) is not int or offset < EARLIEST for offset in offsets.values()):
        raise ValueError("an impossible offset")
    return offsets


def offsets_to(offsets: Iterable[tuple[TopicPartition, int]]) -> dict[str, dict[str, int]]:
    """Return the form in which Spark's Kafka source keeps offsets in a checkpoint."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics
