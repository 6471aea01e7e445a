"""SASL OAUTHBEARER: a client shows a token that somebody else has signed.

A client whose token is refused gets the reason as JSON, and again when its login fails at the next message.
Source: RFC 7628, Kafka's OAuthBearerSaslServer and OAuthBearerClientInitialResponse.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from kafkapy.logins import TokenOwner
from kafkapy.security.sasl.exchange import Exchange, LoginError

_SASL_NAME: Final = r"(?:[^,=\x01]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)+)\x01"
)
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-_.~+/A-Za-z0-9]+=*) *")
_LONGEST: Final = 64 << 10
"""The most bytes of a message: many times what tokens have."""

_REFUSAL: Final = '{"status":"invalid_token"}'

CheckToken = Callable[[str], Awaitable[TokenOwner | None]]
"""The owner of a token; None if it lets nobody in."""


class OAuthBearer:
    """OAUTHBEARER for one listener."""

    def __init__(self, check: CheckToken) -> None:
        self._check = check

    def begin(self) -> Exchange:
        """A new attempt to log in."""
        return _OAuthBearerExchange(self._check)


class _OAuthBearerExchange(Exchange):
    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._is_refused = False

    async def step(self, token: bytes) -> bytes:
        if self._is_refused:
            raise LoginError(_REFUSAL)
        if len(token) > _LONGEST:
            raise LoginError
        message = _FIRST.fullmatch(str(token, "utf-8", "replace"))
        if message is None:
            raise LoginError("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in message["pairs"].split("\x01") if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise LoginError("Invalid OAUTHBEARER client first message: 'auth' is not a bearer token")
        owner = await self._check(bearer["token"])
        if owner is None:
            self._is_refused = True
            return _REFUSAL.encode()
        authorization_id = (message["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization_id not in ("", owner.name):
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different from the"
                " token's principal name"
            )
        self.name, self.expires_at_ms = owner.name, owner.expires_at_ms
        return b""
