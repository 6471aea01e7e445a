"""Delegation tokens in a cluster: every broker knows what any broker has made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import kafkapy
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.errors import ErrorCode
from tests.network.raw_client import DEADLINE, RawClient
from tests.security.listeners import PLAIN_USERS
from tests.security.token_client import create, describe, expire, log_in, renew, with_password

PACKAGE = "org.apache.kafka.common.security"


class Member:
    """One broker of the cluster."""

    def __init__(self, address: str) -> None:
        self._address = address

    def connect(self, protocol: SecurityProtocol) -> RawClient:
        """A connection; all listeners are alike."""
        assert protocol is SecurityProtocol.SASL_PLAINTEXT
        return RawClient(self._address)


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    users = " ".join(f"user_{name}='{password}'" for name, password in PLAIN_USERS.items())
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{PACKAGE}.plain.PlainLoginModule required"
        f" username=broker password=inside user_broker=inside {users};",
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule"
        " required;",
        "delegation.token.secret.key": "the same in all",
        "delegation.token.expiry.check.interval.ms": 50,
    }
    with kafkapy.Cluster(brokers=3, config=settings) as cluster:
        yield [Member(address) for address in cluster.bootstrap_servers.split(",")]


def eventually(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not found():
        assert time.monotonic() < deadline


def is_removed(client: RawClient, token_hmac: bytes) -> bool:
    return bool(renew(client, token_hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def test_a_token_of_one_broker_counts_at_the_others(members: list[Member]) -> None:
    with with_password(members[0], "alice") as first, with_password(members[1], "alice") as second:
        token = create(first, "bob", owner="erin")
        eventually(lambda: token.token_id in {each.token_id for each in describe(second).tokens})
        with members[1].connect(SecurityProtocol.SASL_PLAINTEXT) as client:
            assert log_in(client, token.token_id, token.hmac).error_code == ErrorCode.NONE
    with with_password(members[1], "bob") as second, with_password(members[2], "bob") as third:
        eventually(lambda: renew(third, token.hmac, 60_000).error_code == ErrorCode.NONE)
        eventually(
            lambda: all(
                each.expiry_timestamp < token.issue_timestamp_ms + 120_000 for each in describe(second).tokens
            )
        )
        assert expire(third, token.hmac).error_code == ErrorCode.NONE
        eventually(lambda: renew(second, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def test_two_brokers_change_one_token(members: list[Member]) -> None:
    """The one that comes second reads the change of the first, and makes its own."""
    with with_password(members[0], "alice") as first, with_password(members[1], "alice") as second:
        token = create(first)
        eventually(lambda: renew(second, token.hmac).error_code == ErrorCode.NONE)
        for _ in range(20):
            assert renew(first, token.hmac).error_code == ErrorCode.NONE
            assert renew(second, token.hmac).error_code == ErrorCode.NONE


def test_the_controller_removes_what_has_expired(members: list[Member]) -> None:
    for member in members:
        with with_password(member, "alice") as client:
            hmac = create(client, lifetime_ms=1).hmac
            eventually(partial(is_removed, client, hmac))
