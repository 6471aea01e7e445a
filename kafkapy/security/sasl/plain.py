"""SASL PLAIN: a user name and a password, to be used on encrypted listeners only.

The users of a listener are options of its JAAS line: `user_alice="alice-secret"`. Or the operator's own class
checks passwords (`kafkapy.logins`). Source: RFC 4616, Kafka's PlainSaslServer, PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kafkapy.security.sasl.exchange import Exchange, LoginError

_USER: Final = "user_"
_INVALID: Final = "Authentication failed: Invalid username or password"

Check = Callable[[str, str], Awaitable[bool]]
"""Whether a password is a user's."""


class ListedUsers:
    """The users that a JAAS line lists."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {
            self._digest(name.removeprefix(_USER), password)
            for name, password in options.items()
            if name.startswith(_USER)
        }

    async def check(self, username: str, password: str) -> bool:
        """Whether the password is the user's; it takes as long for an unknown user."""
        return self._digest(username, password) in self._digests

    def _digest(self, username: str, password: str) -> bytes:
        """Of both, with a key that nobody else has, so that the time of a search shows neither."""
        return hmac.digest(self._key, f"{username}\0{password}".encode(), "sha256")


class PlainMechanism:
    """SASL PLAIN for one listener."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def begin(self) -> Exchange:
        """A new attempt to log in."""
        return _PlainExchange(self._check)


class _PlainExchange(Exchange):
    def __init__(self, check: Check) -> None:
        self._check = check

    async def step(self, token: bytes) -> bytes:
        parts = str(token, "utf-8", "replace").split("\0")
        if len(parts) != 3:
            raise LoginError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, username, password = parts
        self.claimed = username
        if not username:
            raise LoginError("Authentication failed: username not specified")
        if not password:
            raise LoginError("Authentication failed: password not specified")
        if not await self._check(username, password):
            raise LoginError(_INVALID)
        if authorization_id not in ("", username):
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.name = username
        return b""
