"""A login by SCRAM is not told whether there is such a user or token."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.logins import ScramCredential
from kafkapy.loop.turns import Steps
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.delegation_tokens import DelegationToken
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.quotas import ClientQuotas, quota_entity
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl import users
from kafkapy.security.sasl.scram_credential import (
    ScramMechanism,
    encode_credential,
)
from kafkapy.security.sasl.unknown_users import UnknownUsers
from kafkapy.security.token_cache import TokenCache
from tests.calls import calls_of
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.security.certificates import Certificates, trusting
from tests.security.issuer import Issuer
from tests.security.listeners import Listeners, settings
from tests.security.scram_client import ScramClient
from tests.security.token_client import create, with_password

SHA_256, SHA_512 = ScramMechanism
SASL, SASL_SSL = SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL
NAMES = [f"nobody-{number}" for number in range(1000)]
RAW = bytes(range(24))
OF_JAVA = b"1gcv2yzm4ss2kzjp9iwmlc9l0u"
TOKEN = DelegationToken("id", "User:a", "User:a", (), START_MS, START_MS + 1000, START_MS + 1000)


class Told(NamedTuple):
    """What the broker's first message tells of a user."""

    salt: bytes
    iterations: int


class Logins:
    """Attempts to log in at a broker."""

    def __init__(self, broker: Broker, certificates: Certificates) -> None:
        self.listeners = Listeners(broker)
        self._encryption = trusting(certificates)

    def told(self, user: str, protocol: SecurityProtocol = SASL, *, extensions: str = "") -> Told:
        login = ScramClient(SHA_256, user, "wrong", extensions=extensions)
        context = self._encryption if protocol is SASL_SSL else None
        with self.listeners.connect(protocol, context) as client:
            client.ask(SaslHandshakeRequest(mechanism=SHA_256.text), 1)
            answer = client.ask(SaslAuthenticateRequest(auth_bytes=login.first()), 2)
        fields = dict(part.split("=", 1) for part in answer.auth_bytes.decode().split(","))
        return Told(base64.b64decode(fields["s"]), int(fields["i"]))

    def told_of_token(self, token_id: str) -> Told:
        return self.told(token_id, extensions=",tokenauth=true")


def image(
    users: Iterable[tuple[bytes, int]] = (), mechanism: ScramMechanism = SHA_256, secret: bytes = b"a secret"
) -> MetadataImage:
    """The metadata of a cluster with users that have such salts and iterations."""
    key = bytes(32)
    texts = [encode_credential(ScramCredential(salt, key, key, iterations)) for salt, iterations in users]
    quotas = ClientQuotas().with_changes(
        {quota_entity({"user": f"user-{n}"}): {mechanism.text: text} for n, text in enumerate(texts)}
    )
    return MetadataImage(salt_secret=secret, client_quotas=quotas)


async def finish(steps: Steps[None]) -> None:
    for _ in steps:
        pass


def unknown_users(shown: MetadataImage) -> tuple[MetadataCache, UnknownUsers]:
    metadata = MetadataCache()
    metadata.publish(shown)
    return metadata, UnknownUsers(metadata, finish)


async def forms(
    users: Iterable[tuple[bytes, int]], mechanism: ScramMechanism = SHA_256
) -> Counter[tuple[int, int]]:
    """The lengths of salts and the iterations of many unknown users beside some users."""
    _, unknown = unknown_users(image(users, mechanism))
    found = [await unknown.user(SHA_256, name) for name in NAMES]
    return Counter((len(each.salt), each.iterations) for each in found)


def test_an_unknown_user_is_told_the_same_by_each_listener_and_after_a_restart(
    tmp_path: Path, certificates: Certificates, issuer: Issuer
) -> None:
    found = []
    for _ in range(2):
        with Broker(data_dir=tmp_path, config=settings(certificates, issuer)) as broker:
            logins = Logins(broker, certificates)
            found += [logins.told("nobody"), logins.told("nobody", SASL_SSL)]
            others = {logins.told("nobody else"), logins.told("Nobody")}
    assert len({*found}) == 1
    assert len({found[0], *others}) == 3


def test_a_token_has_the_salt_that_it_would_have_if_there_were_none(
    tmp_path: Path, certificates: Certificates, issuer: Issuer
) -> None:
    config = {**settings(certificates, issuer), "delegation.token.secret.key": "key"}
    with Broker(data_dir=tmp_path, config=config) as broker:
        logins = Logins(broker, certificates)
        with with_password(logins.listeners, "alice") as alice:
            token_id = create(alice).token_id
        token, unknown = logins.told_of_token(token_id), logins.told_of_token("A" * 22)
    assert re.fullmatch(rb"[0-9a-z]{20,26}", token.salt)
    assert re.fullmatch(rb"[0-9a-z]{20,26}", unknown.salt)
    assert token.iterations == unknown.iterations
    with Broker(data_dir=tmp_path, config=settings(certificates, issuer)) as broker:
        logins = Logins(broker, certificates)
        assert logins.told_of_token("A" * 22) == unknown
        assert logins.told_of_token(token_id) == token  # this broker has no tokens


def test_the_secret_is_in_no_log(
    tmp_path: Path, certificates: Certificates, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="kafkapy.request")
    with Broker(data_dir=tmp_path, config=settings(certificates, issuer)) as broker:
        Logins(broker, certificates).told("nobody")
        shown = broker.core.metadata.image
    secret = shown.salt_secret.decode()
    assert len(secret) >= 40
    assert secret not in caplog.text
    assert secret not in repr(shown)


async def test_each_cluster_has_salts_of_its_own() -> None:
    found = [
        await unknown_users(image(secret=secret))[1].user(SHA_256, "nobody") for secret in (b"one", b"other")
    ]
    assert found[0].salt != found[1].salt


