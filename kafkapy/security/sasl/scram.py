"""SASL SCRAM: a client proves that it knows a password, without sending it.

A user without a credential goes through the same steps, so that nobody learns which users exist
(`unknown_users.py`).

With the extension `tokenauth=true` the user is the id of a delegation token, and the password is its HMAC in
base 64. The client comes in as the owner of the token, until this expires. Source: RFC 5802, RFC 7677,
Kafka's ScramSaslServer and ScramMessages.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kafkapy.logins import ScramCredential
from kafkapy.security.sasl.exchange import Exchange, LoginError
from kafkapy.security.sasl.scram_credential import ScramMechanism, xor
from kafkapy.security.sasl.unknown_users import UnknownUsers

if TYPE_CHECKING:
    from kafkapy.security.token_cache import TokenCache

_SASL_NAME: Final = r"(?:[^,=\0]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[a-zA-Z]+=[^,]*)*))"
)
_FINAL: Final = re.compile(
    r"(?P<unsigned>c=(?P<binding>[a-zA-Z0-9/+=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[a-zA-Z]+=[^,]*)*),p=(?P<proof>[a-zA-Z0-9/+=]+)"
)
_LONGEST: Final = 4096
"""The most bytes of a message: several times as many as names and nonces need."""

Find = Callable[[ScramMechanism, str], Awaitable[ScramCredential | None]]
"""Finds the credential of a user."""


class Scram:
    """SCRAM for one listener."""

    def __init__(
        self, mechanism: ScramMechanism, find: Find, unknown: UnknownUsers, tokens: TokenCache | None = None
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._unknown = unknown
        self._tokens = tokens

    def begin(self) -> Exchange:
        """A new attempt to log in."""
        return _ScramExchange(self._mechanism, self._find, self._unknown, self._tokens)


class _ScramExchange(Exchange):
    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Find,
        unknown: UnknownUsers,
        tokens: TokenCache | None,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._unknown = unknown
        self._tokens = tokens
        self._credential: ScramCredential | None = None
        """Set by the first message."""
        self._user: str | None = None
        """The user whose credential that is; None if no password fits it."""
        self._header = self._first_bare = self._server_first = self._nonce = ""

    async def step(self, token: bytes) -> bytes:
        if len(token) > _LONGEST:
            raise LoginError
        text = str(token, "utf-8", "replace")
        if self._credential is None:
            return (await self._first(text)).encode()
        return self._final(text, self._credential).encode()

    async def _first(self, text: str) -> str:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise LoginError
        self.claimed = name = _unescaped(match["name"])
        if _unescaped(match["authzid"] or "") not in ("", name):
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        extensions = dict(each.partition("=")[::2] for each in match["extensions"].split(",") if each)
        self.by_token = extensions.get("tokenauth", "").lower() == "true"
        if not self.by_token:
            unknown = await self._unknown.user(self._mechanism, name)
            found = await self._find(self._mechanism, name)
        else:
            unknown = self._unknown.token(self._mechanism, name)
            found = None if self._tokens is None else await self._tokens.credential(self._mechanism, name)
        self._user = None if found is None else name
        self._credential = credential = found or unknown
        self._header, self._first_bare = match["header"], match["bare"]
        self._nonce = match["nonce"] + secrets.token_urlsafe(24)
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _final(self, text: str, credential: ScramCredential) -> str:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise LoginError
        try:
            proof = base64.b64decode(match["proof"], validate=True)
            header = base64.b64decode(match["binding"], validate=True)
        except (binascii.Error, ValueError):
            raise LoginError from None
        mechanism = self._mechanism
        message = f"{self._first_bare},{self._server_first},{match['unsigned']}".encode()
        signature = mechanism.hmac(credential.stored_key, message)
        is_right = len(proof) == len(signature)
        client_key = xor(proof, signature)
        is_right &= hmac.compare_digest(mechanism.digest(client_key), credential.stored_key)
        is_right &= hmac.compare_digest(match["nonce"].encode(), self._nonce.encode())
        is_right &= header == self._header.encode()
        if not is_right or self._user is None:
            raise LoginError
        self.name = self._owner_of_token(self._user) if self.by_token else self._user
        verifier = base64.b64encode(mechanism.hmac(credential.server_key, message)).decode()
        return f"v={verifier}"

    def _owner_of_token(self, token_id: str) -> str:
        """The name of the owner, as whom the client acts until the token expires."""
        token = None if self._tokens is None else self._tokens.valid(token_id)
        if token is None:  # it has been removed since the first message
            raise LoginError
        self.expires_at_ms = token.expiry_timestamp
        return token.owner.partition(":")[2]


def _unescaped(name: str) -> str:
    """A name without the escapes of its commas and equals signs."""
    return name.replace("=2C", ",").replace("=3D", "=")
