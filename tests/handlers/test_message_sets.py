"""Produce v0-2, Fetch v0-3 and ListOffsets v0: clients that know no record batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.fetch.message_sets import ENOUGH_BYTES, LEAST_BYTES
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.legacy_records import build_message_set, decode_message_set, iter_messages
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.records import Record, TimestampType, build_batch, decode_records
from kafkapy.protocol.types import ApiKey
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.validate import AppendOrigin, prepare_batches
from tests.handlers.produce_client import (
    batch,
    create_topic,
    fetch,
    produce,
    produce_request,
    stored,
    values,
)
from tests.network.raw_client import RawClient, api_versions, correlation_ids
from tests.protocol.record_strategies import plain

START = 1_700_000_000_000
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
OLD_PRODUCE = range(3)
OLD_FETCH = range(4)
WAIT_MS = 20_000


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected


def topic_with(client: RawClient, **settings: str) -> None:
    configs = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()]
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, configs=configs)
    (answer,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    assert answer.error_code == 0, answer


def some(count: int = 3, *, size: int = 0) -> list[Record]:
    return [
        Record(i, START + i, b"key" if i % 2 else None, (b"value %d" % i).ljust(size, b"."))
        for i in range(count)
    ]


def old_fetch(
    client: RawClient, *offsets: int, version: int = 3, max_bytes: int = 1 << 20, **fields: Any
) -> list[PartitionData]:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index, offset in enumerate(offsets)
    ]
    settings = {"max_wait_ms": 0, "min_bytes": 1, **fields}
    request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=partitions)], **settings)
    return [data for topic in client.ask(request, version).responses for data in topic.partitions]


def messages(data: PartitionData) -> list[Record]:
    return decode_message_set(stored(data))


def offsets(data: PartitionData) -> list[int]:
    return [record.offset for record in messages(data)]


# --- produce ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", OLD_PRODUCE)
def test_a_message_set_is_stored_as_one_batch(
    client: RawClient, version: int, magic: int, codec: Compression
) -> None:
    create_topic(client, "orders")
    sent = some()
    records = bytes(build_message_set(sent, magic, compression=codec))
    answers = [produce(client, "orders", records, version=version)[0] for _ in range(2)]
    assert [(each.error_code, each.base_offset, each.log_append_time_ms) for each in answers] == [
        (0, 0, -1),
        (0, 3, -1),
    ]
    (data,) = fetch(client, "orders", 3)
    (found,) = (decode_records(stored(data)),)
    expected = [Record(3 + i, each.timestamp, each.key, each.value, []) for i, each in enumerate(sent)]
    if magic == 0:
        for record in expected:
            record.timestamp = -1
    assert plain(found) == plain(expected)
    assert stored(data)[22] == codec


def test_many_messages_are_converted_in_a_thread(client: RawClient) -> None:
    create_topic(client, "orders")
    sent = some(5_000, size=20)
    for codec in CODECS:
        (answer,) = produce(client, "orders", bytes(build_message_set(sent, 1, compression=codec)), version=2)
        assert answer.error_code == 0
    (data,) = fetch(client, "orders", 0)
    assert values(data) == [record.value for record in sent] * 4


@pytest.mark.parametrize("cut", [0, 5, 12, 16, 17, 30])
def test_a_set_without_a_whole_message_stores_nothing_and_is_no_error(client: RawClient, cut: int) -> None:
    create_topic(client, "orders")
    records = bytes(build_message_set(some(), 1))[:cut]
    (answer,) = produce(client, "orders", records, version=2)
    assert (answer.error_code, answer.base_offset) == (0, -1)
    (data,) = fetch(client, "orders", 0)
    assert data.high_watermark == 0


def test_a_message_that_is_cut_short_is_not_stored_and_those_before_it_are(client: RawClient) -> None:
    create_topic(client, "orders")
    assert produce(client, "orders", bytes(build_message_set(some(), 1))[:-1], version=2)[0].base_offset == 0
    (data,) = fetch(client, "orders", 0)
    assert values(data) == [b"value 0", b"value 1"]


def test_old_clients_with_acks_zero_get_no_answer(client: RawClient) -> None:
    create_topic(client, "orders")
    good = bytes(build_message_set(some(), 0))
    for records in (good, b"", good[:-1] + b"!"):
        client.send(encode_request(produce_request("orders", records, acks=0), 0, 1, "raw"))
        if records[-1:] == b"!":
            assert client.is_closed()
        else:
            client.send(api_versions(2))
            assert correlation_ids(client, 1) == [2]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (lambda good: good[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (lambda good: b"\xff" * 100, ErrorCode.CORRUPT_MESSAGE),
        (lambda good: good + bytes(build_message_set(some(), 0)), ErrorCode.INVALID_RECORD),
        (lambda good: good + bytes(batch(b"a")), ErrorCode.INVALID_RECORD),
        (
            lambda good: good + bytes(build_message_set(some(), 1, compression=Compression.GZIP)),
            ErrorCode.INVALID_RECORD,
        ),
        (lambda good: bytes(build_message_set([Record(0, -2, b"k", b"v")], 1)), ErrorCode.INVALID_TIMESTAMP),
        (
            lambda good: bytes(
                build_message_set([Record(0, -2, b"k", b"v")], 1, compression=Compression.GZIP)
            ),
            ErrorCode.INVALID_TIMESTAMP,
        ),
        (lambda good: bytes(build_message_set(some(1, size=2_000_000), 1)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=[
        "crc",
        "garbage",
        "two magics",
        "a batch",
        "a wrapper",
        "before 1970",
        "wrapped before 1970",
        "large",
    ],
)
def test_wrong_message_sets_are_refused(
    client: RawClient, records: Callable[[bytes], bytes], error: ErrorCode
) -> None:
    create_topic(client, "orders")
    (answer,) = produce(client, "orders", records(bytes(build_message_set(some(), 1))), version=2)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    (data,) = fetch(client, "orders", 0)
    assert data.high_watermark == 0


def test_a_compacted_topic_refuses_messages_without_a_key(client: RawClient) -> None:
    topic_with(client, cleanup_policy="compact")
    (answer,) = produce(client, "orders", bytes(build_message_set(some(), 1)), version=2)
    assert answer.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "zstd"])
def test_the_topic_chooses_the_codec_of_converted_messages(client: RawClient, wanted: str) -> None:
    topic_with(client, compression_type=wanted)
    for codec in CODECS:
        produce(client, "orders", bytes(build_message_set(some(), 0, compression=codec)), version=0)
    (data,) = fetch(client, "orders", 0)
    assert values(data) == [b"value 0", b"value 1", b"value 2"] * 4
    assert stored(data)[22] == {"uncompressed": 0, "gzip": 1, "zstd": 4}[wanted]


@pytest.mark.parametrize("codec", CODECS)
def test_claimed_append_time_is_taken_by_a_topic_with_create_time_alone(
    client: RawClient, codec: Compression
) -> None:
    sent = bytes(
        build_message_set(some(), 1, timestamp_type=TimestampType.LOG_APPEND_TIME, compression=codec)
    )
    create_topic(client, "orders")
    (answer,) = produce(client, "orders", sent, version=2)
    assert (answer.error_code, answer.log_append_time_ms) == (ErrorCode.NONE, -1)
    (data,) = fetch(client, "orders", 0)
    assert not stored(data)[22] & 0x08


def test_claimed_append_time_is_refused_by_a_topic_with_append_time(client: RawClient) -> None:
    topic_with(client, message_timestamp_type="LogAppendTime")
    sent = bytes(build_message_set(some(), 1, timestamp_type=TimestampType.LOG_APPEND_TIME))
    (answer,) = produce(client, "orders", sent, version=2)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_told_to_producer_and_consumer(client: RawClient) -> None:
    topic_with(client, message_timestamp_type="LogAppendTime")
    (answer,) = produce(client, "orders", bytes(build_message_set(some(), 1)), version=2)
    assert abs(answer.log_append_time_ms - time.time() * 1000) < 60_000
    (data,) = old_fetch(client, 0)
    assert {record.timestamp for record in messages(data)} == {answer.log_append_time_ms}
    assert all(message.attributes == 0x08 for message in iter_messages(stored(data)))


# --- fetch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", OLD_FETCH)
def test_batches_are_answered_as_messages(client: RawClient, version: int, codec: Compression) -> None:
    create_topic(client, "orders")
    sent = some(4)
    for record in sent:
        record.headers = [("h", b"left out")]
    for first in (0, 2):
        records = [Record(-1, r.timestamp, r.key, r.value, r.headers) for r in sent[first : first + 2]]
        produce(client, "orders", bytes(build_batch(records, compression=codec)))
    (data,) = old_fetch(client, 0, version=version)
    assert (data.error_code, data.high_watermark) == (0, 4)
    for record in sent:
        record.headers = []
        if version < 2:
            record.timestamp = -1
    assert plain(messages(data)) == plain(sent)
    assert {message.magic for message in iter_messages(stored(data))} == {0 if version < 2 else 1}


@pytest.mark.parametrize("version", OLD_FETCH)
def test_a_fetch_within_a_batch_begins_there(client: RawClient, version: int) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a", b"b", b"c"))
    produce(client, "orders", batch(b"d"))
    assert offsets(old_fetch(client, 1, version=version)[0]) == [1, 2, 3]
    assert stored(old_fetch(client, 4, version=version)[0]) == b""
    assert old_fetch(client, 5, version=version)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_message_larger_than_the_hard_limit_is_answered_in_part(client: RawClient, version: int) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a" * 100, b"b" * 100, b"c" * 100))
    (data,) = old_fetch(client, 0, version=version, max_bytes=290)
    assert (offsets(data), len(stored(data))) == ([0, 1], 290)
    (data,) = old_fetch(client, 2, version=version, max_bytes=50)
    assert (offsets(data), len(stored(data))) == ([], 50)
    assert stored(old_fetch(client, 0, version=version, max_bytes=0)[0]) == b""


def test_from_v3_the_first_batch_is_whole_whatever_the_limits(client: RawClient) -> None:
    create_topic(client, "orders", 2)
    for partition in (0, 1):
        produce(client, "orders", batch(b"a" * 100, b"b" * 100), partitions=[partition])
    first, second = old_fetch(client, 0, 0, max_bytes=10)
    assert (offsets(first), stored(second)) == ([0, 1], b"")
    first, second = old_fetch(
        client,
        0,
        0,
    )
    assert (offsets(first), offsets(second)) == ([0, 1], [0, 1])


def test_a_request_is_given_no_more_than_its_share_at_once(client: RawClient) -> None:
    create_topic(client, "orders", 2)
    for partition in (0, 1):
        for _ in range(5):
            produce(client, "orders", batch(*[b"x" * 100_000] * 9), partitions=[partition])
    sizes = [len(stored(data)) for data in old_fetch(client, 0, 0, version=1, max_bytes=50 << 20)]
    assert all(LEAST_BYTES < size <= ENOUGH_BYTES // 2 for size in sizes)
    found: list[int] = []
    while len(found) < 45:
        (data,) = old_fetch(client, len(found), version=1, max_bytes=50 << 20, min_bytes=40 << 20)
        found += offsets(data)
    assert found == list(range(45))


@pytest.mark.parametrize("version", OLD_FETCH)
def test_a_waiting_old_fetch_is_answered_by_the_next_append(
    client: RawClient, kafka_broker: kafkapy.Broker, version: int
) -> None:
    create_topic(client, "orders")
    with RawClient(kafka_broker.bootstrap_servers) as consumer:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            topics=[FetchTopic(topic="orders", partitions=[partition])], max_wait_ms=WAIT_MS, min_bytes=1
        )
        consumer.send(encode_request(request, version, 1, "raw"))
        produce(client, "orders", batch(b"a"))
        _, answer = decode_response(ApiKey.FETCH, version, consumer.receive_frame())
    assert isinstance(answer, FetchResponse)
    assert offsets(answer.responses[0].partitions[0]) == [0]


def test_an_old_fetch_whose_client_goes_away_is_forgotten(
    client: RawClient, kafka_broker: kafkapy.Broker
) -> None:
    create_topic(client, "orders")
    for _ in range(20):
        with RawClient(kafka_broker.bootstrap_servers) as consumer:
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(
                topics=[FetchTopic(topic="orders", partitions=[partition])], max_wait_ms=WAIT_MS, min_bytes=1
            )
            consumer.send(encode_request(request, 0, 1, "raw"))
        produce(client, "orders", batch(b"a" * 10_000))
    assert offsets(old_fetch(client, 0)[0]) == list(range(20))


def test_zstd_is_unsupported_in_old_fetches(client: RawClient) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a"))
    produce(client, "orders", batch(b"b", compression=Compression.ZSTD))
    for version in OLD_FETCH:
        assert offsets(old_fetch(client, 0, version=version)[0]) == [0]
        (data,) = old_fetch(client, 1, version=version)
        assert (data.error_code, data.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)


@pytest.mark.parametrize(("version", "refused"), [(0, True), (3, True), (9, True), (10, False)])
def test_a_topic_with_zstd_is_refused_before_v10(client: RawClient, version: int, refused: bool) -> None:
    topic_with(client, compression_type="zstd")
    produce(client, "orders", batch(b"a"))
    (data,) = old_fetch(client, 0, version=version)
    assert data.error_code == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if refused else ErrorCode.NONE)


def test_transaction_markers_are_passed_over(client: RawClient, kafka_broker: kafkapy.Broker) -> None:
    create_topic(client, "orders")
    options = {"producer_id": 5, "producer_epoch": 0}
    append(kafka_broker, batch(b"a", b"b", transactional=True, base_sequence=0, **options))
    append(kafka_broker, marker(5))
    for version in OLD_FETCH:
        assert offsets(old_fetch(client, 0, version=version)[0]) == [0, 1]
        start = time.monotonic()
        (data,) = old_fetch(client, 2, version=version, max_wait_ms=80)
        assert (data.error_code, stored(data), data.high_watermark) == (0, b"", 3)
        assert time.monotonic() - start >= 0.08
    produce(client, "orders", batch(b"c"))
    for version in OLD_FETCH:
        assert offsets(old_fetch(client, 2, version=version, max_bytes=100)[0]) == [3]
        assert offsets(old_fetch(client, 0, version=version)[0]) == [0, 1, 3]


def test_a_damaged_batch_is_an_error_and_not_converted(
    client: RawClient, kafka_broker: kafkapy.Broker
) -> None:
    create_topic(client, "orders")
    produce(client, "orders", batch(b"a" * 100))
    produce(client, "orders", batch(b"b" * 100))

    async def active_segment(core: BrokerCore) -> Segment:
        return core.replicas.partition("orders", 0).log.segments.active

    segment = kafka_broker.call(active_segment)
    with open(segment.path, "r+b") as file:
        file.seek(segment.size - 10)
        file.write(b"x")
    for version in OLD_FETCH:
        assert offsets(old_fetch(client, 0, version=version)[0]) == [0]
        (data,) = old_fetch(client, 1, version=version)
        assert (data.error_code, stored(data)) == (ErrorCode.CORRUPT_MESSAGE, b"")


def marker(producer_id: int) -> bytes:
    record = Record(-1, START, control_record_key(ControlType.COMMIT), end_txn_marker_value(0))
    return bytes(
        build_batch([record], control=True, transactional=True, producer_id=producer_id, producer_epoch=0)
    )


def append(broker: kafkapy.Broker, records: bytes) -> None:
    """Append as the transaction coordinator does."""

    async def run(core: BrokerCore) -> None:
        partition = core.replicas.partition("orders", 0)
        now_ms, origin = core.clock.now_ms(), AppendOrigin.COORDINATOR
        prepared = prepare_batches(
            bytearray(records), config=partition.log.config, origin=origin, now_ms=now_ms
        )
        verification = partition.begin_verification(5, 0, -1, begins_at_zero=False, now_ms=now_ms)
        info = partition.append(prepared, origin=origin, now_ms=now_ms, verification=verification)
        assert await partition.watch_commit(info.last_offset + 1, 10)

    broker.call(run)


class TestWithoutDownConversion:
    @pytest.fixture
    def kafka_broker_config(self) -> dict[str, object]:
        return {"log.message.downconversion.enable": "false"}

    def test_old_fetches_are_refused(self, client: RawClient) -> None:
        create_topic(client, "orders")
        produce(client, "orders", batch(b"a"))
        for version in OLD_FETCH:
            assert old_fetch(client, 0, version=version)[0].error_code == ErrorCode.UNSUPPORTED_VERSION
        assert old_fetch(client, 0, version=4)[0].error_code == 0


# --- list offsets -------------------------------------------------------------------------------------------


def list_offsets(
    client: RawClient, timestamp: int, count: int, *, replica_id: int = -1, partition: int = 0
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, max_num_offsets=count)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])]
    )
    answer: ListOffsetsPartitionResponse = client.ask(request, 0).topics[0].partitions[0]
    return answer


def test_v0_lists_where_segments_start(client: RawClient) -> None:
    topic_with(client, segment_bytes="1048576")
    assert list_offsets(client, -1, 10).old_style_offsets == [0]
    for _ in range(5):
        produce(client, "orders", batch(*[b"x" * 300_000] * 2))
    now = int(time.time() * 1000)
    assert list_offsets(client, -2, 10).old_style_offsets == [0]
    assert list_offsets(client, -1, 1).old_style_offsets == [10]
    assert list_offsets(client, -1, 0).old_style_offsets == []
    assert list_offsets(client, -1, -5).old_style_offsets == []
    assert list_offsets(client, now - 3_600_000, 10).old_style_offsets == []
    every = list_offsets(client, -1, 10).old_style_offsets
    assert every == sorted(every, reverse=True)
    assert (every[0], every[-1]) == (10, 0)
    assert len(every) > 2
    assert list_offsets(client, now + 3_600_000, 10).old_style_offsets == every
    assert list_offsets(client, -1, 2, replica_id=-2).old_style_offsets == every[:2]


def test_v0_refuses_what_later_versions_ask(client: RawClient) -> None:
    create_topic(client, "orders")
    assert list_offsets(client, -3, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offsets(client, -1, 1, partition=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def make_no_files(_: ReplicaManager) -> None:
    pass


def test_v0_lists_the_start_of_a_log_that_has_no_files_yet(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReplicaManager, "make_files", make_no_files)
    topic_with(client)
    assert list_offsets(client, -1, 10).old_style_offsets == [0]
    assert list_offsets(client, -2, 10).old_style_offsets == [0]
    produce(client, "orders", batch(b"a"))
    assert list_offsets(client, -1, 10).old_style_offsets == [1, 0]
