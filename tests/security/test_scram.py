from __future__ import annotations

import asyncio

import pytest

from kafkapy.logins import ScramCredential
from kafkapy.loop.turns import Steps
from kafkapy.metadata.cache import MetadataCache
from kafkapy.security.sasl.exchange import Exchange, LoginError
from kafkapy.security.sasl.scram import Scram
from kafkapy.security.sasl.scram_credential import (
    ScramMechanism,
    credential_of,
    decode_credential,
    encode_credential,
)
from kafkapy.security.sasl.unknown_users import UnknownUsers
from tests.security.scram_client import ScramClient, salted

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = b"a salt"


async def find(mechanism: ScramMechanism, name: str) -> ScramCredential | None:
    if name not in ("alice", "a,b=c"):
        return None
    key = salted(mechanism, "secret", SALT, 4096)
    return credential_of(mechanism, SALT, key, 4096)


async def at_once(steps: Steps[None]) -> None:
    for _ in steps:
        pass


def scram_of(which: ScramMechanism = SHA_256) -> Scram:
    return Scram(which, find, UnknownUsers(MetadataCache(), at_once))


def step(exchange: Exchange, token: bytes) -> bytes:
    answer = asyncio.run(exchange.step(token))
    assert answer is not None
    return answer


def log_in(client: ScramClient) -> Exchange:
    exchange = scram_of(client.mechanism).begin()
    assert step(exchange, client.final(step(exchange, client.first()))) == client.expected
    return exchange


@pytest.mark.parametrize("which", ScramMechanism)
def test_who_knows_the_password_is_let_in(which: ScramMechanism) -> None:
    assert log_in(ScramClient(which, "alice", "secret")).name == "alice"


def test_names_may_have_commas_and_equals_signs() -> None:
    assert log_in(ScramClient(SHA_256, "a=2Cb=3Dc", "secret")).name == "a,b=c"


def test_a_user_is_no_delegation_token() -> None:
    client = ScramClient(SHA_256, "alice", "secret", extensions=",tokenauth=true")
    exchange = scram_of().begin()
    final = client.final(step(exchange, client.first()))
    with pytest.raises(LoginError):
        step(exchange, final)


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("alice", "")])
def test_others_are_refused_at_the_last_message(user: str, password: str) -> None:
    client = ScramClient(SHA_256, user, password)
    exchange = scram_of().begin()
    final = client.final(step(exchange, client.first()))
    with pytest.raises(LoginError) as raised:
        step(exchange, final)
    assert raised.value.message is None
    assert exchange.name is None


def test_the_nonce_of_the_last_message_is_that_of_the_broker() -> None:
    """CVE-2024-56128: a message of an earlier login must not count."""
    client = ScramClient(SHA_256, "alice", "secret")
    client.nonce = lambda nonce: nonce[:-1] + ("a" if nonce[-1] != "a" else "b")
    exchange = scram_of().begin()
    final = client.final(step(exchange, client.first()))
    with pytest.raises(LoginError):
        step(exchange, final)


def test_a_last_message_cannot_be_sent_again() -> None:
    scram, client = scram_of(), ScramClient(SHA_256, "alice", "secret")
    exchange = scram.begin()
    final = client.final(step(exchange, client.first()))
    step(exchange, final)
    again = scram.begin()
    step(again, client.first())
    with pytest.raises(LoginError):
        step(again, final)


def test_a_client_cannot_act_for_another_user() -> None:
    """CVE-2017-12610."""
    client = ScramClient(SHA_256, "alice", "secret")
    client.header = "n,a=root,"
    with pytest.raises(LoginError, match="authorization id"):
        step(scram_of().begin(), client.first())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"\xff\xfe",
        b"n,,n=alice,r=" + b"a" * 5000,
    ],
)
def test_malformed_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(LoginError):
        step(scram_of().begin(), message)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws", b"c=biws,r=abc,p=!", b"c=b,r=abc,p=YQ==", b"c=biws,r=abc,p=YQ=="]
)
def test_malformed_last_messages_are_refused(message: bytes) -> None:
    exchange = scram_of().begin()
    step(exchange, ScramClient(SHA_256, "alice", "secret").first())
    with pytest.raises(LoginError):
        step(exchange, message)


def test_a_credential_is_kept_as_kafka_keeps_it() -> None:
    text = (
        "salt=YSBzYWx0,stored_key=b2bpBMn7XMQ2Mj8m8lE2Tw1dT0b0rJqjYHRmMqYbQmY=,"
        "server_key=GJp0rK3dTQbKkGUJ9mEHVPfm1MIF7cJ8yV8JtXHWZyw=,iterations=4096"
    )
    credential = decode_credential(text)
    assert credential is not None
    assert (credential.salt, credential.iterations) == (SALT, 4096)
    assert encode_credential(credential) == text


@pytest.mark.parametrize("text", ["", "salt=YQ==", "salt=!,stored_key=YQ==,server_key=YQ==,iterations=1"])
def test_a_malformed_credential_lets_nobody_in(text: str) -> None:
    assert decode_credential(text) is None


def test_a_credential_shows_no_secrets() -> None:
    assert "a salt" not in repr(credential_of(SHA_256, SALT, b"x", 4096))
