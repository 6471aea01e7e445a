"""Clients of delegation tokens: their logins, and what they ask."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Protocol

from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.scram_credential import ScramMechanism
from tests.network.raw_client import RawClient
from tests.security.listeners import PLAIN_USERS
from tests.security.scram_client import ScramClient

DAY_MS = 24 * 60 * 60 * 1000


class Server(Protocol):
    """Has a listener of each security protocol."""

    def connect(self, protocol: SecurityProtocol) -> RawClient:
        """A connection to a listener."""


def with_password(listeners: Server, user: str) -> RawClient:
    """A client that has logged in by PLAIN."""
    client = listeners.connect(SecurityProtocol.SASL_PLAINTEXT)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = f"\0{user}\0{PLAIN_USERS[user]}".encode()
    assert client.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
    return client


def log_in(
    client: RawClient,
    token_id: str,
    token_hmac: bytes,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
    meanwhile: Callable[[], object] = lambda: None,
) -> Any:
    """Log in with a token; return the broker's last answer.

    `meanwhile` is called between the two steps.
    """
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism.text), 1).error_code == 0
    password = base64.b64encode(token_hmac).decode()
    login = ScramClient(mechanism, token_id, password, extensions=",tokenauth=true")
    first = client.ask(SaslAuthenticateRequest(auth_bytes=login.first()), 2)
    assert first.error_code == 0
    meanwhile()
    last = client.ask(SaslAuthenticateRequest(auth_bytes=login.final(first.auth_bytes)), 2)
    assert last.error_code or last.auth_bytes == login.expected
    return last


def create(
    client: RawClient,
    *renewers: str,
    owner: str = "",
    lifetime_ms: int = -1,
    kind: str = "User",
    version: int = 3,
) -> Any:
    """The answer to CreateDelegationToken."""
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    return client.ask(request, version)


def renew(client: RawClient, token_hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:
    """The answer to RenewDelegationToken."""
    return client.ask(RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=period_ms), version)


def expire(client: RawClient, token_hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:
    """The answer to ExpireDelegationToken."""
    return client.ask(ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms), version)


def describe(client: RawClient, *owners: str, everything: bool = True, version: int = 3) -> Any:
    """The answer to DescribeDelegationToken; without owners, about all of them."""
    wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    return client.ask(
        DescribeDelegationTokenRequest(owners=None if everything and not owners else wanted), version
    )
