"""Produce: what is acknowledged, what is refused and in which order it is answered."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.handlers.produce import DelayedProduce
from kafkapy.loop.waiters import Waiters, Watch
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkapy.protocol.records import Compression
from kafkapy.protocol.types import ApiKey
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.validate import SLOW_AT_ONCE
from tests.calls import calls_of
from tests.handlers.produce_client import (
    PRODUCE_VERSION,
    batch,
    broken,
    create_topic,
    fetch,
    produce,
    produce_request,
    stored,
    values,
)
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually
from tests.replicas.roles import OTHER, follow, lead


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected


def test_batches_get_the_next_offsets_and_come_back_as_they_were(client: RawClient) -> None:
    create_topic(client, "orders")
    first, second = batch(b"a", b"b"), batch(b"c", compression=Compression.ZSTD)
    assert [produce(client, "orders", each)[0].base_offset for each in (first, second)] == [0, 2]
    (data,) = fetch(client, "orders", 0)
    assert values(data) == [b"a", b"b", b"c"]
    found = stored(data)
    # All but the base offset and the leader epoch, which the broker assigns.
    assert found[8:12] + found[16 : len(first)] == first[8:12] + first[16:]


def test_the_files_of_new_partitions_are_not_made_by_the_event_loop(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = calls_of(monkeypatch, FileSystem, "make_directory")
    create_topic(client, "orders", 40)
    answers = produce(client, "orders", *[batch(b"a")] * 40)
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0)] * 40
    makers = {path.rpartition("/")[2]: thread for (_, path), thread in made}
    assert set(makers) == {f"orders-{index}" for index in range(40)}
    assert "kafkapy-broker" not in makers.values()


@pytest.mark.parametrize("acks", [-1, 1])
def test_acks_one_and_all_are_answered(client: RawClient, acks: int) -> None:
    create_topic(client, "orders")
    (answer,) = produce(client, "orders", batch(b"a"), acks=acks)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 0, 0)
    assert answer.log_append_time_ms == -1


def lead_without_followers(broker: kafkapy.Broker, topic: str, partitions: int) -> None:
    """Let a broker lead partitions whose followers never fetch: nothing is committed."""

    async def change(core: BrokerCore) -> None:
        for index in range(partitions):
            lead(core.replicas.partition(topic, index), followers=[OTHER])

    broker.call(change)


def test_a_request_that_ends_before_its_connection_hears_of_it_is_answered(
    kafka_broker: kafkapy.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fast disk may be quicker than the loop.

    The request begins in a thread, which validates its batch.
    """
    watch = Waiters.watch

    def watch_and_end(waiters: Waiters, *arguments: Any) -> Watch:
        made = watch(waiters, *arguments)
        waiters.loop.call_soon(made.expire)
        return made

    monkeypatch.setattr(Waiters, "watch", watch_and_end)
    create_topic(client, "orders", 2)
    lead_without_followers(kafka_broker, "orders", 2)
    # gzip of more than 4 KiB is checked in a thread
    heavy = batch(random.Random(1).randbytes(8 << 10), compression=Compression.GZIP)
    for _ in range(2):
        answers = produce(client, "orders", heavy, batch(b"b"))
        assert {answer.error_code for answer in answers} == {ErrorCode.REQUEST_TIMED_OUT}


