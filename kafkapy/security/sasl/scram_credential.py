"""SCRAM credentials: what the broker keeps of a password, and how the metadata tree has it.

The broker keeps neither the password nor what is needed to log in elsewhere: a salt, a number of iterations
and two keys. The node of a user has them as `SCRAM-SHA-256=salt=…,stored_key=…,server_key=…,iterations=4096`,
in base 64. Source: RFC 5802, Kafka's ScramCredentialUtils and ScramFormatter.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from enum import IntEnum
from typing import Final

from kafkapy.logins import ScramCredential

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""How often a password may be hashed. More would keep clients busy, less is too easy to guess."""

_FIELDS: Final = frozenset({"salt", "stored_key", "server_key", "iterations"})


class ScramMechanism(IntEnum):
    """The mechanisms, by their number in requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def text(self) -> str:
        """Its name in SASL."""
        return f"SCRAM-{self.hash_text}"

    @property
    def hash_text(self) -> str:
        """The name of its hash."""
        return "SHA-256" if self is ScramMechanism.SCRAM_SHA_256 else "SHA-512"

    @property
    def hash_name(self) -> str:
        """The name of its hash in hashlib."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def digest_size(self) -> int:
        """How many bytes its hash has."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """The keyed hash of a message."""
        return hmac.digest(key, message, self.hash_name)

    def digest(self, data: bytes) -> bytes:
        """The hash of some bytes."""
        return hashlib.new(self.hash_name, data).digest()


MECHANISMS: Final = {each.text: each for each in ScramMechanism}
"""The mechanisms by name."""


def xor(one: bytes, other: bytes) -> bytes:
    """The client's key from its proof and the signature, or the proof from the other two."""
    return bytes(left ^ right for left, right in zip(one, other, strict=False))


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """The credential for a password that is salted and hashed already."""
    client_key = mechanism.hmac(salted_password, b"Client Key")
    server_key = mechanism.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, mechanism.digest(client_key), server_key, iterations)


def encode_credential(credential: ScramCredential) -> str:
    """The credential as the node of a user has it."""
    fields = {
        "salt": _base64(credential.salt),
        "stored_key": _base64(credential.stored_key),
        "server_key": _base64(credential.server_key),
        "iterations": str(credential.iterations),
    }
    return ",".join(f"{name}={value}" for name, value in fields.items())


def decode_credential(text: str) -> ScramCredential | None:
    """The credential that a node has; None if it is malformed, as it lets nobody in."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if fields.keys() != _FIELDS:
        return None
    try:
        return ScramCredential(
            base64.b64decode(fields["salt"], validate=True),
            base64.b64decode(fields["stored_key"], validate=True),
            base64.b64decode(fields["server_key"], validate=True),
            int(fields["iterations"]),
        )
    except (binascii.Error, ValueError):
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
