"""Logins as a client without a library sees them."""

from __future__ import annotations

import contextlib
import logging
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from kafkapy import Broker, handlers
from kafkapy.broker.core import BrokerCore
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.logins import PasswordChecker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.types import ApiKey
from tests.network.raw_client import DEADLINE, RawClient
from tests.security.certificates import Certificates, trusting
from tests.security.issuer import Issuer
from tests.security.listeners import MECHANISMS, Listeners, settings

SASL = SecurityProtocol.SASL_PLAINTEXT
ALICE = b"\0alice\0alice-secret"
ALLOWED = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def hands_shaken(listeners: Listeners, mechanism: str = "PLAIN") -> RawClient:
    client = listeners.connect(SASL)
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE
    return client


def test_a_client_that_has_logged_in_is_served(listeners: Listeners) -> None:
    with hands_shaken(listeners) as client:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        assert listeners.connection_of(client.socket).principal == "User:alice"
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("key", [api.key for api in handlers.APIS if api.key not in ALLOWED])
def test_no_other_request_is_answered_before_the_login(listeners: Listeners, key: ApiKey) -> None:
    version = next(api.max_version for api in handlers.APIS if api.key is key)
    for client in (listeners.connect(SASL), hands_shaken(listeners)):
        with client:
            client.send(encode_request(request_class(key)(), version))
            assert client.socket.recv(1) == b""


def test_api_versions_are_told_before_the_login(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


def test_a_mechanism_that_is_not_enabled_is_refused(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        answer = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == list(MECHANISMS)


def test_a_token_before_the_handshake_ends_the_connection(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.is_closed()


def test_a_second_handshake_is_refused(listeners: Listeners) -> None:
    with hands_shaken(listeners) as client:
        assert (
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        )


def test_a_login_without_an_end_is_not_repeated(listeners: Listeners) -> None:
    with hands_shaken(listeners) as client:
        client.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        assert (
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        )


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0-", "Invalid username or password"),
        (b"root\0alice\0alice-secret", "authorization id"),
        (b"\0\0x", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"alice", "expected 3 tokens, got 1"),
    ],
)
def test_a_failed_login_is_answered_late_and_ends_the_connection(
    listeners: Listeners, token: bytes, message: str
) -> None:
    with hands_shaken(listeners) as client:
        began = time.monotonic()
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert time.monotonic() - began > 0.09  # 0.1, by a clock of whole milliseconds
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert message in answer.error_message
        assert client.is_closed()


@pytest.mark.parametrize(
    ("token", "result", "message"),
    [
        (ALICE, "accepted", '… has logged in by PLAIN as "alice"'),
        (b"\0alice\0wrong-secret", "failed", 'The login of … by PLAIN as "alice" failed: Authentication '),
    ],
)
def test_the_log_has_each_login_and_no_password(
    listeners: Listeners, caplog: pytest.LogCaptureFixture, token: bytes, result: str, message: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with hands_shaken(listeners) as client:
        address = f"127.0.0.1:{client.socket.getsockname()[1]}"
        client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    (line,) = [each for each in caplog.records if each.name == "kafkapy.security.sasl.login"]
    assert line.getMessage().startswith(message.replace("…", address))
    assert vars(line)["fields"] == {
        "user": "alice",
        "host": "127.0.0.1",
        "mechanism": "PLAIN",
        "result": result,
    }
    assert "secret" not in caplog.text


def test_a_request_before_the_login_may_have_512_kib(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        client.send(struct.pack(">i", 524288 + 1))
        assert client.is_closed()
    with hands_shaken(listeners) as client:
        client.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        connection = listeners.connection_of(client.socket)
        assert connection.max_frame_bytes == listeners.broker.core.config["socket.request.max.bytes"]


def test_a_request_that_is_too_long_before_the_login_names_the_limit_that_counts(
    listeners: Listeners, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kafkapy.network.connection")
    with listeners.connect(SASL) as client:
        client.send(struct.pack(">i", 524288 + 1))
        assert client.is_closed()
    assert "a request of 524289 bytes (sasl.server.max.receive.size=524288)" in caplog.text


def test_a_login_by_a_token_ends_with_the_token(listeners: Listeners, issuer: Issuer) -> None:
    with hands_shaken(listeners, "OAUTHBEARER") as client:
        first = f"n,,\x01auth=Bearer {issuer.token('alice')}\x01\x01".encode()
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=first), 2)
        assert answer.error_code == ErrorCode.NONE
        assert 3_500_000 < answer.session_lifetime_ms <= 3_600_000
        assert listeners.connection_of(client.socket).principal == "User:alice"


def test_a_refused_token_is_answered_and_the_login_fails(listeners: Listeners, issuer: Issuer) -> None:
    with hands_shaken(listeners, "OAUTHBEARER") as client:
        first = f"n,,\x01auth=Bearer {issuer.token('alice', audience='x')}\x01\x01".encode()
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=first), 2)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b'{"status":"invalid_token"}')
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == '{"status":"invalid_token"}'
        assert client.is_closed()


