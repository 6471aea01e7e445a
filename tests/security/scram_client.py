"""A client of SCRAM, written from RFC 5802, whose messages tests can change."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

from kafkapy.security.sasl.scram_credential import ScramMechanism


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """What a client sends in AlterUserScramCredentials for a password."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


class ScramClient:
    """One attempt to log in."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, *, extensions: str = "") -> None:
        self.mechanism = mechanism
        self.password = password
        self.first_bare = f"n={user},r=abc{extensions}"
        self.header = "n,,"
        self.nonce: Callable[[str], str] = lambda nonce: nonce
        """Changes the nonce of the final message."""
        self.salted = salted
        """Derives the key from the password."""

    def first(self) -> bytes:
        return (self.header + self.first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        assert fields["r"].startswith("abc")
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        key = self.salted(self.mechanism, self.password, salt, iterations)
        binding = base64.b64encode(self.header.encode()).decode()
        unsigned = f"c={binding},r={self.nonce(fields['r'])}"
        message = f"{self.first_bare},{server_first.decode()},{unsigned}".encode()
        client_key = hmac.digest(key, b"Client Key", self.mechanism.hash_name)
        stored_key = hashlib.new(self.mechanism.hash_name, client_key).digest()
        signature = hmac.digest(stored_key, message, self.mechanism.hash_name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = hmac.digest(key, b"Server Key", self.mechanism.hash_name)
        self.expected = b"v=" + base64.b64encode(hmac.digest(server_key, message, self.mechanism.hash_name))
        return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()