async def test_tokens_have_the_salts_of_a_new_secret() -> None:
    metadata, unknown = unknown_users(image())

    async def at_once(call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)

    tokens = TokenCache("key", metadata, TurnedClock(), at_once)
    metadata.publish(metadata.image.with_delegation_tokens({TOKEN.id: TOKEN}))
    found = []
    for secret in (b"a secret", b"another"):
        metadata.publish(replace(metadata.image, salt_secret=secret))
        credential = await tokens.credential(SHA_256, TOKEN.id)
        assert credential is not None
        assert credential.salt == unknown.token(SHA_256, TOKEN.id).salt
        found.append(credential.salt)
    assert found[0] != found[1]


async def test_mechanisms_users_and_tokens_have_other_salts() -> None:
    _, unknown = unknown_users(image())
    found = [await unknown.user(mechanism, "nobody") for mechanism in ScramMechanism]
    found += [unknown.token(mechanism, "nobody") for mechanism in ScramMechanism]
    assert len({each.salt for each in found}) == 4


@pytest.mark.parametrize("iterations", [4096, 8192])
async def test_unknown_users_have_the_iterations_and_lengths_of_the_users_that_there_are(
    iterations: int,
) -> None:
    assert await forms([(RAW, iterations), (bytes(24), iterations)]) == {(24, iterations): len(NAMES)}
    assert await forms([(bytes(64), iterations)]) == {(64, iterations): len(NAMES)}


async def test_users_of_kinds_are_imitated_as_often_as_there_are_of_each() -> None:
    found = await forms([(RAW, 4096)] * 30 + [(RAW, 16384)] * 10)
    assert found.keys() == {(24, 4096), (24, 16384)}
    assert 200 <= found[24, 16384] <= 300


async def test_salts_of_java_are_imitated() -> None:
    """They are numbers of 130 bits to the base of 36."""
    _, unknown = unknown_users(image([(OF_JAVA, 4096)]))
    salts = [(await unknown.user(SHA_256, name)).salt for name in NAMES]
    assert all(re.fullmatch(rb"[0-9a-z]+", salt) for salt in salts)
    assert {len(salt) for salt in salts} <= {23, 24, 25, 26}
    assert {salt[:1] for salt in salts if len(salt) == 26} == {b"1"}
    assert 0.3 < sum(len(salt) == 26 for salt in salts) / len(salts) < 0.55


async def test_users_of_the_other_mechanism_do_not_count() -> None:
    assert await forms([(RAW, 16384)], SHA_512) == await forms([])


async def test_changed_users_are_imitated_from_then_on() -> None:
    metadata, unknown = unknown_users(image([(RAW, 4096)]))
    assert (await unknown.user(SHA_256, "nobody")).iterations == 4096
    metadata.publish(image([(RAW, 8192)] * 2))
    assert (await unknown.user(SHA_256, "nobody")).iterations == 8192
    metadata.publish(image())
    assert (await unknown.user(SHA_256, "nobody")).iterations == 4096


async def test_logins_that_wait_for_a_count_share_the_next_one() -> None:
    metadata = MetadataCache()
    metadata.publish(image([(RAW, 4096)]))
    counts, may_end = 0, asyncio.Event()

    async def later(steps: Steps[None]) -> None:
        nonlocal counts
        counts += 1
        await may_end.wait()
        await finish(steps)

    unknown = UnknownUsers(metadata, later)
    logins = []
    for iterations in (4096, 8192, 12288, 16384):
        metadata.publish(image([(RAW, iterations)]))
        logins.append(asyncio.create_task(unknown.user(SHA_256, "nobody")))
        await asyncio.sleep(0)
    may_end.set()
    assert [each.iterations for each in await asyncio.gather(*logins)] == [4096, 16384, 16384, 16384]
    assert counts == 2


def test_only_the_first_login_of_a_user_takes_longer_than_those_of_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = calls_of(monkeypatch, users, "decode_credential")
    shown = image([(b"a salt of this test", 4096)])
    found = [users.credentials_of(shown, "user-0")[SHA_256] for _ in range(2)]
    assert found[0] == found[1]
    assert len(decoded) == 1


async def test_a_salt_changes_with_the_iterations_as_that_of_a_new_password_does() -> None:
    metadata, unknown = unknown_users(image([(RAW, 4096)]))
    before = await unknown.user(SHA_256, "nobody")
    metadata.publish(image([(RAW, 8192)]))
    assert (await unknown.user(SHA_256, "nobody")).salt != before.salt


async def test_a_change_of_one_user_is_counted_without_a_look_at_all_others() -> None:
    steps_taken = 0

    async def counted(steps: Steps[None]) -> None:
        nonlocal steps_taken
        for _ in steps:
            steps_taken += 1

    metadata = MetadataCache()
    metadata.publish(image([(RAW, 4096)] * 1000))
    unknown = UnknownUsers(metadata, counted)
    await unknown.user(SHA_256, "nobody")
    assert steps_taken == 1000
    before, others = metadata.image, image([(bytes(64), 8192)]).client_quotas.configs
    for n in range(3):
        entity = quota_entity({"user": f"user-{n}"})
        content = None if n == 2 else others[quota_entity({"user": "user-0"})]
        quotas = metadata.image.client_quotas.with_changes({entity: content})
        metadata.publish(metadata.image.with_client_quotas(quotas))
    await unknown.user(SHA_256, "nobody")
    assert steps_taken == 1003
    for shown in (metadata.image, before):
        metadata.publish(shown)
        afresh = UnknownUsers(metadata, finish)
        for name in NAMES:
            known, expected = await unknown.user(SHA_256, name), await afresh.user(SHA_256, name)
            assert (known.salt, known.iterations) == (expected.salt, expected.iterations)
