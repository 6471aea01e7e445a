"""Answers about many partitions are encoded once, and are those made for one client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkapy
from kafkapy import handlers
from kafkapy.handlers import metadata as handler
from kafkapy.metadata.encoded_answers import MAX_BYTES, EncodedAnswers
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.types import ApiKey
from tests.calls import calls_of
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient

VERSIONS = range(handlers.BY_KEY[ApiKey.METADATA].max_version + 1)
PARTITIONS = handler.MANY_PARTITIONS


def all_topics(version: int) -> MetadataRequest:
    return MetadataRequest(topics=None if version else [])


def named(*names: str, **options: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, **options)


class Described:
    """Counts how often the partitions of a topic are described."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._calls = calls_of(monkeypatch, handler._Answer, "_topic")

    def taken(self) -> list[str]:
        found = [topic.name for (_, topic), _ in self._calls]
        self._calls.clear()
        return found


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Described:
    return Described(monkeypatch)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "large", PARTITIONS)
        create_topic(client, "small", 3)
        yield client


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_its_own_answer(tmp_path: Path, version: int) -> None:
    """It is that of requests about few partitions, each of which is made for one client."""
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        for name in ("a", "b"):
            create_topic(client, name, PARTITIONS // 2)
        for first, then, request in (
            ("a", "b", all_topics(version)),
            ("a", "b", named("a", "b")),
            ("b", "a", named("b", "a")),
        ):
            expected = client.ask(named(first), version)
            expected.topics += client.ask(named(then), version).topics
            assert sum(len(topic.partitions) for topic in expected.topics) == PARTITIONS
            for _ in range(2):
                assert client.ask(request, version) == expected


def test_what_was_asked_for_is_described_once(client: RawClient, described: Described) -> None:
    for _ in range(5):
        client.ask(all_topics(12), 12)
        client.ask(named("large"), 12)
    assert described.taken() == ["large", "small", "large"]
    client.ask(all_topics(11), 11)
    assert described.taken() == ["large", "small"]


def test_a_change_is_in_the_next_answer(client: RawClient, described: Described) -> None:
    client.ask(all_topics(12), 12)
    create_topic(client, "new")
    for _ in range(2):
        answered = client.ask(all_topics(12), 12)
        assert [topic.name for topic in answered.topics] == ["large", "small", "new"]
    assert len(described.taken()) == 2 + 3


def test_operations_are_only_in_the_answers_to_those_that_ask_for_them(client: RawClient) -> None:
    plain = client.ask(named("large"), 8)
    full = client.ask(
        named("large", include_topic_authorized_operations=True, include_cluster_authorized_operations=True),
        8,
    )
    assert plain.topics[0].topic_authorized_operations == plain.cluster_authorized_operations == -(2**31)
    assert full.topics[0].topic_authorized_operations > 0
    assert full.cluster_authorized_operations > 0
    assert client.ask(named("large"), 8) == plain


def test_clients_are_told_the_address_by_which_each_came_in(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path, config={"listeners": "PLAINTEXT://:0"}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        hosts = ("127.0.0.1", "127.0.0.2")
        for number in range(2):
            for host in hosts:
                with RawClient(f"{host}:{port}") as client:
                    if not number and host == hosts[0]:
                        create_topic(client, "large", PARTITIONS)
                    (answered,) = client.ask(all_topics(12), 12).brokers
                    assert (answered.host, answered.port) == (host, int(port))


def test_a_topic_that_does_not_exist_is_not_kept(client: RawClient, described: Described) -> None:
    request = named("large", "absent", allow_auto_topic_creation=False)
    for _ in range(2):
        assert [topic.error_code for topic in client.ask(request, 12).topics] == [0, 3]
    assert described.taken() == ["large", "large"]
    create_topic(client, "absent")
    assert [topic.error_code for topic in client.ask(request, 12).topics] == [0, 0]


async def body(text: bytes) -> bytes:
    await asyncio.sleep(0)
    return text


async def test_requests_that_come_together_wait_for_one_answer() -> None:
    answers, made = EncodedAnswers(), []

    async def make() -> bytes:
        made.append(1)
        return await body(b"answer")

    found = await asyncio.gather(*(answers.make("key", 0, make) for _ in range(10)))
    assert found == [b"answer"] * 10
    assert made == [1]
    assert answers.get("key") == b"answer"


async def test_an_answer_from_metadata_that_has_changed_meanwhile_is_not_kept() -> None:
    answers, changed = EncodedAnswers(), asyncio.Event()

    async def make() -> bytes:
        await changed.wait()
        return b"old"

    old = asyncio.ensure_future(answers.make("key", 0, make))
    await asyncio.sleep(0)
    answers.follow(MetadataImage().with_topics([]), {})
    assert await answers.make("key", 0, lambda: body(b"new")) == b"new"
    changed.set()
    assert await old == b"old"
    assert answers.get("key") == b"new"


@pytest.mark.parametrize(
    ("image", "offline"),
    [
        (MetadataImage().with_topics([]), {}),
        (MetadataImage().with_brokers([], 1), {}),
        (MetadataImage(), {("t", 0): (1,)}),
    ],
)
async def test_other_metadata_has_other_answers(
    image: MetadataImage, offline: dict[tuple[str, int], tuple[int, ...]]
) -> None:
    answers = EncodedAnswers()
    same = MetadataImage()
    answers.follow(same, {})
    await answers.make("key", 0, lambda: body(b"answer"))
    answers.follow(same, {})
    assert answers.get("key") == b"answer"
    answers.follow(image, offline)
    assert answers.get("key") is None
    assert answers.nbytes == 0


async def test_the_answers_and_their_keys_are_bounded_in_bytes() -> None:
    answers, part = EncodedAnswers(), bytes(MAX_BYTES // 4)
    for key in range(4):
        await answers.make(key, 0, lambda: body(part))
        answers.get(0)
    assert [answers.get(key) is not None for key in range(4)] == [True, False, True, True]
    await answers.make("too large", 0, lambda: body(bytes(MAX_BYTES)))
    assert answers.get("too large") is None
    for key in range(100, 200):
        await answers.make(key, 20_000, lambda: body(b""))
    assert answers.nbytes <= MAX_BYTES
    assert len([key for key in range(100, 200) if answers.get(key) is not None]) == 100
    assert answers.get(0) is None


async def test_an_answer_that_cannot_be_made_is_tried_again() -> None:
    answers = EncodedAnswers()

    async def fail() -> bytes:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        await answers.make("key", 0, fail)
    assert await answers.make("key", 0, lambda: body(b"answer")) == b"answer"
