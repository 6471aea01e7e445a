"""Plain OffsetCommits: their offsets, and answers in which all partitions are alike.

Most requests are plain: they name a few partitions, each once, and give no times, and all their offsets are
acceptable. `plain_offsets` and `plain_answer` take fewer steps for these than `Commit` (commit.py), which
takes any request. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, TypeAlias

from kafkapy.groups.offsets.commit import CHECKED_AT_ONCE, UNSET, Offsets
from kafkapy.groups.offsets.committed_offset import (
    OFFSET_VERSION,
    encode_annotated,
    encode_plain,
    encode_plain_tail,
)
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import NONE, ErrorCode
from kafkapy.protocol.frames import response_frame
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.types import ApiKey, Part, TopicPartition, Uuid

VERSION_WITH_TIMESTAMPS: Final = 1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10

MAX_BYTES: Final = 8 << 20
"""The most bytes that the kept answers take."""

_ENTRY_BYTES: Final = 500
"""The bytes of a kept answer without its body and its partitions."""

_PARTITION_BYTES: Final = 250
"""The bytes of a partition in the key of an answer, with its topic's id, without its topic's name."""

Asked: TypeAlias = tuple[int, tuple[Uuid, ...], tuple[TopicPartition, ...]]
"""The version, the topics and the partitions of a request."""


def plain_offsets(
    request: OffsetCommitRequest, version: int, image: MetadataImage, now: int, max_metadata: int
) -> tuple[dict[Uuid, None], Offsets] | None:
    """The ids of the topics and the offsets of a plain request; None if it is not plain.

    They are in the order of the request.
    """
    if request.retention_time_ms != UNSET or version == VERSION_WITH_TIMESTAMPS:
        return None
    by_id, topics = version >= FIRST_VERSION_WITH_TOPIC_IDS, request.topics
    topic_ids: dict[Uuid, None] = {}
    offsets: Offsets = {}
    count = 0
    for asked in topics:
        partitions = asked.partitions
        count += len(partitions)
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
        if topic is None or not partitions or count > CHECKED_AT_ONCE:
            return None
        topic_ids[topic.id] = None
        named, tail = topic.named, encode_plain_tail(now, topic.id)
        for each in partitions:
            offset, leader_epoch = each.committed_offset, each.committed_leader_epoch
            key = named.get(each.partition_index) or topic.find(each.partition_index)
            if key is None:
                return None
            if not (metadata := each.committed_metadata):
                offsets[key] = encode_plain(OFFSET_VERSION, offset, leader_epoch, tail)
            elif len(metadata) <= max_metadata:
                offsets[key] = encode_annotated(offset, leader_epoch, metadata, tail)
            else:
                return None
    if not offsets or len(offsets) < count or len(topic_ids) < len(topics):
        return None
    return topic_ids, offsets


def all_alike(
    topic_ids: Iterable[Uuid], keys: Iterable[TopicPartition], error: ErrorCode
) -> OffsetCommitResponse:
    """The answer with this error for all partitions, in the order of the topics."""
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


def plain_answer(
    version: int, correlation_id: int, topic_ids: Iterable[Uuid], offsets: Offsets, error: ErrorCode
) -> OffsetCommitResponse | list[Part]:
    """The answer to a plain request with this error for all its offsets.

    If they are stored, it is encoded already.
    """
    if error:
        return all_alike(topic_ids, offsets, error)
    body = stored_answers[version, tuple(topic_ids), tuple(offsets)]
    return [response_frame(ApiKey.OFFSET_COMMIT, version, correlation_id, body)]