def test_a_batch_that_fails_while_it_waits_is_not_answered_as_expected(
    kafka_broker: kafkapy.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect, codes = DelayedProduce.expected, list[int]()

    def noted(delayed: DelayedProduce) -> ProduceResponse:
        response = expect(delayed)
        codes.append(response.responses[0].partition_responses[0].error_code)
        return response

    async def lose(broker: BrokerCore) -> None:
        follow(broker.replicas.partition("orders", 0), 1)

    create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    monkeypatch.setattr(DelayedProduce, "expected", noted)
    lead_without_followers(kafka_broker, "orders", 1)
    client.send(encode_request(produce_request("orders", batch(b"b"), acks=-1), PRODUCE_VERSION, 1, "raw"))
    eventually(lambda: codes == [0], "the answer is expected")
    kafka_broker.call(lose)
    _, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, client.receive_frame())
    assert isinstance(response, ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_acks_zero_is_not_answered(client: RawClient) -> None:
    create_topic(client, "orders")
    client.send(encode_request(produce_request("orders", batch(b"a"), acks=0), PRODUCE_VERSION, 1, "raw"))
    client.send(api_versions(2))
    assert correlation_ids(client, 1) == [2]
    (data,) = fetch(client, "orders", 0)
    assert values(data) == [b"a"]


def test_a_refused_batch_with_acks_zero_closes_the_connection(client: RawClient) -> None:
    create_topic(client, "orders")
    request = produce_request("orders", broken(batch(b"a")), acks=0)
    client.send(encode_request(request, PRODUCE_VERSION, 1, "raw"))
    assert client.is_closed()


def test_a_partition_that_refuses_does_not_stop_the_others(client: RawClient) -> None:
    create_topic(client, "orders", 3)
    answers = produce(client, "orders", batch(b"a"), broken(batch(b"b")), batch(b"c"))
    assert [answer.error_code for answer in answers] == [0, ErrorCode.CORRUPT_MESSAGE, 0]
    assert [values(data) for data in fetch(client, "orders", 0, 0, 0)] == [[b"a"], [], [b"c"]]


def test_unknown_topics_and_partitions_are_refused(client: RawClient) -> None:
    create_topic(client, "orders")
    for topic, partition in (("missing", 0), ("orders", 1), ("orders", -1), ("../orders", 0)):
        (answer,) = produce(client, topic, batch(b"a"), partitions=[partition])
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.base_offset == -1


def test_acks_other_than_none_one_and_all_are_refused(client: RawClient) -> None:
    create_topic(client, "orders")
    assert produce(client, "orders", batch(b"a"), acks=2)[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("version", range(13))
def test_every_version_with_topic_names_appends(client: RawClient, version: int) -> None:
    create_topic(client, "orders")
    assert produce(client, "orders", batch(b"a"), version=version)[0].base_offset == 0


def test_topic_ids_stand_for_names(client: RawClient) -> None:
    topic_id = create_topic(client, "orders")
    for wanted, error in ((topic_id, 0), (bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID)):
        data = [PartitionProduceData(index=0, records=batch(b"a"))]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=wanted, partition_data=data)]
        )
        (topic,) = client.ask(request, 13).responses
        assert topic.topic_id == wanted
        assert topic.partition_responses[0].error_code == error


def test_an_empty_partition_is_refused(client: RawClient) -> None:
    create_topic(client, "orders")
    for records in (None, b""):
        assert produce(client, "orders", records)[0].error_code == ErrorCode.INVALID_RECORD


