"""Delegation tokens of kafkapy and of Apache Kafka 3.9 count at both brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop.security.secure_server import FromFile
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess, ZooKeeperProcess
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.errors import ErrorCode
from tests.network.raw_client import RawClient
from tests.ports import free_ports
from tests.security.listeners import PLAIN_USERS
from tests.security.token_client import create, describe, expire, log_in, renew, with_password
from tests.servers.server_process import ServerProcess

SASL = SecurityProtocol.SASL_PLAINTEXT
PACKAGE = "org.apache.kafka.common.security"
NONE, NOT_FOUND = ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class Side(NamedTuple):
    """A broker of one kind, and its listener with logins."""

    process: ServerProcess
    with_login: str

    def connect(self, protocol: SecurityProtocol) -> RawClient:
        """A connection to that listener."""
        assert protocol is SASL
        return RawClient(self.with_login)


def settings(number: int, address: str, with_login: str, zookeeper: str) -> dict[str, str]:
    """The same for both."""
    listeners = f"PLAINTEXT://{address},SASL_PLAINTEXT://{with_login}"
    users = " ".join(f"user_{name}='{password}'" for name, password in PLAIN_USERS.items())
    return {
        "broker.id": str(number),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PACKAGE}.plain.PlainLoginModule required"
        f" {users};",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule"
        " required;",
        "delegation.token.secret.key": "the same in both",
        "delegation.token.expiry.check.interval.ms": "500",
        "zookeeper.connect": f"{zookeeper}/tokens",
        "inter.broker.protocol.version": "3.9",
    }


@pytest.fixture(scope="module")
def sides(
    zookeeper: ZooKeeperProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """kafkapy, which is the controller, and Apache Kafka."""
    folder = tmp_path_factory.mktemp("tokens")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    lines = settings(1, addresses[0], addresses[1], zookeeper.bootstrap_servers)
    kafkapy = FromFile(folder / "1", {**lines, "log.dirs": str(folder / "1" / "data")}, addresses[0])
    kafka = ZooKeeperKafkaProcess(folder / "2", zookeeper.bootstrap_servers, heap="256m")
    kafka.properties |= settings(2, kafka.bootstrap_servers, addresses[2], zookeeper.bootstrap_servers)
    with kafkapy, kafka:
        yield Side(kafkapy, addresses[1]), Side(kafka, addresses[2])


def shown(client: RawClient, token: Any) -> Any:
    """The token as a broker describes it; None if it does not know it."""
    return next((each for each in describe(client).tokens if each.token_id == token.token_id), None)


@pytest.mark.parametrize("first_is_kafkapy", [True, False])
def test_a_token_of_one_counts_at_the_other(sides: tuple[Side, Side], first_is_kafkapy: bool) -> None:
    here, there = sides if first_is_kafkapy else sides[::-1]
    with with_password(here, "alice") as first, with_password(there, "bob") as second:
        token = create(first, "bob", owner="erin/~*")
        assert token.error_code == NONE
        wait_until(lambda: shown(second, token) is not None)
        found = shown(second, token)
        assert (found.principal_name, found.hmac) == ("erin/~*", token.hmac)
        assert [each.principal_name for each in found.renewers] == ["bob"]
        assert found.token_requester_principal_name == "alice"
        assert found.max_timestamp == token.max_timestamp_ms
        for side in (here, there):
            with side.connect(SASL) as client:
                assert log_in(client, token.token_id, token.hmac).error_code == NONE
        renewed = renew(second, token.hmac, 60_000)
        assert renewed.error_code == NONE
        wait_until(lambda: shown(first, token).expiry_timestamp == renewed.expiry_timestamp_ms)
        assert expire(second, token.hmac).error_code == NONE
        wait_until(lambda: renew(first, token.hmac).error_code == NOT_FOUND)
    with sides[0].connect(SASL) as client:
        refused = log_in(client, token.token_id, token.hmac)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_kafkapy_removes_the_expired_tokens_of_both(sides: tuple[Side, Side]) -> None:
    for side in sides:
        with with_password(side, "alice") as client:
            token = create(client, lifetime_ms=1)
            wait_until(lambda client=client, token=token: shown(client, token) is None)  # type: ignore[misc]


def test_a_new_broker_of_the_other_kind_reads_the_tokens(sides: tuple[Side, Side], tmp_path: Path) -> None:
    kafkapy, kafka = sides
    with with_password(kafkapy, "alice") as client:
        token = create(client)
        client.close()
    kafka.process.stop()
    kafka.process.start()
    with with_password(kafka, "alice") as client:
        wait_until(lambda: shown(client, token) is not None)
