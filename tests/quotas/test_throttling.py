"""A client over its quota is answered at once, and its next request waits (KIP-219)."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.list_offsets import ListOffsetsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.types import ApiKey
from tests.handlers.produce_client import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    fetch_request,
    produce_request,
    stored,
)
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually
from tests.quotas.quota_client import ANY_CLIENT, limited, set_quota, shared

RATE = 1000
TWO_WINDOWS = {"quota.window.num": "2"}
"""With these, what exceeds RATE by n bytes after a pause is throttled for n milliseconds."""


@pytest.fixture
def kafka_broker_config() -> Mapping[str, object]:
    return {**TWO_WINDOWS, "request.receive.timeout.ms": 200}


@pytest.fixture
def topic(kafka_broker: kafkapy.Broker) -> str:
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "orders")
        client.ask(produce_request("orders", batch(b"x" * 500), batch(b"y" * 500), partitions=[0, 0]), 9)
    return "orders"


def over(topic: str, nbytes: int, version: int = PRODUCE_VERSION, **options: Any) -> bytes:
    """A Produce request that has `nbytes` more than RATE allows."""
    empty = len(encode_request(produce_request(topic, batch(b"x" * 200), **options), version, 7, "raw")) - 4
    value = b"x" * (200 + RATE + nbytes - empty)
    frame = encode_request(produce_request(topic, batch(value), **options), version, 7, "raw")
    assert abs(len(frame) - 4 - RATE - nbytes) <= 4
    return frame


def throttle_ms(key: ApiKey, version: int, frame: bytes) -> int:
    _, response = decode_response(key, version, frame)
    return int(response.throttle_time_ms)  # type: ignore[attr-defined]


def test_a_producer_is_answered_at_once_and_its_next_request_waits(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        client.send(over(topic, 400))
        throttled = throttle_ms(ApiKey.PRODUCE, PRODUCE_VERSION, client.receive_frame())
        assert 390 <= throttled <= 410
        answered = time.monotonic()
        client.send(api_versions())
        assert correlation_ids(client, 1) == [7]
        assert time.monotonic() - answered >= (throttled - 15) / 1000  # the loop's clock is coarse


@pytest.mark.parametrize("version", [0, 1, 3, 5, 8, 11])
def test_clients_of_all_versions_are_throttled_alike(
    kafka_broker: kafkapy.Broker, topic: str, version: int
) -> None:
    with limited(kafka_broker, "consumer_byte_rate", 1) as client:
        for _ in range(2):
            client.send(encode_request(fetch_request(topic, 0), version, 7, "raw"))
            _, response = decode_response(ApiKey.FETCH, version, client.receive_frame())
            assert not [data for each in response.responses for data in each.partitions]  # type: ignore[attr-defined]
            if version:
                assert response.throttle_time_ms > 0  # type: ignore[attr-defined]
            eventually(lambda: is_paused(kafka_broker), "nothing is read")
            release(kafka_broker)


def is_paused(broker: kafkapy.Broker) -> bool:
    async def paused(core: Any) -> bool:
        return any(each.requests.is_throttled and not each.reading for each in core.server.connections)

    return broker.call(paused)


def release(broker: kafkapy.Broker) -> None:
    """Let the throttle times of all connections end now."""

    async def end(core: Any) -> None:
        for each in tuple(core.server.connections):
            if each.requests.is_throttled:
                each.requests.end_throttle()

    broker.call(end)


def test_requests_in_the_connections_buffer_wait_too(kafka_broker: kafkapy.Broker, topic: str) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        client.send(over(topic, 60_000) + api_versions(8) + api_versions(9))
        assert throttle_ms(ApiKey.PRODUCE, PRODUCE_VERSION, client.receive_frame()) > 50_000
        eventually(lambda: is_paused(kafka_broker), "nothing is read")
        client.send(api_versions(10))
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.receive(1)
        client.socket.settimeout(10)
        release(kafka_broker)
        assert correlation_ids(client, 3) == [8, 9, 10]


def test_a_request_that_is_partly_received_is_not_late_because_its_client_is_throttled(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        following = encode_request(MetadataRequest(topics=[]), 9, 8, "raw")
        client.send(over(topic, 60_000) + following[:6])
        client.receive_frame()
        eventually(lambda: is_paused(kafka_broker), "nothing is read")
        before = shared(kafka_broker).now
        eventually(lambda: shared(kafka_broker).now > before + 0.3, "some sweeps")
        release(kafka_broker)
        client.send(following[6:])
        assert correlation_ids(client, 1) == [8]


def test_a_client_that_goes_away_while_it_is_throttled_leaves_nothing(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        client.send(over(topic, 60_000) + api_versions(8))
        client.receive_frame()
        client.close()
        eventually(lambda: is_paused(kafka_broker), "nothing is read")
        release(kafka_broker)
        eventually(lambda: not kafka_broker.core.server.connections, "the connection is closed")
        assert shared(kafka_broker).buffered_bytes == 0


def test_a_broker_that_stops_does_not_wait_for_throttle_times(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    async def finish(core: Any) -> None:
        for each in tuple(core.server.connections):
            each.finish()

    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        client.send(over(topic, 60_000) + api_versions(8))
        client.receive_frame()
        eventually(lambda: is_paused(kafka_broker), "nothing is read")
        kafka_broker.call(finish)
        assert client.is_closed()


def test_long_answers_are_encoded_with_the_throttle_time(kafka_broker: kafkapy.Broker) -> None:
    with limited(kafka_broker, "controller_mutation_rate", 1) as client:
        response = client.ask(topics(*(f"t{number}" for number in range(2000)), partitions=1), 7)
        refused = sum(each.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED for each in response.topics)
        assert 1900 < refused < 2000
        assert response.throttle_time_ms > 0
        eventually(lambda: is_paused(kafka_broker), "nothing is read")


def test_a_fetch_that_is_refused_takes_time_too(kafka_broker: kafkapy.Broker, topic: str) -> None:
    with limited(kafka_broker, "request_percentage", 1e-6) as client:
        request = fetch_request(topic, 0, session_id=77, session_epoch=5)
        response = client.ask(request, FETCH_VERSION)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert response.throttle_time_ms == 1000


def test_a_consumer_that_claims_to_be_a_broker_is_throttled(kafka_broker: kafkapy.Broker, topic: str) -> None:
    with limited(kafka_broker, "request_percentage", 1e-6) as client:
        assert client.ask(fetch_request(topic, 0, replica_id=1), FETCH_VERSION).throttle_time_ms == 1000


def test_a_producer_without_answers_is_throttled(kafka_broker: kafkapy.Broker, topic: str) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        client.send(over(topic, 300, acks=0))
        sent = time.monotonic()
        eventually(lambda: is_paused(kafka_broker), "nothing is read")
        client.send(api_versions())
        assert correlation_ids(client, 1) == [7]
        assert time.monotonic() - sent >= 0.25


def test_other_connections_of_the_client_share_its_quota(kafka_broker: kafkapy.Broker, topic: str) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE) as client:
        client.send(over(topic, 5000))
        client.receive_frame()
        with RawClient(kafka_broker.bootstrap_servers) as other:
            response = other.ask(produce_request(topic, batch(b"z")), PRODUCE_VERSION)
            assert response.throttle_time_ms > 4000
            assert response.responses[0].partition_responses[0].error_code == 0


def test_a_consumer_over_its_quota_gets_nothing_and_its_session_goes_on(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as client:
        opened = client.ask(fetch_request(topic, 0, session_epoch=0), FETCH_VERSION)
        session = opened.session_id
        assert session
        assert stored(opened.responses[0].partitions[0])
        set_quota(client, "consumer_byte_rate", 1, ANY_CLIENT)
        asked = fetch_request(topic, 0, session_epoch=1, session_id=session)
        throttled = client.ask(asked, FETCH_VERSION)
        assert (throttled.session_id, throttled.responses) == (session, [])
        assert throttled.throttle_time_ms > 0
        release(kafka_broker)
        with RawClient(kafka_broker.bootstrap_servers) as admin:
            set_quota(admin, "consumer_byte_rate", None, ANY_CLIENT)
        again = fetch_request(topic, session_epoch=2, session_id=session)
        answered = client.ask(again, FETCH_VERSION)
        assert answered.throttle_time_ms == 0
        assert stored(answered.responses[0].partitions[0])


def test_a_consumer_is_sent_no_more_than_its_quota_allows_after_a_pause(
    kafka_broker: kafkapy.Broker,
) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "many")
        for _ in range(8):
            client.ask(produce_request("many", batch(b"x" * 400)), PRODUCE_VERSION)
    with limited(kafka_broker, "consumer_byte_rate", 2 * RATE) as client:
        response = client.ask(fetch_request("many", 0), FETCH_VERSION)
        assert response.throttle_time_ms == 0
        assert 1000 < len(stored(response.responses[0].partitions[0])) <= 2 * RATE


def test_answers_that_were_encoded_before_have_the_throttle_time(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    with limited(kafka_broker, "request_percentage", 1e-6) as client:
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        for request, version in (
            (metadata, 9),
            (metadata, 3),
            (ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3),
            (ListOffsetsRequest(), 7),
        ):
            assert client.ask(request, version).throttle_time_ms == 1000  # a window at most
            release(kafka_broker)
        assert client.ask(metadata, 0).topics[0].name == topic


def test_the_time_of_handlers_that_wait_counts(kafka_broker: kafkapy.Broker) -> None:
    with limited(kafka_broker, "request_percentage", 1e-6) as client:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        )
        assert client.ask(request, 7).throttle_time_ms == 1000


def test_a_client_without_quotas_is_not_throttled_beside_one_with(
    kafka_broker: kafkapy.Broker, topic: str
) -> None:
    with limited(kafka_broker, "producer_byte_rate", 1, {"client-id": "other"}) as client:
        assert client.ask(produce_request(topic, batch(b"x" * 5000)), PRODUCE_VERSION).throttle_time_ms == 0
        assert len(shared(kafka_broker).quotas.produce.sensors) == 0


def test_a_broker_without_quotas_has_no_parts_for_them(kafka_broker: kafkapy.Broker, topic: str) -> None:
    assert shared(kafka_broker).quotas is None
    with RawClient(kafka_broker.bootstrap_servers) as client:
        set_quota(client, "producer_byte_rate", 5, {"user": "alice"})
        assert shared(kafka_broker).quotas is not None
        set_quota(client, "producer_byte_rate", None, {"user": "alice"})
        assert shared(kafka_broker).quotas is None


def test_quotas_are_enforced_after_a_restart(kafka_broker: kafkapy.Broker, topic: str) -> None:
    with limited(kafka_broker, "producer_byte_rate", RATE):
        pass
    kafka_broker.stop()
    kafka_broker.start()
    with RawClient(kafka_broker.bootstrap_servers) as client:
        client.send(over(topic, 1000))
        assert throttle_ms(ApiKey.PRODUCE, PRODUCE_VERSION, client.receive_frame()) > 900


# --- changes of partitions ----------------------------------------------------------------------------------


def topics(*names: str, partitions: int = 5) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names],
        timeout_ms=10_000,
    )


def larger(name: str, partitions: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)


@pytest.fixture
def mutations(kafka_broker: kafkapy.Broker) -> Any:
    """A client that may create and delete 0.5 partitions a second, and 5.5 at once."""
    with limited(kafka_broker, "controller_mutation_rate", 0.5) as client:
        yield client


def test_topics_beyond_the_quota_are_refused(kafka_broker: kafkapy.Broker, mutations: RawClient) -> None:
    first = mutations.ask(topics("a", "b", "c"), 7)
    assert [each.error_code for each in first.topics] == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert first.topics[2].error_message == "The throttling quota has been exceeded."
    assert 8_000 < first.throttle_time_ms <= 9_000  # 4.5 partitions too many
    release(kafka_broker)
    refused = mutations.ask(larger("a", 7), 3)
    assert refused.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms > 7_000
    release(kafka_broker)
    gone = mutations.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=10_000), 6)
    assert gone.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert set(kafka_broker.core.metadata.image.topics) == {"a", "b"}
    assert len(kafka_broker.core.metadata.image.topics["a"].partitions) == 5


def test_older_clients_are_delayed_and_not_refused(
    kafka_broker: kafkapy.Broker, mutations: RawClient
) -> None:
    first = mutations.ask(topics("a", "b", "c"), 5)
    assert [each.error_code for each in first.topics] == [0, 0, 0]
    assert 17_000 < first.throttle_time_ms <= 19_000  # 9.5 partitions too many
    release(kafka_broker)
    assert mutations.ask(larger("a", 7), 2).results[0].error_code == 0
    release(kafka_broker)
    gone = mutations.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=10_000), 4)
    assert gone.responses[0].error_code == 0
    assert gone.throttle_time_ms > 25_000


def test_topics_that_are_only_checked_count(kafka_broker: kafkapy.Broker, mutations: RawClient) -> None:
    request = topics("a", partitions=20)
    request.validate_only = True
    assert mutations.ask(request, 7).topics[0].error_code == 0
    release(kafka_broker)
    assert mutations.ask(topics("a"), 7).topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_topics_on_demand_are_created_as_the_quota_allows(
    kafka_broker: kafkapy.Broker, mutations: RawClient
) -> None:
    assert mutations.ask(topics("a", partitions=50), 7).topics[0].error_code == 0
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="b")], allow_auto_topic_creation=True)
    (refused,) = mutations.ask(asked, 9).topics
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with RawClient(kafka_broker.bootstrap_servers) as admin:
        set_quota(admin, "controller_mutation_rate", None, ANY_CLIENT)
    (created,) = mutations.ask(asked, 9).topics
    assert (created.error_code, len(created.partitions)) == (0, 1)


def test_refused_topics_do_not_count(kafka_broker: kafkapy.Broker, mutations: RawClient) -> None:
    assert mutations.ask(topics("no/slash", partitions=100), 7).throttle_time_ms == 0
    assert mutations.ask(topics("a"), 7).throttle_time_ms == 0


def test_a_frame_without_a_size_is_not_taken_for_one_that_is_throttled(kafka_broker: kafkapy.Broker) -> None:
    with limited(kafka_broker, "request_percentage", 1e-6) as client:
        client.send(struct.pack(">i", -5))
        assert client.is_closed()
