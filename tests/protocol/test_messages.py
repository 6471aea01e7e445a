"""The message classes: one per message, complete, and as in the schemas."""

import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from kafkapy.protocol import codec
from kafkapy.protocol.errors import EncodeError, ErrorCode, KafkaError
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.protocol.messages.fetch import FetchRequest, FetchTopic, PartitionData
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.transaction_records import TransactionLogValue
from kafkapy.protocol.messages.vote import VoteRequestTopicData, VoteResponseTopicData
from kafkapy.protocol.schema import snake_case
from kafkapy.protocol.types import (
    ZERO_UUID,
    ApiKey,
    TopicPartition,
    random_uuid,
    uuid_from_text,
    uuid_to_text,
)
from tests.protocol.random_messages import message_classes, versions_of

ROOT = Path(__file__).resolve().parents[2]


def test_every_message_of_kafka_has_a_class() -> None:
    classes = message_classes()
    assert len(classes) == len(set(classes)) == 285
    assert sum(len(versions_of(message_class)) for message_class in classes) == 862


def test_the_generated_modules_are_those_of_the_schemas() -> None:
    generate = [sys.executable, str(ROOT / "scripts" / "generate"), "--check"]
    finished = subprocess.run(generate, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_every_api_key_has_its_request_and_response() -> None:
    assert [int(key) for key in ApiKey] == sorted(API_SCHEMAS)
    for key, api in API_SCHEMAS.items():
        assert ApiKey(key).name == snake_case(api.name).upper()
        for found in (request_class(key), response_class(key)):
            assert key == found.KEY
            assert (api.first_version, api.last_version) == found.VERSIONS
            assert api.flexible_from == found.FLEXIBLE_FROM
    with pytest.raises(KeyError):
        request_class(1000)


def test_fields_have_kafkas_defaults() -> None:
    request = FetchRequest()
    assert (request.max_bytes, request.session_epoch, request.rack_id) == (0x7FFFFFFF, -1, "")
    assert (request.cluster_id, request.topics, request.replica_state.replica_id) == (None, [], -1)


def test_no_two_messages_share_a_default_list() -> None:
    assert FetchRequest().topics is not FetchRequest().topics
    assert FetchTopic().partitions == []


def test_null_and_empty_are_different_where_a_field_may_be_null() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_structs_of_one_name_and_two_meanings_carry_the_name_of_their_message() -> None:
    assert VoteRequestTopicData.__slots__ == VoteResponseTopicData.__slots__
    assert VoteRequestTopicData() != VoteResponseTopicData()


def test_a_struct_that_stands_in_two_places_has_the_fields_of_both() -> None:
    slots = LeaderAndIsrPartitionState.__slots__
    assert slots[0] == "topic_name"
    assert slots[-5:] == (
        "replicas",
        "adding_replicas",
        "removing_replicas",
        "is_new",
        "leader_recovery_state",
    )


def test_a_transaction_of_version_0_has_none_of_the_later_tagged_fields() -> None:
    assert len(codec.encode(TransactionLogValue(transaction_partitions=None), 0)) == 8 + 2 + 4 + 1 + 4 + 8 + 8


def test_a_request_is_not_sent_without_a_value_that_its_version_lacks() -> None:
    with pytest.raises(EncodeError, match="allow_auto_topic_creation"):
        codec.encode(MetadataRequest(allow_auto_topic_creation=False), 3)
    codec.encode(MetadataRequest(allow_auto_topic_creation=False), 4)


def test_an_ignorable_value_that_the_version_lacks_is_left_out() -> None:
    request = FetchRequest(rack_id="here")
    assert codec.decode(FetchRequest, codec.encode(request, 4), 4).rack_id == ""


def test_a_response_leaves_out_what_its_version_lacks() -> None:
    response = MetadataResponse(cluster_id="c", throttle_time_ms=5, error_code=3)
    assert codec.decode(MetadataResponse, codec.encode(response, 0), 0) == MetadataResponse()


@pytest.mark.parametrize(
    "message",
    [
        FetchRequest(max_wait_ms=1 << 31),
        FetchRequest(rack_id="\ud800"),
        FetchRequest(rack_id="a" * 32768),
        FetchRequest(rack_id=None),  # type: ignore[arg-type]
        FetchRequest(topics=None),  # type: ignore[arg-type]
        FetchRequest(max_wait_ms="1"),  # type: ignore[arg-type]
        FetchRequest(max_wait_ms=None),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_its_field_is_an_encode_error(message: FetchRequest) -> None:
    for version in (11, 12):
        with pytest.raises(EncodeError, match=r"FetchRequest v|32767"):
            codec.encode(message, version)


def test_a_uuid_that_is_not_16_bytes_is_an_encode_error() -> None:
    for uuid in (b"", bytes(15), uuid_to_text(ZERO_UUID).encode()):
        with pytest.raises(EncodeError, match="16 bytes"):
            codec.encode(FetchRequest(topics=[FetchTopic(topic_id=uuid)]), 13)
        assignment = BrokerHeartbeatRequest(offline_log_dirs=[ZERO_UUID, uuid])
        with pytest.raises(EncodeError, match="16 bytes"):
            codec.encode(assignment, 1)


def test_an_encode_error_shows_the_line_of_the_generated_code() -> None:
    with pytest.raises(EncodeError) as caught:
        codec.encode(FetchRequest(max_wait_ms="1"), 12)  # type: ignore[arg-type]
    assert "o1.max_wait_ms" in "".join(traceback.format_exception(caught.value))


def test_a_version_that_does_not_exist_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match="no version"):
        codec.encode(FetchRequest(), 99)


def test_messages_are_equal_by_value_and_not_hashable() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a") != FetchTopic(topic="b")
    assert PartitionData(records=b"ab") == PartitionData(records=memoryview(b"ab"))
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_the_text_of_a_message_keeps_passwords_and_records_to_itself() -> None:
    text = repr(SaslAuthenticateRequest(auth_bytes=b"\0user\0secret"))
    assert "secret" not in text
    assert "<12 bytes>" in text


def test_error_codes_know_what_clients_retry() -> None:
    assert ErrorCode(35) is ErrorCode.UNSUPPORTED_VERSION
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.UNKNOWN_SERVER_ERROR.retriable
    error = KafkaError(ErrorCode.INVALID_CONFIG, "no")
    assert (error.code, error.message, str(error)) == (40, "no", "INVALID_CONFIG: no")


def test_uuids_have_kafkas_text_form() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    for _ in range(500):
        uuid = random_uuid()
        assert uuid[6] >> 4 == 4
        text = uuid_to_text(uuid)
        assert len(text) == 22
        assert not text.startswith("-")
        assert uuid_from_text(text) == uuid_from_text(text + "==") == uuid
    for wrong in ("", "A", "A" * 23, "é" * 22, "*" * 22):
        with pytest.raises(ValueError, match="not a base64 UUID"):
            uuid_from_text(wrong)


def test_a_topic_partition_reads_as_its_directory() -> None:
    assert str(TopicPartition("a.b", 3)) == "a.b-3"
