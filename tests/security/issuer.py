"""Somebody who signs tokens, and publishes the keys in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
_PREFIX = "sasl.oauthbearer"


class Issuer:
    """An issuer whose keys are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        to_jwk = jwt.get_algorithm_by_name("RS256").to_jwk
        key = {**json.loads(to_jwk(self._key.public_key())), "kid": "one", "alg": "RS256", "use": "sig"}
        self._keys = folder / "keys.json"
        self._keys.write_text(json.dumps({"keys": [key]}))

    @property
    def settings(self) -> dict[str, str]:
        """What a broker needs to check the tokens."""
        return {
            f"{_PREFIX}.jwks.endpoint.url": self._keys.as_uri(),
            f"{_PREFIX}.expected.issuer": ISSUER,
            f"{_PREFIX}.expected.audience": AUDIENCE,
        }

    def token(self, name: str, *, audience: str = AUDIENCE) -> str:
        """A token that counts for an hour."""
        return self.signed(claims(sub=name, aud=audience))

    def signed(self, body: dict[str, Any], key_id: str = "one") -> str:
        """A token that says this."""
        return jwt.encode(body, self._key, "RS256", headers={"kid": key_id})

    @property
    def public_key(self) -> bytes:
        """The key that everybody may read, as PEM."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def claims(**changes: Any) -> dict[str, Any]:
    """What a token for alice says that counts for an hour, with changes.

    None leaves a claim out.
    """
    now = int(time.time())
    body = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": []}
    return {name: value for name, value in {**body, **changes}.items() if value is not None}
