"""Fetch: what is read, when it waits, and what sessions leave out."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkapy
from kafkapy.fetch.read import FetchRead
from kafkapy.fetch.sessions import FetchTarget
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kafkapy.protocol.types import ApiKey
from tests.handlers.produce_client import (
    FETCH_VERSION,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    values,
)
from tests.network.raw_client import RawClient

WAIT_MS = 20_000
"""Longer than any test may take: what waits for so long waits for ever."""


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected


def send(client: RawClient, request: FetchRequest) -> None:
    client.send(encode_request(request, FETCH_VERSION, 1, "raw"))


def receive(client: RawClient) -> list[PartitionData]:
    _, response = decode_response(ApiKey.FETCH, FETCH_VERSION, client.receive_frame())
    assert isinstance(response, FetchResponse)
    return [data for topic in response.responses for data in topic.partitions]


def test_a_waiting_fetch_is_answered_by_the_next_append(
    client: RawClient, kafka_broker: kafkapy.Broker
) -> None:
    create_topic(client, "orders")
    with RawClient(kafka_broker.bootstrap_servers) as consumer:
        send(consumer, fetch_request("orders", 0, max_wait_ms=WAIT_MS))
        produce(client, "orders", batch(b"a"))
        (data,) = receive(consumer)
    assert (values(data), data.high_watermark, data.last_stable_offset) == ([b"a"], 1, 1)


def test_a_fetch_waits_until_min_bytes_are_there(client: RawClient, kafka_broker: kafkapy.Broker) -> None:
    create_topic(client, "orders", 2)
    one = batch(b"a")
    with RawClient(kafka_broker.bootstrap_servers) as consumer:
        send(consumer, fetch_request("orders", 0, 0, max_wait_ms=WAIT_MS, min_bytes=3 * len(one)))
        for partition in (0, 1, 0):
            produce(client, "orders", one, partitions=[partition])
        assert [values(data) for data in receive(consumer)] == [[b"a", b"a"], [b"a"]]


def test_a_fetch_without_records_is_answered_after_max_wait(client: RawClient) -> None:
    create_topic(client, "orders")
    start = time.monotonic()
    (data,) = fetch(client, "orders", 0, max_wait_ms=80)
    assert time.monotonic() - start >= 0.08
    assert (data.error_code, values(data), data.high_watermark) == (0, [], 0)


def test_deleting_the_topic_answers_a_waiting_fetch(client: RawClient, kafka_broker: kafkapy.Broker) -> None:
    create_topic(client, "orders")
    with RawClient(kafka_broker.bootstrap_servers) as consumer:
        send(consumer, fetch_request("orders", 0, max_wait_ms=WAIT_MS))
        client.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
        (data,) = receive(consumer)
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_consumer_that_goes_away_while_waiting_leaves_nothing(kafka_broker: kafkapy.Broker) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "orders")
        with RawClient(kafka_broker.bootstrap_servers) as consumer:
            send(consumer, fetch_request("orders", 0, max_wait_ms=WAIT_MS))
        assert produce(client, "orders", batch(b"a"))[0].error_code == 0
        assert values(fetch(client, "orders", 0)[0]) == [b"a"]


def test_the_first_batch_passes_every_limit_and_the_rest_does_not(client: RawClient) -> None:
    create_topic(client, "orders", 2)
    for _ in range(3):
        produce(client, "orders", batch(b"a"), batch(b"b"))
    first, second = fetch(client, "orders", 0, 0, max_bytes=1)
    assert (values(first), values(second)) == ([b"a"], [])
    first, second = fetch(client, "orders", 0, 0, max_bytes=2 * len(batch(b"a")))
    assert (values(first), values(second)) == ([b"a", b"a"], [])


def test_the_broker_bounds_what_a_consumer_may_ask_for() -> None:
    sent = [batch(bytes(600)) for _ in range(3)]
    limit = 2 * len(sent[0])
    with (
        kafkapy.Broker(config={"fetch.max.bytes": limit}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "orders", partitions=3)
        produce(client, "orders", *sent)
        answers = fetch(client, "orders", 0, 0, 0, min_bytes=2 * limit, max_wait_ms=WAIT_MS)
    assert [len(values(data)) for data in answers] == [1, 1, 0]


def test_reading_in_the_middle_of_a_batch_gives_the_whole_batch(client: RawClient) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a", b"b", b"c"))
    assert values(fetch(client, "orders", 2)[0]) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("offset", [-1, 4, 1 << 60])
def test_offsets_outside_the_log_are_out_of_range(client: RawClient, offset: int) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a", b"b", b"c"))
    (data,) = fetch(client, "orders", offset)
    assert (data.error_code, data.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert data.aborted_transactions is None


def test_a_partition_with_an_error_does_not_wait_and_does_not_stop_the_others(client: RawClient) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    good, missing = fetch(client, "orders", 0, 0, max_wait_ms=WAIT_MS, min_bytes=1 << 20)
    assert values(good) == [b"a"]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert missing.aborted_transactions == []


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, 0), (-1, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_consumer_with_another_leader_epoch_is_told(client: RawClient, epoch: int, error: int) -> None:
    create_topic(client, "orders")
    request = fetch_request("orders", 0)
    request.topics[0].partitions[0].current_leader_epoch = epoch
    (topic,) = client.ask(request, FETCH_VERSION).responses
    assert topic.partitions[0].error_code == error


def test_a_log_that_parts_from_the_epoch_read_last_says_where(tmp_path: Path) -> None:
    for values_of_epoch in ((b"a",), (b"b", b"c")):
        with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            if values_of_epoch == (b"a",):
                create_topic(client, "orders")
            produce(client, "orders", batch(*values_of_epoch))
            request = fetch_request("orders", 2, max_wait_ms=WAIT_MS)
            request.topics[0].partitions[0].last_fetched_epoch = 0
            last = client.ask(request, FETCH_VERSION).responses[0].partitions[0]
    assert (last.diverging_epoch.epoch, last.diverging_epoch.end_offset) == (0, 1)


def test_an_epoch_that_the_log_never_had_is_out_of_range(client: RawClient) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    request = fetch_request("orders", 1, max_wait_ms=WAIT_MS)
    request.topics[0].partitions[0].last_fetched_epoch = 5
    (topic,) = client.ask(request, FETCH_VERSION).responses
    assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_nobody_passes_for_a_follower(client: RawClient) -> None:
    create_topic(client, "orders")
    (data,) = fetch(client, "orders", 0, replica_id=1)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_topic_ids_stand_for_names(client: RawClient) -> None:
    topic_id = create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    for wanted, error in ((topic_id, 0), (bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID)):
        partitions = [FetchPartition(partition_max_bytes=1000)]
        request = FetchRequest(topics=[FetchTopic(topic_id=wanted, partitions=partitions)], min_bytes=1)
        (topic,) = client.ask(request, 17).responses
        assert (topic.topic_id, topic.partitions[0].error_code) == (wanted, error)


def test_a_session_finds_a_topic_that_is_created_after_it_was_opened(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = bytes(range(1, 17))
    monkeypatch.setattr("kafkapy.controller.topic_plans.random_uuid", lambda: topic_id)
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=1000)])]
    first = client.ask(FetchRequest(topics=topics, session_epoch=0, min_bytes=1), 17)
    assert first.session_id
    assert first.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert create_topic(client, "orders") == topic_id
    produce(client, "orders", batch(b"a"))
    request = FetchRequest(session_id=first.session_id, session_epoch=1, min_bytes=1)
    (topic,) = client.ask(request, 17).responses
    assert values(topic.partitions[0]) == [b"a"]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_with_topic_names_reads(client: RawClient, version: int) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    (topic,) = client.ask(fetch_request("orders", 0), version).responses
    assert values(topic.partitions[0]) == [b"a"]


def test_read_committed_without_transactions_reads_everything(client: RawClient) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    (data,) = fetch(client, "orders", 0, isolation_level=1)
    assert (values(data), data.aborted_transactions) == ([b"a"], [])


def ask_session(
    client: RawClient, session_id: int, epoch: int, *offsets: int, topic: str = "orders"
) -> FetchResponse:
    request = fetch_request(topic, *offsets, session_id=session_id, session_epoch=epoch)
    if not offsets:
        request.topics = []
    response: FetchResponse = client.ask(request, FETCH_VERSION)
    return response


def partitions_of(response: FetchResponse) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def test_a_session_answers_only_what_is_new(client: RawClient) -> None:
    create_topic(client, "orders", 3)
    opened = ask_session(client, 0, 0, 0, 0, 0)
    assert opened.session_id > 0
    assert partitions_of(opened) == [0, 1, 2]
    assert partitions_of(ask_session(client, opened.session_id, 1)) == []
    produce(client, "orders", batch(b"a"), partitions=[1])
    response = ask_session(client, opened.session_id, 2)
    assert (response.session_id, partitions_of(response)) == (opened.session_id, [1])


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> queue.SimpleQueue[int]:
    """The partitions that fetches look at."""
    found: queue.SimpleQueue[int] = queue.SimpleQueue()
    read = FetchRead._read

    def watched(self: FetchRead, target: FetchTarget) -> tuple[PartitionData, int]:
        found.put(target.partition)
        return read(self, target)

    monkeypatch.setattr(FetchRead, "_read", watched)
    return found


def all_of(looked_at: queue.SimpleQueue[int]) -> set[int]:
    return {looked_at.get() for _ in range(looked_at.qsize())}


def test_a_session_reads_only_partitions_that_have_changed(
    client: RawClient, looked_at: queue.SimpleQueue[int]
) -> None:
    create_topic(client, "orders", 50)
    session = ask_session(client, 0, 0, *[0] * 50).session_id
    assert all_of(looked_at) == set(range(50))
    assert partitions_of(ask_session(client, session, 1)) == []
    assert all_of(looked_at) == set()
    produce(client, "orders", batch(b"a"), partitions=[7])
    assert partitions_of(ask_session(client, session, 2)) == [7]
    assert all_of(looked_at) == {7}


@pytest.mark.parametrize("min_bytes", [1, 100])
def test_what_changes_while_other_partitions_are_read_ends_the_wait(
    client: RawClient, kafka_broker: kafkapy.Broker, looked_at: queue.SimpleQueue[int], min_bytes: int
) -> None:
    create_topic(client, "orders", 100)
    kafka_broker.core.turns.seconds = 0
    with RawClient(kafka_broker.bootstrap_servers) as consumer:
        send(consumer, fetch_request("orders", *[0] * 100, max_wait_ms=WAIT_MS, min_bytes=min_bytes))
        looked_at.get(timeout=10)
        produce(client, "orders", batch(b"x" * 200), partitions=[0])
        assert values(receive(consumer)[0]) == [b"x" * 200]


def test_a_session_serves_first_who_was_served_least_lately(client: RawClient) -> None:
    create_topic(client, "orders", 2)
    produce(client, "orders", batch(b"a"), batch(b"b"))
    session = ask_session(client, 0, 0, 0, 0).session_id
    served = []
    for epoch in (1, 2, 3):
        request = fetch_request("orders", session_id=session, session_epoch=epoch, max_bytes=1)
        request.topics = []
        served += partitions_of(client.ask(request, FETCH_VERSION))
    assert served == [0, 1, 0]


def test_a_session_forgets_partitions(client: RawClient) -> None:
    create_topic(client, "orders", 2)
    session = ask_session(client, 0, 0, 0, 0).session_id
    request = FetchRequest(session_id=session, session_epoch=1)
    request.forgotten_topics_data = [ForgottenTopic(topic="orders", partitions=[0])]
    client.ask(request, FETCH_VERSION)
    produce(client, "orders", batch(b"a"), batch(b"b"))
    assert partitions_of(ask_session(client, session, 2)) == [1]


def test_wrong_sessions_are_refused(client: RawClient) -> None:
    create_topic(client, "orders")
    session = ask_session(client, 0, 0, 0).session_id
    assert ask_session(client, session, 2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask_session(client, session ^ 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    closed = ask_session(client, session, -1, 0)
    assert (closed.session_id, partitions_of(closed)) == (0, [0])
    assert ask_session(client, session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