def test_clients_may_not_write_to_internal_topics(client: RawClient) -> None:
    client.ask(FindCoordinatorRequest(key="group"), 2)
    (answer,) = produce(client, "__consumer_offsets", batch(b"a"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_transactional_batch_needs_a_transactional_id(client: RawClient) -> None:
    create_topic(client, "orders")
    records = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    (answer,) = produce(client, "orders", records)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_batch_sent_again_is_answered_with_its_first_offset(client: RawClient) -> None:
    create_topic(client, "orders")
    producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    batches = [
        batch(b"a", b"b", producer_id=producer_id, producer_epoch=0, base_sequence=0),
        batch(b"c", producer_id=producer_id, producer_epoch=0, base_sequence=2),
    ]
    offsets = [produce(client, "orders", each)[0].base_offset for each in batches * 2]
    assert offsets == [0, 2, 0, 2]
    (data,) = fetch(client, "orders", 0)
    assert values(data) == [b"a", b"b", b"c"]


def test_a_gap_in_the_sequence_is_refused(client: RawClient) -> None:
    create_topic(client, "orders")
    producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    produce(client, "orders", batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    late = batch(b"c", producer_id=producer_id, producer_epoch=0, base_sequence=2)
    assert produce(client, "orders", late)[0].error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_was_in_flight_after_a_refused_first_batch_waits_for_it(client: RawClient) -> None:
    producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id

    def send(sequence: int) -> ErrorCode:
        sent = batch(b"%d" % sequence, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return ErrorCode(produce(client, "late", sent)[0].error_code)

    assert send(0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(client, "late")
    assert [send(1), send(2)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert [send(0), send(1), send(2)] == [ErrorCode.NONE] * 3
    (data,) = fetch(client, "late", 0)
    assert values(data) == [b"0", b"1", b"2"]


def test_producer_ids_are_never_given_twice(client: RawClient) -> None:
    ids = [client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id for _ in range(50)]
    assert len(set(ids)) == len(ids)


def test_a_batch_validated_in_a_thread_stays_before_the_next_one(client: RawClient) -> None:
    create_topic(client, "orders")
    noise = bytes(range(256)) * 4
    large = batch(*(struct.pack(">I", n) * 8 + noise for n in range(2000)), compression=Compression.GZIP)
    assert len(large) > 4096
    for correlation, records in enumerate((large, batch(b"small"), large, batch(b"last"))):
        request = produce_request("orders", records)
        client.send(encode_request(request, PRODUCE_VERSION, correlation, "raw"))
    assert correlation_ids(client, 4) == [0, 1, 2, 3]
    (data,) = fetch(client, "orders", 4001)
    assert values(data)[-1] == b"last"
    (data,) = fetch(client, "orders", 2000)
    assert values(data)[0] == b"small"


@pytest.mark.parametrize("kafka_broker_config", [{"durability": "fsync"}])
def test_answers_keep_the_order_of_requests_while_the_disk_syncs(client: RawClient) -> None:
    create_topic(client, "orders")
    for correlation in range(20):
        if correlation % 3:
            client.send(
                encode_request(produce_request("orders", batch(b"a")), PRODUCE_VERSION, correlation, "raw")
            )
        else:
            client.send(api_versions(correlation))
    assert correlation_ids(client, 20) == list(range(20))


def test_zstd_needs_a_version_that_knows_it(client: RawClient) -> None:
    create_topic(client, "orders")
    records = batch(b"a", compression=Compression.ZSTD)
    errors = [produce(client, "orders", records, version=version)[0].error_code for version in (6, 7)]
    assert errors == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.NONE]


def test_an_unknown_partition_is_unknown_whatever_the_acks(client: RawClient) -> None:
    create_topic(client, "orders")
    first, second = produce(client, "orders", batch(b"a"), batch(b"b"), acks=7)
    assert first.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_refused_records_come_with_the_log_start_offset(client: RawClient) -> None:
    create_topic(client, "orders")
    (answer,) = produce(client, "orders", broken(batch(b"a")))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 3), (5, -1)])
def test_half_a_producer_identity_is_refused(client: RawClient, producer_id: int, epoch: int) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )
    assert client.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST


def test_a_batch_that_decompresses_to_more_than_the_broker_allows_is_refused() -> None:
    with (
        kafkapy.Broker(config={"max.decompressed.message.bytes": 2000}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "orders")
        sent = [batch(bytes(size), compression=Compression.GZIP) for size in (1500, 2500)]
        answers = [produce(client, "orders", each)[0].error_code for each in sent]
    assert answers == [0, ErrorCode.MESSAGE_TOO_LARGE]


@pytest.mark.parametrize("kafka_broker_config", [{"durability": "fsync"}])
@pytest.mark.parametrize("acks", [-1, 1])
def test_an_acknowledged_record_is_at_once_within_the_end_of_the_log(client: RawClient, acks: int) -> None:
    create_topic(client, "orders")
    wanted = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])
    for end in range(1, 20):
        produce(client, "orders", batch(b"a"), acks=acks)
        (topic,) = client.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics
        assert topic.partitions[0].offset == end


def test_a_batch_sent_again_after_a_restart_is_still_a_duplicate(tmp_path: Path) -> None:
    producer_ids: list[int] = []
    for _ in range(3):
        with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            if not producer_ids:
                create_topic(client, "orders")
            producer_ids.append(client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id)
            again = batch(b"a", b"b", producer_id=producer_ids[0], producer_epoch=0, base_sequence=0)
            (answer,) = produce(client, "orders", again)
            assert (answer.error_code, answer.base_offset) == (0, 0)
            (data,) = fetch(client, "orders", 0)
            assert values(data) == [b"a", b"b"]
    assert len(set(producer_ids)) == 3


def test_many_small_compressed_batches_are_validated_together(client: RawClient) -> None:
    create_topic(client, "orders", 40)
    small = batch(random.Random(7).randbytes(1000), compression=Compression.GZIP)
    answers = produce(client, "orders", *[small] * 39, broken(small))
    assert [answer.error_code for answer in answers] == [0] * 39 + [ErrorCode.CORRUPT_MESSAGE]
    assert len(small) * 40 > SLOW_AT_ONCE
