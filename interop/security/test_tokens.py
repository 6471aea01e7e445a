"""Delegation tokens: Java clients log in by them, and the errors are those of Kafka."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.security.franz_go import fields, logged_in
from interop.security.secure_server import SecureServer, Way
from interop.security.test_logins import java_settings
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.java_programs import compiled
from interop.support.kafka_jars import TOOL_FLAGS, kafka_jars
from interop.support.waiting import wait_until
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.errors import ErrorCode
from tests.network.raw_client import RawClient
from tests.security.certificates import Certificates
from tests.security.token_client import create, describe, expire, log_in, renew, with_password

SASL = SecurityProtocol.SASL_PLAINTEXT
NOT_FOUND = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.fixture
def alice(secure_server: SecureServer) -> Iterator[RawClient]:
    with with_password(secure_server, "alice") as client:
        yield client


@pytest.fixture
def bob(secure_server: SecureServer) -> Iterator[RawClient]:
    with with_password(secure_server, "bob") as client:
        yield client


def known(client: RawClient, token: Any) -> Any:
    """The token, after the broker has learnt of it."""
    assert token.error_code == ErrorCode.NONE
    wait_until(lambda: token.token_id in {each.token_id for each in describe(client).tokens})
    return token


def code(ask: Callable[..., Any], *arguments: Any) -> int:
    answer = ask(*arguments)
    assert isinstance(answer.error_code, int)
    return answer.error_code


# --- the same requests to kafkapy and to Apache Kafka 4.3.1 (--against kafka) ---------------------------


def test_times_are_those_of_the_settings(alice: RawClient) -> None:
    day = 24 * 60 * 60 * 1000
    for version in (1, 2, 3):
        token = create(alice, "bob", version=version)
        issued = token.issue_timestamp_ms
        assert (token.expiry_timestamp_ms - issued, token.max_timestamp_ms - issued) == (day, 7 * day)
    for lifetime_ms in (0, -1, -5, 2**63 - 1):
        token = create(alice, lifetime_ms=lifetime_ms)
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * day
    token = known(alice, create(alice, lifetime_ms=2 * day))
    for period in (0, -1, 2**63 - 1):
        renewed = renew(alice, token.hmac, period).expiry_timestamp_ms - token.issue_timestamp_ms
        assert day <= renewed < day + 60_000, period
    later = expire(alice, token.hmac, day + 1).expiry_timestamp_ms - token.issue_timestamp_ms
    assert day < later < day + 60_000
    assert expire(alice, token.hmac, 2**63 - 1).expiry_timestamp_ms == token.max_timestamp_ms


def test_errors_of_wrong_requests(alice: RawClient, bob: RawClient) -> None:
    refused = create(alice, "bob", kind="Group")
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (refused.principal_name, refused.expiry_timestamp_ms, refused.hmac) == ("alice", -1, b"")
    for each in (renew, expire):
        assert code(each, alice, b"") == code(each, alice, b"x" * 64) == NOT_FOUND
    token = known(alice, create(alice))
    for each in (renew, expire):
        assert code(each, bob, token.hmac) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert code(expire, alice, token.hmac) == ErrorCode.NONE
    wait_until(lambda: code(renew, alice, token.hmac) == NOT_FOUND)


def test_errors_of_an_expired_token(alice: RawClient, bob: RawClient) -> None:
    token = known(alice, create(alice, "bob"))
    assert code(expire, alice, token.hmac, 0) == ErrorCode.NONE
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
    wait_until(lambda: code(renew, alice, token.hmac) == expired)
    assert code(expire, bob, token.hmac, 1_000) == expired
    assert token.token_id in {each.token_id for each in describe(alice).tokens}
    assert code(expire, bob, token.hmac) == ErrorCode.NONE


def test_connections_that_may_not_ask(secure_server: SecureServer, alice: RawClient) -> None:
    token = known(alice, create(alice))
    with (
        secure_server.connect(SecurityProtocol.PLAINTEXT) as open_client,
        secure_server.connect(SASL) as client,
    ):
        assert log_in(client, token.token_id, token.hmac).error_code == ErrorCode.NONE
        for each in (open_client, client):
            created, renewed = create(each), renew(each, token.hmac)
            codes = [created.error_code, renewed.error_code, code(expire, each, b""), code(describe, each)]
            assert codes == [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED] * 4
            assert created.expiry_timestamp_ms == renewed.expiry_timestamp_ms == -1


def test_who_is_shown_which_token(alice: RawClient, bob: RawClient) -> None:
    token = known(alice, create(alice, "frank", owner="erin"))
    assert (token.principal_name, token.token_requester_principal_name) == ("erin", "alice")
    for names in (("erin",), ("frank", "nobody"), ("alice",)):
        assert token.token_id in {each.token_id for each in describe(alice, *names).tokens}
    assert token.token_id not in {each.token_id for each in describe(alice, "nobody").tokens}
    assert describe(alice, everything=False).tokens == []
    # Without an authorizer everyone sees all.
    assert token.token_id in {each.token_id for each in describe(bob).tokens}
    assert code(renew, alice, token.hmac) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_the_login_ends_with_the_token(secure_server: SecureServer, alice: RawClient) -> None:
    token = known(alice, create(alice, owner="erin", lifetime_ms=600_000))
    with secure_server.connect(SASL) as client:
        assert 500_000 < log_in(client, token.token_id, token.hmac).session_lifetime_ms <= 600_000
    with secure_server.connect(SASL) as client:
        assert log_in(client, token.token_id, b"wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_franz_go_logs_in_by_a_token(
    secure_server: SecureServer, certificates: Certificates, alice: RawClient
) -> None:
    token = known(alice, create(alice))
    ways = {
        f"{way}-by-token-{is_token}": {
            **fields(secure_server, certificates, way, f"{way}-by-token-{is_token}"),
            "Username": token.token_id,
            "Password": base64.b64encode(token.hmac).decode(),
            "IsToken": is_token,
        }
        for way in (Way("SASL_SSL", "SCRAM-SHA-256"), Way("SASL_SSL", "SCRAM-SHA-512"))
        for is_token in (True, False)
    }
    for topic, told in logged_in(list(ways.values())).items():
        if ways[topic]["IsToken"]:
            assert told == "franz-go"
        else:
            assert "invalid credentials" in told


# --- Java -----------------------------------------------------------------------------------------------


def test_a_java_client_logs_in_by_a_token_that_java_has_created(
    secure_server: SecureServer, certificates: Certificates, tmp_path: Path
) -> None:
    with skipped_without_jars():
        jars = kafka_jars()
    folder = Path(__file__).parent
    settings, by_token = tmp_path / "alice.properties", tmp_path / "token.properties"
    way = Way("SASL_SSL", "PLAIN")
    lines = java_settings(secure_server, certificates, way, tmp_path / "none")
    settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    program = compiled(folder / "Tokens.java", jars)
    command = ["java", *TOOL_FLAGS, *program, str(settings), str(by_token)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    seen = dict(line.split("\t") for line in run.stdout.splitlines() if "\t" in line)
    assert seen == {
        "owner": "User:alice",
        "longest": "3600000",
        "shown": "[User:bob] true",
        "renewed": "true",
        "expired": "true",
    }, run.stderr
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(by_token.read_text().replace("tokenauth", "other"))
    program = compiled(folder / "Logins.java", jars)
    command = ["java", *TOOL_FLAGS, *program, str(by_token), "by-token", str(wrong), "no-token"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert dict(line.split("\t") for line in run.stdout.splitlines() if "\t" in line) == {
        "by-token": "java",
        "no-token": "SaslAuthenticationException",
    }, run.stderr


def test_kafkas_tool_creates_and_shows_tokens(
    secure_server: SecureServer, certificates: Certificates, tmp_path: Path
) -> None:
    with skipped_without_jars():
        jars = kafka_jars()
    settings = tmp_path / "alice.properties"
    lines = java_settings(secure_server, certificates, Way("SASL_PLAINTEXT", "PLAIN"), tmp_path / "none")
    settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def tool(*arguments: str) -> str:
        command = ["java", *TOOL_FLAGS, "-cp", f"{jars}/*", "org.apache.kafka.tools.DelegationTokenCommand"]
        command += ["--bootstrap-server", secure_server.addresses["SASL_PLAINTEXT"]]
        command += ["--command-config", str(settings), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    created = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:dora")
    assert "User:alice" in created
    assert "User:dora" in tool("--describe", "--owner-principal", "User:dora")
