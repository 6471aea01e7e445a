"""Who does not come in: every way to be refused, by mechanism and by kind of listener.

Each way ends with Kafka's own error, or with the end of the connection. After each, a client that has been in
before it is served, and another one comes in. docs/security.md names the count.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kafkapy import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.scram_credential import ScramMechanism
from tests.network.raw_client import RawClient
from tests.security.certificates import Certificates, trusting
from tests.security.issuer import Issuer, claims
from tests.security.listeners import PLAIN_USERS, Listeners, settings
from tests.security.scram_client import ScramClient, salted
from tests.security.token_client import create, expire

ROOT: Final = Path(__file__).resolve().parents[2]
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PROTOCOLS: Final = {
    **{name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")},
    "MUTUAL": "SSL",
    "MUTUAL_SASL": "SASL_SSL",
    "ENDING": "SASL_PLAINTEXT",
}
"""The security protocol of each listener: two demand a certificate, and the logins of one end."""
WITH_LOGIN: Final = ("SASL_PLAINTEXT", "SASL_SSL")
ENCRYPTED: Final = ("SSL", "SASL_SSL")
WITH_CERTIFICATE: Final = ("MUTUAL", "MUTUAL_SASL")
ALICE: Final = b"\0alice\0alice-secret"
METADATA: Final = encode_request(MetadataRequest(topics=[]), 12)
FAILED: Final = ErrorCode.SASL_AUTHENTICATION_FAILED


class World:
    """A broker with listeners of every kind, and what its clients need."""

    def __init__(self, broker: Broker, certificates: Certificates, issuer: Issuer) -> None:
        self.certificates = certificates
        self.issuer = issuer
        self._ports = {each.name: each.port for each in Listeners(broker).broker.core.server.listening}
        self._inside = {name: self.friend(name) for name in PROTOCOLS}

    def connect(self, listener: str) -> RawClient:
        """A connection without a handshake."""
        return RawClient(f"127.0.0.1:{self._ports[listener]}")

    def encrypted(self, listener: str) -> RawClient:
        """A connection, with the handshake of TLS if the listener has one."""
        client = self.connect(listener)
        if PROTOCOLS[listener].endswith("SSL"):
            client.encrypt(trusting(self.certificates, "client" if listener in WITH_CERTIFICATE else None))
        return client

    def friend(self, listener: str) -> RawClient:
        """A client that has come in."""
        client = self.encrypted(listener)
        if PROTOCOLS[listener].startswith("SASL"):
            assert client.log_in("alice", PLAIN_USERS["alice"])
        return client

    def check(self, listener: str) -> None:
        """Clients of a listener are served, and come in."""
        assert self._inside[listener].ask(MetadataRequest(topics=[]), 12).brokers
        with self.friend(listener) as another:
            assert another.ask(MetadataRequest(topics=[]), 12).brokers

    def close(self) -> None:
        for client in self._inside.values():
            client.close()

    def make_users(self) -> None:
        """carol has a password for both mechanisms of SCRAM, dave for one."""
        for mechanism in ScramMechanism:
            users = ["carol", "dave"] if mechanism is ScramMechanism.SCRAM_SHA_256 else ["carol"]
            key = salted(mechanism, "secret", b"a salt", 4096)
            changes = [
                ScramCredentialUpsertion(
                    name=user, mechanism=mechanism, iterations=4096, salt=b"a salt", salted_password=key
                )
                for user in users
            ]
            request = AlterUserScramCredentialsRequest(upsertions=changes)
            results = self._inside["PLAINTEXT"].ask(request, 0).results
            assert {each.error_code for each in results} == {ErrorCode.NONE}


@pytest.fixture(scope="module")
def world(certificates: Certificates, issuer: Issuer) -> Iterator[World]:
    users = " ".join(f"user_{name}='{password}'" for name, password in PLAIN_USERS.items())
    config = {
        **settings(certificates, issuer),
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in PROTOCOLS.items()),
        "connection.failed.authentication.delay.ms": "0",
        "delegation.token.secret.key": "the key of the tokens",
        "listener.name.ending.connections.max.reauth.ms": "3600000",
    }
    for name in ("mutual_sasl", "ending"):
        config[f"listener.name.{name}.sasl.enabled.mechanisms"] = "PLAIN"
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{PLAIN} {users};"
    for name in WITH_CERTIFICATE:
        config[f"listener.name.{name.lower()}.ssl.client.auth"] = "required"
    with Broker(config=config) as broker:
        made = World(broker, certificates, issuer)
        made.make_users()
        yield made
        made.close()


# --- logins -----------------------------------------------------------------------------------------------


def hands_shaken(client: RawClient, mechanism: str) -> None:
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE


def authenticate(client: RawClient, token: bytes) -> Any:
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


Attempt = Callable[[RawClient, World], Any]
"""A client tries to come in; the last answer that it gets."""


def plain(token: bytes) -> Attempt:
    def attempt(client: RawClient, world: World) -> Any:
        hands_shaken(client, "PLAIN")
        return authenticate(client, token)

    return attempt


def scram(
    mechanism: ScramMechanism,
    user: str = "carol",
    password: str = "secret",
    *,
    header: str = "n,,",
    extensions: str = "",
    nonce: Callable[[str], str] = lambda nonce: nonce,
    final: Callable[[bytes], bytes] = lambda message: message,
) -> Attempt:
    def attempt(client: RawClient, world: World) -> Any:
        hands_shaken(client, mechanism.text)
        login = ScramClient(mechanism, user, password, extensions=extensions)
        login.header, login.nonce = header, nonce
        first = authenticate(client, login.first())
        if first.error_code:
            return first
        return authenticate(client, final(login.final(first.auth_bytes)))

    return attempt


def replayed(mechanism: ScramMechanism) -> Attempt:
    """The last message of somebody who has come in, sent once more."""

    def attempt(client: RawClient, world: World) -> Any:
        with world.encrypted("SASL_PLAINTEXT") as owner:
            hands_shaken(owner, mechanism.text)
            login = ScramClient(mechanism, "carol", "secret")
            final = login.final(authenticate(owner, login.first()).auth_bytes)
            assert authenticate(owner, final).error_code == ErrorCode.NONE
        return scram(mechanism, final=lambda _: final)(client, world)

    return attempt


def bearer(token: Callable[[Issuer], str], header: str = "n,,", scheme: str = "Bearer") -> Attempt:
    def attempt(client: RawClient, world: World) -> Any:
        hands_shaken(client, "OAUTHBEARER")
        first = f"{header}\x01auth={scheme} {token(world.issuer)}\x01\x01".encode()
        answer = authenticate(client, first)
        if answer.error_code:
            return answer
        assert json.loads(answer.auth_bytes) == {"status": "invalid_token"}
        return authenticate(client, b"\x01")

    return attempt


def without_signature(issuer: Issuer) -> str:
    return jwt.encode(claims(), "", "none", headers={"kid": "one"})


def by_public_key(issuer: Issuer) -> str:
    """The public key taken as a password."""
    parts = ({"alg": "HS256", "typ": "JWT", "kid": "one"}, claims())
    signed = b".".join(url_safe(json.dumps(part).encode()) for part in parts)
    return b".".join((signed, url_safe(hmac.digest(issuer.public_key, signed, "sha256")))).decode()


def by_another_key(issuer: Issuer) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims(), key, "RS256", headers={"kid": "one"})


def with_another_owner(issuer: Issuer) -> str:
    header, _, signature = issuer.token("bob").split(".")
    return f"{header}.{url_safe(json.dumps(claims(sub='admin')).encode()).decode()}.{signature}"


def url_safe(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def said(**changes: Any) -> Attempt:
    """A token that the issuer has signed."""
    return bearer(lambda issuer: issuer.signed(claims(**changes)))


def delegated(
    change: Callable[[str, bytes], tuple[str, bytes]] = lambda name, key: (name, key),
    *,
    is_over: bool = False,
    extensions: str = ",tokenauth=true",
) -> Attempt:
    """A login by a delegation token that is not the one that was made."""

    def attempt(client: RawClient, world: World) -> Any:
        with world.friend("SASL_PLAINTEXT") as owner:
            token = create(owner)
            if is_over:
                assert expire(owner, token.hmac).error_code == ErrorCode.NONE
        name, key = change(token.token_id, token.hmac)
        password = base64.b64encode(key).decode()
        return scram(ScramMechanism.SCRAM_SHA_256, name, password, extensions=extensions)(client, world)

    return attempt


LOGINS: Final[dict[str, Attempt]] = {
    "PLAIN: a wrong password": plain(b"\0alice\0wrong"),
    "PLAIN: an unknown user": plain(b"\0nobody\0alice-secret"),
    "PLAIN: the password of another": plain(b"\0bob\0alice-secret"),
    "PLAIN: the beginning of the password": plain(b"\0alice\0alice-secre"),
    "PLAIN: more than the password": plain(b"\0alice\0alice-secret "),
    "PLAIN: a name in capitals": plain(b"\0ALICE\0alice-secret"),
    "PLAIN: no password": plain(b"\0alice\0"),
    "PLAIN: no name": plain(b"\0\0alice-secret"),
    "PLAIN: on behalf of another": plain(b"bob\0alice\0alice-secret"),
    "PLAIN: one field": plain(b"alice"),
    "PLAIN: four fields": plain(ALICE + b"\0"),
    "PLAIN: nothing": plain(b""),
    "PLAIN: not UTF-8": plain(b"\0alice\0\xff\xfe"),
    "PLAIN: 500,000 bytes": plain(b"\0alice\0" + b"a" * 500_000),
    **{
        f"{each.text}: {name}": attempt
        for each in ScramMechanism
        for name, attempt in {
            "a wrong password": scram(each, password="wrong"),
            "an unknown user": scram(each, "nobody"),
            "an empty password": scram(each, password=""),
            "a user of PLAIN": scram(each, "alice", "alice-secret"),
            "on behalf of another": scram(each, header="n,a=alice,"),
            "a channel that is bound": scram(each, header="p=tls-unique,,"),
            "a client that could bind": scram(each, header="y,,"),
            "a nonce of its own": scram(each, nonce=lambda nonce: "abc"),
            "a nonce that is longer": scram(each, nonce=lambda nonce: f"{nonce}x"),
            "a last message that is sent again": replayed(each),
            "another header in the last message": scram(
                each, final=lambda text: text.replace(b"c=biws", b"c=eSws")
            ),
            "no proof": scram(each, final=lambda text: text[: text.index(b",p=")]),
            "a proof that is too short": scram(
                each, final=lambda text: text[: text.index(b",p=")] + b",p=YQ=="
            ),
            "a user as a token": scram(each, extensions=",tokenauth=true"),
            "an extension that must be known": scram(each, "carol,m=x"),
        }.items()
    },
    "SCRAM-SHA-512: a user of SCRAM-SHA-256": scram(ScramMechanism.SCRAM_SHA_512, "dave"),
    "OAUTHBEARER: expired": said(exp=1_700_000_000),
    "OAUTHBEARER: from the future": said(nbf=4_000_000_000),
    "OAUTHBEARER: for another audience": said(aud="somebody"),
    "OAUTHBEARER: for nobody": said(aud=None),
    "OAUTHBEARER: of another issuer": said(iss="https://other.example"),
    "OAUTHBEARER: of no issuer": said(iss=None),
    "OAUTHBEARER: without an owner": said(sub=None),
    "OAUTHBEARER: of an empty owner": said(sub=" "),
    "OAUTHBEARER: without an end": said(exp=None),
    "OAUTHBEARER: with a word as its end": said(exp="soon"),
    "OAUTHBEARER: not signed": bearer(without_signature),
    "OAUTHBEARER: signed with the public key": bearer(by_public_key),
    "OAUTHBEARER: signed with another key": bearer(by_another_key),
    "OAUTHBEARER: with the name of no key": bearer(lambda issuer: issuer.signed(claims(), key_id="two")),
    "OAUTHBEARER: changed after it was signed": bearer(with_another_owner),
    "OAUTHBEARER: cut off": bearer(lambda issuer: issuer.token("alice")[:-8]),
    "OAUTHBEARER: no token": bearer(lambda issuer: "abc"),
    "OAUTHBEARER: nothing": bearer(lambda issuer: ""),
    "OAUTHBEARER: another scheme": bearer(lambda issuer: issuer.token("alice"), scheme="Basic"),
    "OAUTHBEARER: on behalf of another": bearer(lambda issuer: issuer.token("alice"), "n,a=bob,"),
    "token: with another key": delegated(lambda name, key: (name, bytes(64))),
    "token: with the name of none": delegated(lambda name, key: ("none", key)),
    "token: removed": delegated(is_over=True),
    "token: as a user": delegated(extensions=""),
}


@pytest.mark.parametrize("listener", WITH_LOGIN)
@pytest.mark.parametrize("attempt", LOGINS.values(), ids=LOGINS)
def test_a_login_is_refused(world: World, listener: str, attempt: Attempt) -> None:
    with world.encrypted(listener) as client:
        assert attempt(client, world).error_code == FAILED
        assert client.is_closed()
    world.check(listener)


# --- what is not a login ----------------------------------------------------------------------------------


def asks(request: TopMessage, version: int) -> Callable[[RawClient], Any]:
    return lambda client: client.ask(request, version)


def chooses(mechanism: str) -> Callable[[RawClient], Any]:
    return asks(SaslHandshakeRequest(mechanism=mechanism), 1)


def chooses_twice(client: RawClient) -> Any:
    hands_shaken(client, "PLAIN")
    return chooses("PLAIN")(client)


def chooses_within_a_login(client: RawClient) -> Any:
    hands_shaken(client, "SCRAM-SHA-256")
    assert authenticate(client, b"n,,n=carol,r=abc").error_code == ErrorCode.NONE
    return chooses("PLAIN")(client)


def chooses_after_a_login(client: RawClient) -> Any:
    assert client.log_in("alice", PLAIN_USERS["alice"])
    return chooses("PLAIN")(client)


def shows_a_token_after_a_login(client: RawClient) -> Any:
    assert client.log_in("alice", PLAIN_USERS["alice"])
    return authenticate(client, ALICE)


ANSWERED: Final[dict[str, tuple[Callable[[RawClient], Any], ErrorCode]]] = {
    **{
        f"chooses {mechanism[:20] or 'nothing'}": (chooses(mechanism), ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        for mechanism in ("GSSAPI", "ANONYMOUS", "EXTERNAL", "SCRAM-SHA-1", "plain", "", "P" * 30_000)
    },
    "chooses twice": (chooses_twice, ErrorCode.ILLEGAL_SASL_STATE),
    "chooses within a login": (chooses_within_a_login, ErrorCode.ILLEGAL_SASL_STATE),
    "shows a token first": (asks(SaslAuthenticateRequest(auth_bytes=ALICE), 2), ErrorCode.ILLEGAL_SASL_STATE),
}


@pytest.mark.parametrize("listener", WITH_LOGIN)
@pytest.mark.parametrize(("step", "error"), ANSWERED.values(), ids=ANSWERED)
def test_a_wrong_step_is_refused(
    world: World, listener: str, step: Callable[[RawClient], Any], error: ErrorCode
) -> None:
    with world.encrypted(listener) as client:
        assert step(client).error_code == error
        sent_and_closed(client, METADATA)
    world.check(listener)


def sent_and_closed(client: RawClient, data: bytes) -> None:
    """Whatever is sent, nothing but the end of the connection is the answer."""
    try:
        client.send(data)
    except (ConnectionError, ssl.SSLError):
        return
    assert client.is_closed()


STEPS_AFTER: Final = {
    "chooses after a login": chooses_after_a_login,
    "shows a token after a login": shows_a_token_after_a_login,
}


@pytest.mark.parametrize("listener", WITH_LOGIN)
@pytest.mark.parametrize("step", STEPS_AFTER.values(), ids=STEPS_AFTER)
def test_a_login_without_an_end_is_not_repeated(
    world: World, listener: str, step: Callable[[RawClient], Any]
) -> None:
    with world.encrypted(listener) as client:
        assert step(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    world.check(listener)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL", "MUTUAL"])
@pytest.mark.parametrize(
    "step", [chooses("PLAIN"), asks(SaslAuthenticateRequest(auth_bytes=ALICE), 2)], ids=["chooses", "shows"]
)
def test_there_is_no_login_without_one(world: World, listener: str, step: Callable[[RawClient], Any]) -> None:
    with world.encrypted(listener) as client:
        assert step(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    world.check(listener)


REPEATED: Final[dict[str, tuple[str, bytes, ErrorCode]]] = {
    "as another user": ("PLAIN", b'\0bob\0b"ob', FAILED),
    "with a wrong password": ("PLAIN", b"\0alice\0wrong", FAILED),
    "by another mechanism": ("SCRAM-SHA-256", b"", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
}


@pytest.mark.parametrize(("mechanism", "token", "error"), REPEATED.values(), ids=REPEATED)
def test_a_login_is_not_repeated(world: World, mechanism: str, token: bytes, error: ErrorCode) -> None:
    with world.friend("ENDING") as client:
        answer = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        if not answer.error_code:
            answer = authenticate(client, token)
            assert client.is_closed()
        assert answer.error_code == error
    world.check("ENDING")


# --- bytes ------------------------------------------------------------------------------------------------

BEFORE: Final = {
    "Metadata": METADATA,
    "Produce": encode_request(ProduceRequest(), 9),
    "FindCoordinator": encode_request(FindCoordinatorRequest(), 4),
    "512 KiB and one byte": struct.pack(">i", (512 << 10) + 1),
    "a negative size": struct.pack(">i", -1),
    "no request": struct.pack(">i", 3) + b"abc",
}


@pytest.mark.parametrize("listener", WITH_LOGIN)
@pytest.mark.parametrize("mechanism", [None, "PLAIN"], ids=["at once", "within a login"])
@pytest.mark.parametrize("data", BEFORE.values(), ids=BEFORE)
def test_nothing_else_is_answered_before_the_login(
    world: World, listener: str, mechanism: str | None, data: bytes
) -> None:
    with world.encrypted(listener) as client:
        if mechanism is not None:
            hands_shaken(client, mechanism)
        sent_and_closed(client, data)
    world.check(listener)


@pytest.mark.parametrize("listener", WITH_LOGIN)
@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"", METADATA[4:]], ids=["wrong", "empty", "a request"])
def test_a_token_without_a_header_is_refused(world: World, listener: str, token: bytes) -> None:
    with world.encrypted(listener) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == ErrorCode.NONE
        sent_and_closed(client, struct.pack(">i", len(token)) + token)
    world.check(listener)


CLIENT_HELLO: Final = bytes.fromhex("16030100c8010000c40303") + bytes(32)
HTTP: Final = b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n"


@pytest.mark.parametrize(
    ("listener", "data"),
    [
        *((listener, METADATA) for listener in (*ENCRYPTED, *WITH_CERTIFICATE)),
        *((listener, CLIENT_HELLO) for listener in ("PLAINTEXT", "SASL_PLAINTEXT")),
        *((listener, HTTP) for listener in PROTOCOLS),
    ],
)
def test_another_protocol_is_refused(world: World, listener: str, data: bytes) -> None:
    with world.connect(listener) as client:
        sent_and_closed(client, data)
    world.check(listener)


# --- TLS --------------------------------------------------------------------------------------------------


def of_version_1_1(context: ssl.SSLContext) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1


def with_a_cipher_of_rsa(context: ssl.SSLContext) -> None:
    """The broker's key is of an elliptic curve."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")


