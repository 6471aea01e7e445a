"""The log of all requests: when it is on, what a line has, and that it is off otherwise."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kafkapy import Broker
from kafkapy.logs import REQUESTS
from kafkapy.logs.set_up import setup_logging
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.handlers.produce_client import batch
from tests.network.raw_client import RawClient

PREFIX = "Completed request:"
LOGGER, SET, DELETE = 8, 0, 1


@pytest.fixture(autouse=True)
def levels(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Requests have the level INFO, whatever a test sets."""
    caplog.set_level(logging.DEBUG)
    yield
    REQUESTS.setLevel(logging.INFO)


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    texts = [each.getMessage() for each in caplog.records if each.name == REQUESTS.name]
    return [json.loads(text.removeprefix(PREFIX)) for text in texts if text.startswith(PREFIX)]


def named(caplog: pytest.LogCaptureFixture, name: str) -> list[Any]:
    return [line for line in lines(caplog) if line["requestHeader"]["requestApiKeyName"] == name]


def set_level(client: RawClient, operation: int, level: str | None, *, validate_only: bool = False) -> None:
    config = AlterableConfig(name=REQUESTS.name, config_operation=operation, value=level)
    resource = AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = client.ask(request, 1).responses
    assert answer.error_code == 0


def test_a_line_has_the_request_the_answer_and_where_they_went(caplog: pytest.LogCaptureFixture) -> None:
    REQUESTS.setLevel(logging.DEBUG)
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name="absent")], allow_auto_topic_creation=False), 9
        )
        here, there = client.socket.getpeername(), client.socket.getsockname()
    (line,) = named(caplog, "METADATA")
    texts = {each.getMessage(): each.__dict__.get("fields") for each in caplog.records}
    (fields,) = [each for text, each in texts.items() if '"requestApiKeyName":"METADATA"' in text]
    assert fields is not None
    assert (fields["api"], fields["version"], fields["principal"]) == ("METADATA", 9, "User:ANONYMOUS")
    assert (fields["host"], fields["client_id"]) == (there[0], line["requestHeader"]["clientId"])
    assert fields["total_ms"] == pytest.approx(line["totalTimeMs"], abs=0.1)
    header = line["requestHeader"]
    assert (header["requestApiKey"], header["requestApiVersion"]) == (3, 9)
    assert line["request"]["topics"] == [{"name": "absent"}]
    assert [(each["name"], each["errorCode"]) for each in line["response"]["topics"]] == [("absent", 3)]
    assert line["connection"] == f"{here[0]}:{here[1]}-{there[0]}:{there[1]}"
    assert (line["principal"], line["listener"]) == ("User:ANONYMOUS", "PLAINTEXT")
    assert line["securityProtocol"] == "PLAINTEXT"
    assert 0 <= line["localTimeMs"] <= line["totalTimeMs"]


def test_records_are_not_in_it(caplog: pytest.LogCaptureFixture) -> None:
    REQUESTS.setLevel(logging.DEBUG)
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        partition = PartitionProduceData(index=0, records=batch(b"pl4nted"))
        topic = TopicProduceData(name="t", partition_data=[partition])
        client.ask(ProduceRequest(acks=-1, timeout_ms=9000, topic_data=[topic]), 9)
        wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        found = client.ask(FetchRequest(max_bytes=1 << 20, topics=[wanted]), 11)
        assert b"pl4nted" in bytes(found.responses[0].partitions[0].records)
    (produce,), (fetch,) = named(caplog, "PRODUCE"), named(caplog, "FETCH")
    (shown,) = produce["request"]["topicData"][0]["partitionData"]
    assert shown["records"].endswith(" bytes)")
    assert produce["response"]["responses"][0]["partitionResponses"][0]["errorCode"] == 0
    assert fetch["response"]["responses"][0]["partitions"][0]["records"].endswith(" bytes)")
    assert "pl4nted" not in caplog.text


def test_an_answer_that_is_encoded_ahead_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    REQUESTS.setLevel(logging.DEBUG)
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.ask(ApiVersionsRequest(client_software_name="n", client_software_version="1"), 3)
    (line,) = named(caplog, "API_VERSIONS")
    assert line["response"]["errorCode"] == 0


def test_clients_turn_it_on_and_off(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:

        def asked(version: int) -> int:
            caplog.clear()
            client.ask(MetadataRequest(topics=[]), version)
            client.ask(MetadataRequest(topics=[]), version)  # the line of the first is written by now
            return len(named(caplog, "METADATA"))

        assert asked(8) == 0
        set_level(client, SET, "DEBUG", validate_only=True)
        assert asked(8) == 0
        set_level(client, SET, "DEBUG")
        assert asked(8) >= 1
        set_level(client, SET, "INFO")
        assert asked(8) == 0


def test_the_request_that_turns_it_on_is_the_first_that_may_be_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It began before, so there is no text of it; and nothing fails."""
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        set_level(client, SET, "DEBUG")
        set_level(client, SET, "INFO")
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_broker_measures_nothing_for_it_while_it_is_off() -> None:
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        shared = broker.core.server.shared
        assert shared.metrics is None
        set_level(client, SET, "DEBUG")
        assert shared.metrics is not None
        set_level(client, SET, "INFO")
        assert shared.metrics is None


def test_the_level_of_all_loggers_does_not_turn_it_on() -> None:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        setup_logging("debug", "text")
        assert not REQUESTS.isEnabledFor(logging.DEBUG)
        assert REQUESTS.isEnabledFor(logging.WARNING)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