def test_old_clients_send_tokens_without_a_header(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == ErrorCode.NONE
        client.send(struct.pack(">i", len(ALICE)) + ALICE)
        assert client.receive_frame() == b""
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_a_wrong_token_without_a_header_ends_the_connection(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        client.send(struct.pack(">i", 4) + b"\0a\0b")
        assert client.is_closed()


def test_requests_wait_for_the_answer_to_a_token_without_a_header(listeners: Listeners) -> None:
    with listeners.connect(SASL) as client:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        request = encode_request(MetadataRequest(topics=[]), 12, 7, "raw")
        client.send(struct.pack(">i", len(ALICE)) + ALICE + request)
        assert client.receive_frame() == b""
        _, answer = decode_response(ApiKey.METADATA, 12, client.receive_frame())
        assert isinstance(answer, MetadataResponse)
        assert answer.brokers


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT])
def test_the_listener_decides_whether_there_is_a_login(
    listeners: Listeners, protocol: SecurityProtocol
) -> None:
    with listeners.connect(protocol) as client:
        answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        expected = ErrorCode.NONE if protocol.has_login else ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_code == expected


@pytest.fixture(scope="module")
def ending(certificates: Certificates, issuer: Issuer) -> Iterator[Listeners]:
    """A broker whose logins end (KIP-368)."""
    lines = settings(certificates, issuer)
    lines["listener.name.sasl_plaintext.plain.connections.max.reauth.ms"] = "3600000"
    lines["listener.name.sasl_ssl.plain.connections.max.reauth.ms"] = "1"
    with Broker(config=lines) as broker:
        yield Listeners(broker)


def log_in(client: RawClient, token: bytes = ALICE) -> Any:
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


def test_a_client_learns_when_its_login_ends(ending: Listeners) -> None:
    with ending.connect(SASL) as client:
        assert log_in(client).session_lifetime_ms == 3_600_000


def test_a_login_that_ends_can_be_repeated(ending: Listeners) -> None:
    with ending.connect(SASL) as client:
        for _ in range(3):
            assert log_in(client).error_code == ErrorCode.NONE
            assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_after_its_end_only_a_new_login_is_allowed(ending: Listeners, certificates: Certificates) -> None:
    with ending.connect(SecurityProtocol.SASL_SSL, trusting(certificates)) as client:
        assert log_in(client).session_lifetime_ms == 1
        time.sleep(0.01)  # until the login has ended
        assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
        assert log_in(client).error_code == ErrorCode.NONE
        time.sleep(0.01)
        client.send(encode_request(MetadataRequest(topics=[]), 12))
        assert client.is_closed()


def test_the_same_user_logs_in_again(ending: Listeners) -> None:
    with ending.connect(SASL) as client:
        log_in(client)
        answer = log_in(client, b'\0bob\0b"ob')
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_the_same_mechanism_is_used_again(ending: Listeners) -> None:
    with ending.connect(SASL) as client:
        log_in(client)
        answer = client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


# --- the time for a login ---------------------------------------------------------------------------------


def ask_until_closed(client: RawClient) -> None:
    deadline = time.monotonic() + DEADLINE
    with contextlib.suppress(ConnectionError):
        while True:
            client.ask(ApiVersionsRequest(), 0)
            assert time.monotonic() < deadline


def test_a_client_that_does_not_log_in_is_closed_in_time(
    certificates: Certificates, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**settings(certificates, issuer), "request.receive.timeout.ms": 300}
    with Broker(config=config) as broker:
        listeners = Listeners(broker)
        with hands_shaken(listeners) as inside, listeners.connect(SecurityProtocol.PLAINTEXT) as open_client:
            assert inside.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2).error_code == 0
            open_client.ask(ApiVersionsRequest(), 0)
            silent = listeners.connect(SASL)
            encrypted = listeners.connect(SecurityProtocol.SASL_SSL, trusting(certificates))
            shaken = hands_shaken(listeners)
            half = hands_shaken(listeners, "SCRAM-SHA-256")
            first = half.ask(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
            assert first.error_code == ErrorCode.NONE
            busy = listeners.connect(SASL)
            ask_until_closed(busy)
            for client in (silent, encrypted, shaken, half, busy):
                with client:
                    assert client.is_closed()
            assert inside.ask(MetadataRequest(topics=[]), 12).brokers
            assert open_client.ask(ApiVersionsRequest(), 0).api_keys
    assert "it has not logged in within 0.3 s" in caplog.text


def test_a_slow_check_of_a_password_has_its_time(certificates: Certificates, issuer: Issuer) -> None:
    handler = "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class"
    config = {
        **settings(certificates, issuer),
        "request.receive.timeout.ms": 50,
        handler: "tests.security.test_login:SlowDirectory",
    }
    with Broker(config=config) as broker, hands_shaken(Listeners(broker)) as client:
        sweeps: list[float] = []

        async def watch(core: BrokerCore) -> None:
            sweep = core.server._sweep

            def counted() -> None:
                sweeps.append(core.server.shared.now)
                sweep()

            core.server._sweep = counted  # type: ignore[method-assign]

        broker.call(watch)
        SlowDirectory.may_answer = lambda: len(sweeps) > 1 and sweeps[-1] - sweeps[0] > 0.2
        assert client.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2).error_code == ErrorCode.NONE


class SlowDirectory(PasswordChecker):
    """Knows everybody, after a while."""

    may_answer: ClassVar[Callable[[], bool]]

    def check(self, username: str, password: str) -> bool:
        deadline = time.monotonic() + DEADLINE
        while not SlowDirectory.may_answer():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        return True
