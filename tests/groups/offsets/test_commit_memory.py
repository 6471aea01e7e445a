"""What is kept of the partitions that clients commit has a bound in bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from kafkapy.groups.offsets.plain_commit import MAX_BYTES, StoredAnswers, all_alike, plain_offsets
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.types import TopicPartition

EXISTS = PartitionState(1, 0, (1,), (1,))
PARTITIONS = 100
VERSION = 9


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_an_answer_is_kept_as_the_codec_makes_it() -> None:
    answers, keys = StoredAnswers(), (TopicPartition("t", 1), TopicPartition("u", 2))
    ids = (b"t" * 16, b"u" * 16)
    encoded = encode(all_alike(ids, keys, ErrorCode.NONE), VERSION)
    assert answers[VERSION, ids, keys] == encoded
    assert answers[VERSION, ids, keys] is answers[VERSION, ids, keys]


@pytest.mark.usefixtures("traced")
def test_answers_to_different_commits_take_so_many_bytes_at_most() -> None:
    answers, at_most = StoredAnswers(), 0
    for number in range(300):
        names = [f"{number} {index}".ljust(249) for index in range(PARTITIONS)]
        ids = tuple(name[-16:].encode() for name in names)
        _ = answers[VERSION, ids, tuple(TopicPartition(name, 1000 + number) for name in names)]
        del names, ids
        at_most = max(at_most, tracemalloc.get_traced_memory()[0])
    assert MAX_BYTES / 2 < at_most < MAX_BYTES * 1.1


@pytest.mark.usefixtures("traced")
def test_nothing_is_kept_of_partitions_whose_topic_is_gone() -> None:
    asked = [OffsetCommitRequestPartition(partition_index=index) for index in range(PARTITIONS)]
    before = tracemalloc.get_traced_memory()[0]
    for number in range(200):
        topic = Topic(f"t{number}", number.to_bytes(16, "big"), (EXISTS,) * 5_000)
        image = MetadataImage().with_topics([topic])
        request = OffsetCommitRequest(
            topics=[OffsetCommitRequestTopic(name=topic.name, partitions=asked)], retention_time_ms=-1
        )
        plain = plain_offsets(request, VERSION, image, 0, 0)
        assert plain is not None
        assert len(plain[1]) == PARTITIONS
        del topic, image, plain
    assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
