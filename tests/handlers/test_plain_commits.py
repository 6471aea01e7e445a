"""Plain commits of offsets are stored and answered as others are, in fewer steps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

import kafkapy
from kafkapy.handlers import offset_commit
from kafkapy.loop.clock import Clock
from kafkapy.metadata.image import NO_LEADER, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.types import TopicPartition, Uuid
from tests.handlers.group_client import commit, find_coordinator
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient

NOW_MS = 1_900_000_000_000
PARTITIONS = 10
REQUESTS = 120


@pytest.fixture(params=["fsync", "os"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[kafkapy.Broker]:
    """A broker whose wall clock stands still; with `os`, a commit is answered at once."""
    monkeypatch.setattr(Clock, "now_ms", lambda _: NOW_MS)
    with kafkapy.Broker(config={"durability": request.param}) as running:
        yield running


def random_request(source: random.Random, version: int, ids: dict[str, Uuid]) -> OffsetCommitRequest:
    """A commit that is plain as often as not."""
    is_odd = source.random() < 0.5

    def odd() -> bool:
        return is_odd and source.random() < 0.1

    request = OffsetCommitRequest(generation_id_or_member_epoch=3 if odd() else -1)
    if 2 <= version <= 4 and odd():
        request.retention_time_ms = 10
    for name in (
        source.sample(["t", "u"], source.randint(0 if odd() else 1, 2)) + ["t"] * odd() + ["nowhere"] * odd()
    ):
        topic = OffsetCommitRequestTopic(name=name)
        if version >= 10:
            topic.topic_id = ids.get(name, b"?" * 16)
        request.topics.append(topic)
        indexes = source.sample(range(PARTITIONS + odd()), source.randint(0 if odd() else 1, 4))
        for index in indexes + indexes[:1] * odd() + [-1] * odd():
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=source.randint(-1, 2**62),
                    committed_leader_epoch=source.randint(-1, 9) if version >= 6 else -1,
                    commit_timestamp=source.randint(-1, 9) if version == 1 else -1,
                    committed_metadata="note" if odd() else source.choice(["", None]),
                )
            )
    return request


def answer(client: RawClient, request: OffsetCommitRequest, version: int) -> bytes:
    client.send(encode_request(request, version, 7, "client"))
    return client.receive_frame()


@pytest.mark.parametrize("version", range(11))
def test_a_plain_commit_is_stored_and_answered_as_any_other(
    broker: kafkapy.Broker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    store, plain = offset_commit._store_plain, 0

    def counted(context: object, request: OffsetCommitRequest) -> object:
        nonlocal plain
        if request.group_id == "other":
            return None
        stored = store(context, request)  # type: ignore[arg-type]
        plain += stored is not None
        return stored

    monkeypatch.setattr(offset_commit, "_store_plain", counted)
    source = random.Random(version)
    with RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "any")
        ids = {name: create_topic(client, name, PARTITIONS) for name in ("t", "u")}
        for number in range(REQUESTS):
            request, answers = random_request(source, version, ids), []
            for group in ("plain", "other"):
                request.group_id = group
                answers.append(answer(client, request, version))
            offsets = broker.core.groups.offsets
            stored, expected = (list(offsets.of_group(group).items()) for group in ("plain", "other"))
            assert (answers[0], stored) == (answers[1], expected), f"{number}: {request}"
    assert version == 1 or REQUESTS // 3 < plain < REQUESTS


def test_a_topic_names_its_partitions_always_by_the_same_objects() -> None:
    exists, gap = PartitionState(1, 0, (1,), (1,)), PartitionState(NO_LEADER, 0, (), ())
    topic = Topic("t", b"i" * 16, (exists, gap))
    assert [topic.find(index) for index in (-1, 0, 1, 2)] == [None, TopicPartition("t", 0), None, None]
    assert topic.find(0) is topic.find(0)
    changed = replace(topic, partitions=(gap, exists))
    assert [changed.find(index) for index in (0, 1)] == [None, TopicPartition("t", 1)]


def test_a_topic_that_was_created_again_has_only_its_own_partitions(broker: kafkapy.Broker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "any")
        for count, error in ((2, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
            ids = {"t": create_topic(client, "t", count)}
            for version in (9, 10):
                stored = commit(
                    client, "g", {("t", 0): 5, ("t", 1): 6}, version, topic_ids=ids, metadata=None
                )
                assert stored == {("t", 0): ErrorCode.NONE, ("t", 1): error}
            deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
            assert client.ask(deleted, 6).responses[0].error_code == ErrorCode.NONE
