"""The delegation tokens of a cluster: by HMAC, and as credentials of logins.

The HMAC of a token is HMAC-SHA-512 of its id by `delegation.token.secret.key`, which all brokers have. In
base 64 it is the password of a SCRAM login whose user is the id. The credential for it is computed at the
first login with the token, in a thread, and the last ones are kept. Its salt is the one that is shown for the
id without a token (`sasl/unknown_users.py`). Source: Kafka's DelegationTokenManager,
DelegationTokenCache.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.logins import ScramCredential
from kafkapy.loop.clock import Clock
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.delegation_tokens import DelegationToken
from kafkapy.metadata.image import MetadataImage
from kafkapy.security.sasl.scram_credential import (
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
)
from kafkapy.security.sasl.unknown_users import token_salt


class TokenCache:
    """The tokens that the metadata shows."""

    most_credentials: int = 2_000
    """How many credentials are kept, some 600 bytes each."""

    def __init__(
        self,
        secret_key: str,
        metadata: MetadataCache,
        clock: Clock,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        """`in_thread` runs a call whose cost clients choose in a worker thread."""
        self._secret_key = secret_key.encode()
        self._metadata = metadata
        self._clock = clock
        self._in_thread = in_thread
        self._ids: dict[bytes, str] = {}
        """The ids of tokens by their HMACs."""
        self._credentials: dict[tuple[ScramMechanism, str], asyncio.Future[ScramCredential]] = {}
        """Those of the last logins, the last one at the end."""
        metadata.follow(self._follow)

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    def find(self, token_hmac: bytes) -> DelegationToken | None:
        """The token with this HMAC, even if it has expired."""
        token_id = self._ids.get(token_hmac)
        return None if token_id is None else self._metadata.image.delegation_tokens.get(token_id)

    def valid(self, token_id: str) -> DelegationToken | None:
        """The token with this id; None if there is none, or if it has expired."""
        token = self._metadata.image.delegation_tokens.get(token_id)
        return None if token is None or token.is_expired(self._clock.now_ms()) else token

    async def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential | None:
        """The credential of a token for a login; None unless it is `valid`."""
        if self.valid(token_id) is None:
            return None
        key = mechanism, token_id
        credential = self._credentials.pop(key, None)
        if credential is None or _has_failed(credential):
            password = base64.b64encode(self.hmac_of(token_id))
            salt = token_salt(self._metadata.image.salt_secret, mechanism, token_id)
            credential = asyncio.ensure_future(self._in_thread(_new_credential, mechanism, password, salt))
        self._credentials[key] = credential
        if len(self._credentials) > self.most_credentials:
            del self._credentials[next(iter(self._credentials))]
        # Other logins may wait for it too when the client of this one goes away.
        return await asyncio.shield(credential)

    def _follow(self, old: MetadataImage, image: MetadataImage) -> None:
        """Learn the HMACs of new tokens, and forget those of removed ones."""
        if old.salt_secret != image.salt_secret:
            self._credentials.clear()
        before, after = old.delegation_tokens, image.delegation_tokens
        if before is after:
            return
        # Most changes are of one token: no copy of all ids is made.
        for token_id in [each for each in after if each not in before]:
            self._ids[self.hmac_of(token_id)] = token_id
        for token_id in [each for each in before if each not in after]:
            del self._ids[self.hmac_of(token_id)]
            for mechanism in ScramMechanism:
                self._credentials.pop((mechanism, token_id), None)


def _has_failed(credential: asyncio.Future[ScramCredential]) -> bool:
    return credential.done() and (credential.cancelled() or credential.exception() is not None)


def _new_credential(mechanism: ScramMechanism, password: bytes, salt: bytes) -> ScramCredential:
    """A credential for a password, which takes milliseconds."""
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, MIN_ITERATIONS)
    return credential_of(mechanism, salt, salted, MIN_ITERATIONS)
