"""`kafkapy tokens`, and logins of commands by a token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from tests.commands.conftest import invoke
from tests.security.certificates import Certificates
from tests.security.conftest import issuer
from tests.security.issuer import Issuer
from tests.security.listeners import Listeners, settings

__all__ = ["issuer"]

Run = Callable[..., Result]
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def address(certificates: Certificates, issuer: Issuer) -> Iterator[str]:
    """The listener with logins of a broker with tokens."""
    config = {**settings(certificates, issuer), "delegation.token.secret.key": "secret"}
    with Broker(config=config) as broker:
        yield Listeners(broker).address(SecurityProtocol.SASL_PLAINTEXT)


@pytest.fixture
def as_alice(address: str, tmp_path: Path) -> Run:
    return with_login(
        address,
        tmp_path / "alice.properties",
        {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"},
    )


def with_login(address: str, file: Path, properties: dict[str, str]) -> Run:
    """Runs commands with this login."""
    lines = {"security.protocol": "SASL_PLAINTEXT", **properties}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def run(*arguments: str) -> Result:
        return invoke(
            *arguments, "--bootstrap-server", address, "--command-config", str(file), "--timeout", "5"
        )

    return run


def by_token(address: str, file: Path, token: Any, mechanism: str = "SCRAM-SHA-256") -> Run:
    line = f'{SCRAM} username="{token["token_id"]}" password="{token["hmac"]}" tokenauth="true";'
    return with_login(address, file, {"sasl.mechanism": mechanism, "sasl.jaas.config": line})


def created(as_alice: Run, *options: str) -> Any:
    result = as_alice("tokens", "create", *options, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def listed(as_alice: Run) -> dict[str, Any]:
    result = as_alice("tokens", "list", "--format", "json")
    assert result.exit_code == 0, result.output
    return {each["token_id"]: each for each in json.loads(result.stdout)}


def test_a_token_is_created_shown_renewed_and_expired(as_alice: Run) -> None:
    token = created(as_alice, "--renewer", "User:bob", "--max-life-time", "2h")
    assert (token["owner"], token["max_time"]) == ("User:alice", token["expires"])
    shown = listed(as_alice)[token["token_id"]]
    assert shown["renewers"] == ["User:bob"]
    assert token["hmac"] not in json.dumps(shown)
    assert as_alice("tokens", "renew", token["token_id"], "--for", "1h").exit_code == 0
    assert listed(as_alice)[token["token_id"]]["expires"] < token["expires"]
    foreseen = as_alice("tokens", "expire", token["token_id"], "--dry-run", "--format", "json")
    assert json.loads(foreseen.stdout)["would_expire"] < listed(as_alice)[token["token_id"]]["expires"]
    assert as_alice("tokens", "expire", token["token_id"], "--yes").exit_code == 0
    assert token["token_id"] not in listed(as_alice)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_command_logs_in_by_a_token(address: str, as_alice: Run, tmp_path: Path, mechanism: str) -> None:
    token = created(as_alice)
    run = by_token(address, tmp_path / "token.properties", token, mechanism)
    assert run("topics", "list").exit_code == 0
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in run("tokens", "create").stderr
    run = by_token(address, tmp_path / "token.properties", {**token, "hmac": "x"}, mechanism)
    assert "are user, password and mechanism right?" in run("topics", "list").stderr


def test_an_error_of_the_broker_is_one_line(as_alice: Run) -> None:
    result = as_alice("tokens", "create", "--renewer", "Group:x")
    assert "INVALID_PRINCIPAL_TYPE" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "there is no token nothing" in as_alice("tokens", "renew", "nothing").stderr
