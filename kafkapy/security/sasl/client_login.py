"""How this broker logs in at another one: by PLAIN, SCRAM or OAUTHBEARER.

Name and password are options of the mechanism's line in the settings of the listener, beside those for its
clients: `…ScramLoginModule required username="broker" password="…";`. A token is in a file, which somebody
else keeps up to date: it is read for each login.

A server that does not prove that it knows the password, too, is not believed. Source: RFC 4616, RFC 5802, RFC
7628, Kafka's ScramSaslClient, OAuthBearerSaslClient and FileTokenRetriever.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from kafkapy.security.sasl.scram_credential import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    xor,
)

_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[a-zA-Z0-9/+=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)

_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")


class ClientLoginError(Exception):
    """A login at another broker cannot begin or continue; the message says why."""


class ClientLogin(ABC):
    """One attempt to log in."""

    @abstractmethod
    async def first(self) -> bytes:
        """The first token.

        Raises:
            ClientLoginError: this broker has nothing to show.
        """

    @abstractmethod
    async def answer(self, token: bytes) -> bytes | None:
        """The answer to a token of the server; None if the login is complete.

        Raises:
            ClientLoginError: the token is wrong.
        """


class PlainLogin(ClientLogin):
    """A login that shows the password."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    async def first(self) -> bytes:
        return self._token

    async def answer(self, token: bytes) -> None:
        if token:
            raise ClientLoginError("it answers PLAIN with a token")


class BearerLogin(ClientLogin):
    """A login that shows a token from a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def first(self) -> bytes:
        read = asyncio.get_running_loop().run_in_executor(None, self._path.read_text)
        try:
            token = (await read).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ClientLoginError(f"its token cannot be read: {error}") from None
        if _TOKEN.fullmatch(token) is None:
            raise ClientLoginError(f"{self._path} has no token")
        return f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    async def answer(self, token: bytes) -> bytes | None:
        # A server that refuses the token says so once this is sent.
        return b"\x01" if token else None


class ScramLogin(ClientLogin):
    """A login that proves the password."""

    def __init__(self, mechanism: ScramMechanism, username: str, password: str) -> None:
        self._mechanism = mechanism
        self._password = password
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_urlsafe(24)
        self._first_bare = f"n={name},r={self._nonce}"
        self._expected: str | None = None
        """The last message of a server that knows the password; None before it has sent its first."""

    async def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    async def answer(self, token: bytes) -> bytes | None:
        text = str(token, "utf-8", "replace")
        if self._expected is not None:
            if not hmac.compare_digest(text.encode(), self._expected.encode()):
                raise ClientLoginError("it does not know the password itself")
            return None
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match["nonce"].startswith(self._nonce):
            raise ClientLoginError("its answer is no SCRAM")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ClientLoginError(f"it asks for {iterations} iterations")
        try:
            salt = base64.b64decode(match["salt"], validate=True)
        except (binascii.Error, ValueError):
            raise ClientLoginError("its salt is not in base 64") from None
        return await self._proof(text, match["nonce"], salt, iterations)

    async def _proof(self, server_first: str, nonce: str, salt: bytes, iterations: int) -> bytes:
        mechanism = self._mechanism
        salted = await asyncio.get_running_loop().run_in_executor(
            None,
            partial(hashlib.pbkdf2_hmac, mechanism.hash_name, self._password.encode(), salt, iterations),
        )
        credential = credential_of(mechanism, salt, salted, iterations)
        unsigned = f"c=biws,r={nonce}"  # biws is the header, "n,,", in base 64
        message = f"{self._first_bare},{server_first},{unsigned}".encode()
        signature = mechanism.hmac(credential.stored_key, message)
        client_key = mechanism.hmac(salted, b"Client Key")
        proof = xor(client_key, signature)
        verifier = mechanism.hmac(credential.server_key, message)
        self._expected = f"v={base64.b64encode(verifier).decode()}"
        return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()


def password_login(mechanism: str, username: str, password: str) -> Callable[[], ClientLogin]:
    """What begins a login with a name and a password, by PLAIN or SCRAM."""
    if mechanism == "PLAIN":
        return partial(PlainLogin, username, password)
    return partial(ScramLogin, MECHANISMS[mechanism], username, password)
