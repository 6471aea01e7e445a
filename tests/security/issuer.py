"""Somebody who signs tokens, and publishes the keys in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

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
        now = int(time.time())
        claims = {"sub": name, "iss": ISSUER, "aud": audience, "iat": now, "exp": now + 3600, "scope": []}
        return jwt.encode(claims, self._key, "RS256", headers={"kid": "one"})
