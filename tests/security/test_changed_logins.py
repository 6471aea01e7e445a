"""Logins that change while the broker runs, by IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.listeners import Listeners

BROKER: Final = 4
PREFIX: Final = "listener.name.sasl_plaintext."
LINE: Final = f"{PREFIX}plain.sasl.jaas.config"
MECHANISMS: Final = f"{PREFIX}sasl.enabled.mechanisms"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": "0",
        LINE: f'{PLAIN} user_alice="old";',
    }
    with Broker(config=config) as broker:
        yield Listeners(broker)


def alter(listeners: Listeners, *settings: tuple[str, str]) -> tuple[int, str]:
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=changes)
    with listeners.connect(SecurityProtocol.PLAINTEXT) as client:
        (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message or ""


def comes_in(listeners: Listeners, user: str, password: str) -> bool:
    with listeners.connect(SecurityProtocol.SASL_PLAINTEXT) as client:
        return client.log_in(user, password)


def test_passwords_and_users_change(listeners: Listeners) -> None:
    assert comes_in(listeners, "alice", "old")
    assert alter(listeners, (LINE, f'{PLAIN} user_alice="new" user_bob="his";')) == (ErrorCode.NONE, "")
    assert comes_in(listeners, "alice", "new")
    assert comes_in(listeners, "bob", "his")
    assert not comes_in(listeners, "alice", "old")


def test_mechanisms_change(listeners: Listeners) -> None:
    line = (f"{PREFIX}scram-sha-256.sasl.jaas.config", SCRAM)
    assert alter(listeners, (MECHANISMS, "SCRAM-SHA-256"), line) == (ErrorCode.NONE, "")
    with listeners.connect(SecurityProtocol.SASL_PLAINTEXT) as client:
        answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["SCRAM-SHA-256"]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (LINE, "secret", f"{LINE}: the login module must end with a semicolon"),
        (
            LINE,
            SCRAM,
            f"{LINE}: expected PlainLoginModule, found org.apache.kafka.common.security.scram.",
        ),
        (MECHANISMS, "PLAIN,SCRAM-SHA-1", f"{MECHANISMS}: SCRAM-SHA-1 is not supported; expected PLAIN,"),
        (MECHANISMS, "PLAIN,SCRAM-SHA-256", f"{PREFIX}scram-sha-256.sasl.jaas.config: not set;"),
    ],
)
def test_what_lets_nobody_in_is_refused(listeners: Listeners, setting: str, value: str, message: str) -> None:
    error, text = alter(listeners, (setting, value))
    assert error == ErrorCode.INVALID_REQUEST
    assert text.startswith(message)
    assert "secret" not in text
    assert comes_in(listeners, "alice", "old")
