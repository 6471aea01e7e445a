"""The audit log names what clients are refused, and no client can fill it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kafkapy
from kafkapy.logs.set_up import _JsonFormatter, _TextFormatter
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.types import ApiKey
from kafkapy.security.acls.audit_log import MOST, MOST_COUNTED, MOST_OF_CLIENT, AuditLog
from kafkapy.security.acls.model import Operation, ResourceType
from tests.network.raw_client import RawClient

MALLORY = "User:mallory", "10.0.0.1"
LOGGER = "kafkapy.authorizer"


class Minutes:
    """Calls what an audit log wants at the end of a minute."""

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.ends.append(call)
        return SimpleNamespace(cancel=lambda: None)


@pytest.fixture
def minutes() -> Minutes:
    return Minutes()


@pytest.fixture
def audit_log(minutes: Minutes, caplog: pytest.LogCaptureFixture) -> AuditLog:
    caplog.set_level(logging.INFO, LOGGER)
    return AuditLog(minutes.call_later)


def refuse(audit_log: AuditLog, name: str, client: tuple[str, str] = MALLORY) -> None:
    audit_log.refused(*client, ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC, name)


def test_a_refusal_is_one_line_for_people(audit_log: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    refuse(audit_log, "orders")
    line = _TextFormatter().format(caplog.records[0])
    assert line.endswith(
        'INFO kafkapy.authorizer: "User:mallory" from 10.0.0.1 was refused WRITE on TOPIC "orders" by PRODUCE'
    )


def test_a_refusal_has_its_fields_for_machines(audit_log: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    refuse(audit_log, "orders")
    told = json.loads(_JsonFormatter().format(caplog.records[0]))
    assert (
        told.items()
        >= {
            "level": "info",
            "logger": LOGGER,
            "principal": "User:mallory",
            "host": "10.0.0.1",
            "operation": "WRITE",
            "resource_type": "TOPIC",
            "resource_name": "orders",
            "api": "PRODUCE",
            "result": "refused",
        }.items()
    )


@pytest.mark.parametrize(
    "name",
    [
        "a\n2026-01-01 00:00:00 INFO kafkapy.authorizer: forged",
        "a\u2028b",
        "a\x9b31mb",
        "\u202eretupmoc",
        'a" by FETCH',
        "x" * 100_000,
    ],
)
def test_names_from_clients_forge_nothing(
    audit_log: AuditLog, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    refuse(audit_log, name, (f"User:{name}", "10.0.0.1"))
    line = _TextFormatter().format(caplog.records[0])
    assert len(line) < 1_000
    assert len(line.splitlines()) == 1
    assert not {"\x9b", "\u202e"} & set(line)
    assert '" by FETCH by' not in line.replace('\\"', "")
    assert len(_JsonFormatter().format(caplog.records[0]).split("\n")) == 1


def test_a_refusal_that_is_repeated_is_logged_once_a_minute(
    audit_log: AuditLog, minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1_000):
        refuse(audit_log, "orders")
    assert len(caplog.records) == 1
    minutes.ends.pop()()
    assert caplog.records[1].getMessage() == (
        '"User:mallory" from 10.0.0.1 was refused 999 more times in the last minute'
    )
    refuse(audit_log, "orders")
    assert len(caplog.records) == 3


def test_a_client_that_is_refused_many_things_does_not_fill_the_log(
    audit_log: AuditLog, minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100_000):
        refuse(audit_log, f"topic-{number}")
    refuse(audit_log, "orders", ("User:bob", "10.0.0.2"))
    assert len(caplog.records) == MOST_OF_CLIENT + 1  # and another client's refusals are still logged
    minutes.ends.pop()()
    assert f"{100_000 - MOST_OF_CLIENT} more times" in caplog.records[-1].getMessage()


def test_many_clients_together_do_not_fill_the_log(
    audit_log: AuditLog, minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10_000):
        refuse(audit_log, "orders", (f"User:{number}", "10.0.0.1"))
    assert len(caplog.records) == MOST
    assert len(audit_log._missing) == MOST_COUNTED
    minutes.ends.pop()()
    assert len(caplog.records) == MOST + MOST_COUNTED + 1
    others = 10_000 - MOST - MOST_COUNTED
    assert caplog.records[-1].getMessage() == f"Other clients were refused {others} more times"
    assert not minutes.ends  # no timer runs while nothing is refused
    assert not audit_log._logged


def test_what_is_missing_is_logged_when_the_broker_stops(
    audit_log: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(audit_log, "orders")
    refuse(audit_log, "orders")
    audit_log.close()
    assert "1 more times" in caplog.records[-1].getMessage()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kafkapy.Broker]:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with kafkapy.Broker(data_dir=tmp_path, config=settings) as broker:
        yield broker


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_a_broker_logs_what_it_refuses_and_not_what_it_leaves_out(
    broker: kafkapy.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with RawClient(broker.bootstrap_servers) as client:
        client.ask(MetadataRequest(topics=None), 9)
        assert messages(caplog) == []
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
    assert messages(caplog) == [
        '"User:ANONYMOUS" from 127.0.0.1 was refused DESCRIBE on TOPIC "orders" by METADATA'
    ]


def test_a_broker_logs_what_it_allows_at_debug_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with (
        kafkapy.Broker(data_dir=tmp_path, config=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
    wanted = '"User:ANONYMOUS" from 127.0.0.1 was allowed DESCRIBE on TOPIC "orders" by METADATA'
    assert wanted in messages(caplog)
