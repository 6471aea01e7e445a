"""No password, token or HMAC is printed or written."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.protocol import codec
from kafkapy.protocol.frames import encode_request, response_frame
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.trace.conversation import Conversation
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.trace_file import TraceWriter, read_trace
from tests.trace.relaying import Traced, relaying

SECRET = b"opensesame"


def exchange(request: TopMessage, response: TopMessage | None = None, version: int = 1) -> Exchange:
    made = Exchange(1, "client", "broker", 1.0, encode_request(request, version, 7, "app")[4:])
    if response is not None:
        assert response.KEY is not None
        frame = response_frame(response.KEY, version, 7, codec.encode(response, version))
        made.answered, made.response = 2.0, frame[4:]
    return made


def told(made: Exchange, path: Path) -> tuple[str, str]:
    """What is printed of an exchange, and the frames that are written."""
    printed = Traced(exchanges=[made]).lines(full=True)
    with TraceWriter(path) as writer:
        writer.write(made)
    (read,) = read_trace(path)
    return printed, repr((read.request, read.response))


@pytest.mark.parametrize(
    "made",
    [
        exchange(
            SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + SECRET),
            SaslAuthenticateResponse(auth_bytes=SECRET),
        ),
        exchange(
            AlterUserScramCredentialsRequest(
                upsertions=[ScramCredentialUpsertion(name="alice", salt=SECRET, salted_password=SECRET)]
            ),
            version=0,
        ),
        exchange(CreateDelegationTokenRequest(), CreateDelegationTokenResponse(hmac=SECRET)),
        exchange(
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=4,
                        resource_name="1",
                        configs=[AlterableConfig(name="ssl.key.password", value=SECRET.decode())],
                    )
                ]
            )
        ),
    ],
    ids=lambda made: made.api,
)
def test_a_secret_is_neither_printed_nor_written(made: Exchange, tmp_path: Path) -> None:
    printed, written = told(made, tmp_path / "trace")
    assert "[hidden]" in printed
    assert "[hidden]" in written
    assert SECRET.decode() not in printed + written


def test_a_setting_that_is_no_secret_is_shown(tmp_path: Path) -> None:
    setting = AlterableConfig(name="retention.ms", value="86400000")
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[setting])
    printed, written = told(
        exchange(IncrementalAlterConfigsRequest(resources=[resource])), tmp_path / "trace"
    )
    assert "86400000" in printed
    assert "86400000" in written


def test_a_login_that_cannot_be_decoded_is_written_without_its_body(tmp_path: Path) -> None:
    request = struct.pack(">hhih", 36, 99, 7, -1) + b"\0" + SECRET
    _, written = told(Exchange(1, "client", "broker", 1.0, request), tmp_path / "trace")
    assert SECRET.decode() not in written


@pytest.mark.parametrize("token", [b"\0alice\0" + SECRET, b"n,,n=alice,r=" + SECRET, b"\x60\x82" + SECRET])
def test_bare_tokens_after_an_old_handshake_are_never_kept(token: bytes) -> None:
    conversation = Conversation(1, "client", "broker")
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 7, "app")[4:]
    assert conversation.requested(handshake, 1.0) is None
    conversation.answered(b"\0\0\0\7\0\0\0\0\0\0", 1.0)
    event = conversation.requested(token, 2.0)
    assert event is not None
    assert event.request == b""
    assert conversation.answered(SECRET, 3.0) == ([], None)
    again = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 8, "app")[4:]
    assert conversation.requested(again, 4.0) is None
    assert not conversation.sends_tokens


def test_a_client_logs_in_through_the_proxy_and_its_password_is_told_to_nobody(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="opensesame";'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
    }
    with Broker(config=settings) as broker, relaying(broker.bootstrap_servers) as traced:
        admin = AdminClient(
            {
                "bootstrap.servers": traced.address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": SECRET.decode(),
            }
        )
        assert admin.list_topics(timeout=30).topics == {}
        assert "SaslHandshake v1 mechanism=PLAIN" in traced.lines()
        assert "SaslAuthenticate" in traced.lines()
        path = tmp_path / "trace"
        with TraceWriter(path) as writer:
            for each in list(traced.exchanges):
                writer.write(each)
        assert SECRET.decode() not in traced.lines(full=True)
        assert not any(SECRET in each.request + (each.response or b"") for each in read_trace(path))
