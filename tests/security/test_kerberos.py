"""Logins by GSSAPI, with a stand-in for python-gssapi; interop/security has the real one."""

from __future__ import annotations

import logging
import struct
import sys
from collections.abc import Iterator

import pytest

from kafkapy import Broker
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.mechanisms import LoginParts, mechanisms_of
from kafkapy.security.sasl.unknown_users import UnknownUsers
from tests.network.raw_client import RawClient
from tests.security import fake_gssapi
from tests.security.listeners import Listeners

SASL = SecurityProtocol.SASL_PLAINTEXT
LINE = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
OPTIONS = f'useKeyTab=true storeKey=True keyTab="{fake_gssapi.KEYTAB}" principal="kafka/host@REALM"'
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](.*@FRIENDS)s/@.*//U,DEFAULT",
    "connection.failed.authentication.delay.ms": "0",
    LINE: f"{MODULE} {OPTIONS};",
}
OFFER = b"signed:\x01\x01\x00\x00"
CHOICE = b"signed:\x01\x00\x00\x00"


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "gssapi", fake_gssapi)
        yield


@pytest.fixture(scope="module")
def listeners(_library: None) -> Iterator[Listeners]:
    with Broker(config=SETTINGS) as broker:
        yield Listeners(broker)


def hands_shaken(listeners: Listeners, version: int = 1) -> RawClient:
    client = listeners.connect(SASL)
    assert client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), version).error_code == ErrorCode.NONE
    return client


def frame(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


def answers(client: RawClient, *tokens: bytes) -> list[bytes]:
    """The tokens of the broker."""
    found = []
    for token in tokens:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert answer.error_code == ErrorCode.NONE
        found.append(answer.auth_bytes)
    return found


@pytest.mark.parametrize("asks_as", [b"", b"alice@REALM", b"kafka@host"])
def test_a_client_proves_its_name_and_chooses_no_layer(listeners: Listeners, asks_as: bytes) -> None:
    with hands_shaken(listeners) as client:
        tokens = (b"ticket:alice@REALM mutual", b"", CHOICE + asks_as)
        assert answers(client, *tokens) == [b"proof", OFFER, b""]
        assert listeners.connection_of(client.socket).principal == "User:alice"


def test_a_client_that_asks_for_no_proof_is_offered_the_layers_at_once(listeners: Listeners) -> None:
    with hands_shaken(listeners) as client:
        assert answers(client, b"ticket:bob@FRIENDS", CHOICE) == [OFFER, b""]
        assert listeners.connection_of(client.socket).principal == "User:BOB"


def test_tokens_without_a_header_have_no_answer_after_the_choice(listeners: Listeners) -> None:
    """Old clients take the next bytes for the answer to their next request."""
    with hands_shaken(listeners, version=0) as client:
        for token, expected in ((b"ticket:alice@REALM mutual", b"proof"), (b"", OFFER)):
            client.send(frame(token))
            assert client.receive_frame() == expected
        client.send(frame(CHOICE))
        answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([b"stale"], "Clock skew too great"),
        ([b""], "Clock skew too great"),
        ([b"x" * 200_000], "its token has 200,000 bytes"),
        ([b"ticket:alice@REALM mutual", b"x"], "it sent a token where the layers are offered"),
        ([b"ticket:alice@REALM", b"\x01\x00\x00\x00"], "Message stream modified"),
        ([b"ticket:alice@REALM", b"signed:\x04\x00\x00\x00"], "it chose a layer that was not offered"),
        ([b"ticket:alice@REALM", b"signed:\x01\x00\x00"], "it chose a layer that was not offered"),
        ([b"ticket:mallory@ELSEWHERE", CHOICE], "no rule of sasl.kerberos.principal.to.local.rules takes"),
    ],
)
def test_a_client_that_proves_nothing_is_told_nothing(
    listeners: Listeners, caplog: pytest.LogCaptureFixture, tokens: list[bytes], reason: str
) -> None:
    with hands_shaken(listeners) as client, caplog.at_level(logging.DEBUG):
        *before, last = tokens
        answers(client, *before)
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=last), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message is not None
        assert answer.error_message.endswith("due to invalid credentials with SASL mechanism GSSAPI")
        assert client.is_closed()
    assert reason in caplog.text


def test_a_replay_is_not_answered_so_that_the_client_tries_again(listeners: Listeners) -> None:
    """Two clients whose tickets are of the same microsecond look like one."""
    with hands_shaken(listeners) as client:
        client.send(encode_request(SaslAuthenticateRequest(auth_bytes=b"replay"), 2))
        assert client.socket.recv(1) == b""


def mechanisms(settings: dict[str, str]) -> None:
    config = BrokerConfig(settings)

    async def in_thread(*_: object) -> None:
        """Not called."""

    parts = LoginParts(in_thread, in_thread, UnknownUsers(MetadataCache(), in_thread))
    mechanisms_of(ListenerConfig(config, "SASL_PLAINTEXT"), {}, parts)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({LINE: "…ScramLoginModule required;"}, "expected Krb5LoginModule, found …ScramLoginModule"),
        ({LINE: f"{MODULE};"}, "this broker proves its name by a keytab: add useKeyTab=true"),
        ({LINE: f"{MODULE} useKeyTab=true storeKey=false;"}, "add storeKey=true"),
        ({LINE: f"{MODULE} useKeyTab=true storeKey=true;"}, "add keyTab=…"),
        ({LINE: f'{MODULE} useKeyTab=true storeKey=true keyTab="/keys";'}, "add principal=…"),
        (
            {LINE: f"{MODULE} {OPTIONS.replace('/keys', '/other')};"},
            "/other has no usable key of kafka/host@REALM: Key table file '/other' not found",
        ),
        (
            {LINE: f"{MODULE} {OPTIONS.replace('/host', '/else')};"},
            "No key table entry found for kafka/else@REALM",
        ),
        ({"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name: not set; name the service"),
        ({LINE: f"{MODULE} {OPTIONS} serviceName=other;"}, "it is kafka, but .* has serviceName=other"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE"}, "rules: expected DEFAULT or RULE"),
    ],
)
def test_settings_that_cannot_work_end_the_start(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mechanisms(SETTINGS | more)


def test_the_service_may_be_named_in_the_line_for_clients() -> None:
    mechanisms(SETTINGS | {"sasl.kerberos.service.name": "", LINE: f"{MODULE} {OPTIONS} serviceName=kafka;"})


def test_a_missing_library_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(
        ConfigError, match=r"GSSAPI needs the package gssapi: pip install 'kafkapy\[kerberos\]'"
    ):
        mechanisms(SETTINGS)
