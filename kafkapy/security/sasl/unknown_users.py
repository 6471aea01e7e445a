"""What logins by SCRAM are told of users and tokens that do not exist.

A login begins with the salt and the iterations of its user. A name without a user gets some too: always the
same ones, from each broker and listener and after each start, since they are made of the name and of a secret
of the cluster. They have the form of those of the users that there are: as many iterations, and a salt as
long, or one of Java's kind, each form as often as users have it. When users of another form come or go, some
names get another form, with another salt. Otherwise the answer would tell who exists, as Apache Kafka's does,
which refuses such a login at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from kafkapy.logins import ScramCredential
from kafkapy.loop.turns import Steps
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.quotas import ClientQuotas
from kafkapy.security.sasl.scram_credential import (
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
    decode_credential,
)

_JAVA_SALT: Final = re.compile(rb"[0-9a-z]{20,26}")
"""A random number of 130 bits to the base of 36. Source: ScramFormatter.secureRandomString."""
_JAVA_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class CredentialForm(NamedTuple):
    """What a credential shows of the tool that made it."""

    iterations: int
    salt_bytes: int
    """How long the salt is; 0: it is one of Java's, whose length varies."""


JAVA_FORM: Final = CredentialForm(MIN_ITERATIONS, 0)
"""That of `kafka-configs`, and of delegation tokens."""

_NO_TEXTS: Final[Mapping[str, str]] = {}
_Counts = dict[ScramMechanism, Counter[CredentialForm]]


class UnknownUsers:
    """Credentials that no password fits, for names without a user or a token."""

    def __init__(self, metadata: MetadataCache, in_turns: Callable[[Steps[None]], Awaitable[None]]) -> None:
        """`in_turns` does long work in turns."""
        self._metadata = metadata
        self._in_turns = in_turns
        self._counting = asyncio.Lock()
        self._counted = ClientQuotas()
        self._counts: _Counts = {each: Counter() for each in ScramMechanism}
        """How many users have a credential of each form, among those that are counted."""

    async def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """A credential like those of the users that there are.

        Users that exist ask for one too, so that their logins take as long.
        """
        async with self._counting:
            image = self._metadata.image
            if image.client_quotas is not self._counted:
                await self._in_turns(self._count(image.client_quotas))
        form = self._form(mechanism, _drawn(image.salt_secret, "form", mechanism, name))
        seed = _drawn(image.salt_secret, f"user {form.iterations} {form.salt_bytes}", mechanism, name)
        return _credential(mechanism, _salt(seed, form), form)

    def token(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """A credential with the salt of the token that would have this id."""
        salt = token_salt(self._metadata.image.salt_secret, mechanism, token_id)
        return _credential(mechanism, salt, JAVA_FORM)

    def _form(self, mechanism: ScramMechanism, drawn: bytes) -> CredentialForm:
        """One of the forms of the users of a mechanism, each as often as they have it."""
        counts = self._counts[mechanism]
        place = int.from_bytes(drawn[:8]) * counts.total() >> 64
        for form in sorted(counts):
            place -= counts[form]
            if place < 0:
                return form
        return JAVA_FORM

    def _count(self, quotas: ClientQuotas) -> Steps[None]:
        """Count the users that have changed since they were counted last."""
        before, after = self._counted.configs, quotas.configs
        counts = {mechanism: Counter(counted) for mechanism, counted in self._counts.items()}
        for entity in quotas.changed_since(self._counted):
            old, new = before.get(entity, _NO_TEXTS), after.get(entity, _NO_TEXTS)
            if old is not new:
                _add(counts, old, -1)
                _add(counts, new, 1)
            yield
        self._counted, self._counts = quotas, {each: +counted for each, counted in counts.items()}


def token_salt(secret: bytes, mechanism: ScramMechanism, token_id: str) -> bytes:
    """The salt of a delegation token, whether or not there is one."""
    return _salt(_drawn(secret, "token", mechanism, token_id), JAVA_FORM)


def _add(counts: _Counts, texts: Mapping[str, str], change: int) -> None:
    """Count the credentials of a user, or cease to."""
    for text, mechanism in MECHANISMS.items():
        credential = decode_credential(texts[text]) if text in texts else None
        if credential is not None:
            salt = credential.salt
            salt_bytes = 0 if _JAVA_SALT.fullmatch(salt) else len(salt)
            counts[mechanism][CredentialForm(credential.iterations, salt_bytes)] += change


def _drawn(secret: bytes, what: str, mechanism: ScramMechanism, name: str) -> bytes:
    """Bytes that are as good as random without the secret; no name has a zero byte."""
    return hmac.digest(secret, f"{what}\0{mechanism.text}\0{name}".encode(), "sha256")


def _salt(seed: bytes, form: CredentialForm) -> bytes:
    if form.salt_bytes:
        return hashlib.shake_256(seed).digest(form.salt_bytes)
    number = int.from_bytes(seed) >> len(seed) * 8 - _JAVA_BITS
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).encode()


def _credential(mechanism: ScramMechanism, salt: bytes, form: CredentialForm) -> ScramCredential:
    nothing = secrets.token_bytes(mechanism.digest_size)
    return ScramCredential(salt, nothing, nothing, form.iterations)
