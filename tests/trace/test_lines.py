"""What a line tells of a request and its answer, and which lines filters let pass."""

from __future__ import annotations

import json
import re

import pytest

from kafkapy import Broker
from kafkapy.protocol import codec
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request, response_frame
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafkapy.protocol.records import Record, build_batch
from kafkapy.trace.exchange import CLOSED, Exchange
from kafkapy.trace.lines import Filters
from kafkapy.trace.records import batches_shown
from tests.trace.relaying import Traced, relaying

TOPIC_ID = bytes(range(16))


def exchange(
    request: TopMessage, response: TopMessage | None, version: int, *, client_id: str = "app"
) -> Exchange:
    made = Exchange(1, "client:1", "broker:2", 1.0, encode_request(request, version, 7, client_id)[4:])
    if response is not None:
        assert response.KEY is not None
        body = codec.encode(response, version)
        made.answered, made.response = 1.25, response_frame(response.KEY, version, 7, body)[4:]
    return made


def line(made: Exchange) -> str:
    return Traced(exchanges=[made]).lines().partition(" #1 ")[2].strip()


FENCED = exchange(
    HeartbeatRequest(group_id="readers", generation_id=3, member_id="m-1"),
    HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID),
    4,
)
FETCH = exchange(
    FetchRequest(
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=2, fetch_offset=5)])]
    ),
    None,
    13,
    client_id="reader",
)
METADATA = exchange(
    MetadataRequest(topics=None),
    MetadataResponse(topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID)]),
    12,
)


def test_a_line_has_client_api_version_keys_sizes_time_and_error() -> None:
    assert line(FENCED) == (
        "app Heartbeat v4 group_id=readers member_id=m-1 generation_id=3 32 B, 12 B 250.0 ms"
        " FENCED_INSTANCE_ID"
    )


def test_topics_are_named_by_their_id_until_metadata_told_their_name() -> None:
    assert "Fetch v13 AAECAwQFBgcICQoLDA0ODw-2@5" in line(FETCH)
    assert "Fetch v13 orders-2@5" in Traced(exchanges=[METADATA, FETCH]).lines()


def test_control_characters_of_names_never_reach_the_terminal() -> None:
    made = exchange(HeartbeatRequest(group_id="a\x1b[2Jb\n"), None, 4, client_id="\x1b[31m")
    assert "\x1b" not in Traced(exchanges=[made]).lines(full=True)
    assert "group_id=a\ufffd[2Jb\ufffd" in line(made)


def test_the_answer_of_a_broker_that_does_not_know_the_version_of_api_versions_is_decoded() -> None:
    made = exchange(ApiVersionsRequest(), None, 4)
    old = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    made.answered, made.response = 1.0, b"\0\0\0\7" + codec.encode(old, 0)
    assert line(made).endswith("0.0 ms UNSUPPORTED_VERSION")


@pytest.mark.parametrize(
    ("filters", "shown"),
    [
        (Filters(), ["Metadata", "Heartbeat", "Fetch", "closed", "cannot"]),
        (Filters(apis=frozenset({"fetch", "metadata"})), ["Metadata", "Fetch", "cannot"]),
        (Filters(client_ids=("read*",)), ["Fetch", "cannot"]),
        (Filters(topics=("orders",)), ["Metadata", "Fetch", "cannot"]),
        (Filters(topics=("other",)), ["cannot"]),
        (Filters(only_errors=True), ["Heartbeat", "cannot"]),
    ],
)
def test_filters_let_pass_what_fits_all_of_them_and_failures_of_connections(
    filters: Filters, shown: list[str]
) -> None:
    events = [Exchange(1, "client:1", "broker:2", 1.0, note=note) for note in (CLOSED, "cannot be reached")]
    lines = Traced(exchanges=[METADATA, FENCED, FETCH, *events]).lines(filters).splitlines()
    assert len(lines) == len(shown)
    assert all(word in text for word, text in zip(shown, lines, strict=True))


def test_records_are_shown_in_full_and_long_ones_cut() -> None:
    from confluent_kafka import Producer

    with Broker() as broker, relaying(broker.bootstrap_servers) as traced:
        settings = {"bootstrap.servers": traced.address, "compression.type": "gzip", "linger.ms": 5000}
        producer = Producer({**settings, "transactional.id": "t"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", "two apples", key=b"\xff\x01", headers=[("trace", "17"), ("none", None)])
        producer.produce("orders", "\u20ac" * 1000)
        for _ in range(20):
            producer.produce("orders", None)
        producer.commit_transaction(30)
        text = traced.lines(Filters(frozenset({"produce"})), full=True)
    (asked,) = re.findall(r"request (\{.*\})", text)
    (topic,) = json.loads(asked)["topicData"]
    records = topic["partitionData"][0]["records"]
    (batch,) = records["batches"]
    assert records["told"].startswith("22 records in 1 batch, offsets 0-21")
    named = ("recordCount", "compression", "producerId", "baseSequence", "isTransactional", "isControl")
    assert [batch[name] for name in named] == [22, "gzip", 0, 0, True, False]
    first, second, *others = batch["records"]
    assert (first["key"], first["value"]) == ({"base64": "/wE="}, "two apples")
    assert first["headers"] == [{"key": "trace", "value": "17"}, {"key": "none", "value": None}]
    assert second["value"] == "\u20ac" * 66 + "\u2026 (3,000 bytes)"
    assert [each["value"] for each in others] == [None] * 8


@pytest.mark.parametrize("damage", [10, 61, 75])
def test_damaged_records_are_told(damage: int) -> None:
    records = bytearray(build_batch([Record(value=b"x" * 50)]))
    for place in range(damage, min(damage + 8, len(records))):
        records[place] = 0xFF
    assert "bytes" in str(batches_shown(bytes(records)))