@pytest.mark.filterwarnings("ignore:.*TLSv1_1:DeprecationWarning")
@pytest.mark.parametrize("listener", ENCRYPTED)
@pytest.mark.parametrize("change", [of_version_1_1, with_a_cipher_of_rsa])
def test_a_client_that_has_nothing_in_common_is_refused(
    world: World, listener: str, change: Callable[[ssl.SSLContext], None]
) -> None:
    context = trusting(world.certificates)
    change(context)
    with world.connect(listener) as client, pytest.raises((ssl.SSLError, ConnectionError)):
        client.encrypt(context)
    world.check(listener)


@pytest.mark.parametrize("listener", WITH_CERTIFICATE)
@pytest.mark.parametrize("shown", [None, "stranger", "former", "future", "alone"])
def test_a_certificate_that_does_not_count_is_refused(world: World, listener: str, shown: str | None) -> None:
    with world.connect(listener) as client, contextlib.suppress(ssl.SSLError, ConnectionError):
        # With TLS 1.3 the client has done its part of the handshake before it hears of this.
        client.encrypt(trusting(world.certificates, shown))
        client.send(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        assert client.socket.recv(1) == b""
    world.check(listener)


@pytest.mark.parametrize("listener", ENCRYPTED)
@pytest.mark.parametrize("trusted", ["other_authority", "stranger", "alone"])
def test_a_client_refuses_a_broker_of_an_authority_that_it_does_not_know(
    world: World, listener: str, trusted: str
) -> None:
    context = ssl.create_default_context(cafile=str(getattr(world.certificates, trusted)))
    with (
        world.connect(listener) as client,
        pytest.raises(ssl.SSLCertVerificationError, match="verify failed"),
    ):
        client.encrypt(context)
    world.check(listener)


@pytest.mark.parametrize("listener", ENCRYPTED)
def test_a_client_refuses_a_broker_of_another_name(world: World, listener: str) -> None:
    context = trusting(world.certificates)
    with (
        world.connect(listener) as client,
        pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"),
    ):
        context.wrap_socket(client.socket, server_hostname="kafka.example.org")
    world.check(listener)


# --- the count --------------------------------------------------------------------------------------------
