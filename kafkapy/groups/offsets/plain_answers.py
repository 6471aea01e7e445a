"""Answers to plain OffsetCommits (commit.py): all their partitions have the same result."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, TypeAlias

from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import NONE, ErrorCode
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.types import TopicPartition, Uuid

MAX_BYTES: Final = 8 << 20
"""The most bytes that the kept answers take."""

_ENTRY_BYTES: Final = 500
"""The bytes of a kept answer without its body and its partitions."""

_PARTITION_BYTES: Final = 250
"""The bytes of a partition in the key of an answer, with its topic's id, without its topic's name."""

Asked: TypeAlias = tuple[int, tuple[Uuid, ...], tuple[TopicPartition, ...]]
"""The version, the topics and the partitions of a request."""


def all_alike(
    topic_ids: Iterable[Uuid], keys: Iterable[TopicPartition], error: ErrorCode
) -> OffsetCommitResponse:
    """The answer with this error for all: partitions of the first topic, then of the next."""
    response = OffsetCommitResponse()
    for topic_id, (name, of_topic) in zip(topic_ids, groupby(keys, lambda key: key.topic), strict=True):
        results = [
            OffsetCommitResponsePartition(partition_index=key.partition, error_code=error) for key in of_topic
        ]
        response.topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=results))
    return response


class StoredAnswers(dict[Asked, bytes]):
    """The encoded answers to requests whose offsets are all stored.

    They are kept, since a consumer commits offsets of the same partitions again and again. Clients choose
    these. When the answers take too many bytes, all are forgotten.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        """The bytes that the answers take, at most."""

    def __missing__(self, asked: Asked) -> bytes:
        version, topic_ids, keys = asked
        body = encode(all_alike(topic_ids, keys, NONE), version)
        nbytes = _ENTRY_BYTES + len(body) + sum(_PARTITION_BYTES + len(key.topic) for key in keys)
        if self.nbytes + nbytes > MAX_BYTES:
            self.clear()
            self.nbytes = 0
        self.nbytes += nbytes
        self[asked] = body
        return body


stored_answers: Final = StoredAnswers()
