"""Links to other brokers by TLS, and with logins."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.unsupported import TOKEN_VALIDATORS
from kafkapy.inter_broker.peers import PeerAddress, PeerError, TcpPeer, TcpPeers
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.security.links import MECHANISM, TOKEN_URL, LinkSecurity
from kafkapy.security.sasl.client_login import ClientLoginError, ScramLogin
from kafkapy.security.sasl.scram_credential import ScramMechanism
from tests.network.raw_client import RawClient
from tests.security.certificates import Certificates, make_certificates
from tests.security.issuer import Issuer
from tests.security.scram_client import salted

USER, PASSWORD = "broker,=", 'a "password"'
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def settings(certificates: Certificates, protocol: str) -> dict[str, str]:
    """The settings of a broker of a cluster whose links have this security protocol."""
    found = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INSIDE:{protocol}",
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MODULES),
    }
    quoted = PASSWORD.replace('"', '\\"')
    for mechanism, module in MODULES.items():
        line = f'{module} required username="{USER}" password="{quoted}" "user_{USER}"="{quoted}";'
        found[f"listener.name.inside.{mechanism.lower()}.sasl.jaas.config"] = line
    return found


@pytest.fixture(scope="module", params=["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def broker(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Broker]:
    """A broker that has a listener for others, and knows the user of others."""
    with Broker(config=settings(certificates, request.param)) as started:
        with RawClient(started.bootstrap_servers) as client:
            for mechanism in ScramMechanism:
                upsertion = ScramCredentialUpsertion(
                    name=USER,
                    mechanism=mechanism,
                    iterations=4096,
                    salt=b"salt",
                    salted_password=salted(mechanism, PASSWORD, b"salt", 4096),
                )
                wanted = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
                assert [each.error_code for each in client.ask(wanted, 0).results] == [0]
        yield started


@asynccontextmanager
async def peer(
    broker: Broker, security: LinkSecurity | None, host: str = "127.0.0.1"
) -> AsyncIterator[TcpPeer]:
    inside = next(each for each in broker.core.server.listening if each.name == "INSIDE")
    found = TcpPeers(7, security).connect(PeerAddress(1, host, inside.port), "test")
    try:
        yield found
    finally:
        found.close()


def link(broker: Broker, certificates: Certificates, more: dict[str, str] | None = None) -> LinkSecurity:
    """How another broker reaches it: with the same settings, but for some."""
    protocol = next(each.protocol for each in broker.core.config.listeners if each.name == "INSIDE")
    return LinkSecurity(BrokerConfig(settings(certificates, protocol) | (more or {}), clustered=True))


async def brokers_seen(found: TcpPeer) -> int:
    return len((await found.ask(MetadataRequest(topics=[]), seconds=10)).brokers)


def skip_unless(broker: Broker, needed: str) -> None:
    protocol = next(each.protocol for each in broker.core.config.listeners if each.name == "INSIDE")
    if needed not in protocol:
        pytest.skip(f"{protocol} has nothing of this")


@pytest.mark.parametrize("mechanism", MODULES)
async def test_a_broker_comes_in(broker: Broker, certificates: Certificates, mechanism: str) -> None:
    security = link(broker, certificates, {MECHANISM: mechanism})
    async with peer(broker, security) as found:
        assert await brokers_seen(found) == 1
        if security.login is not None:
            assert f"User:{USER}" in {each.principal for each in broker.core.server.connections}


@pytest.mark.parametrize("mechanism", MODULES)
async def test_a_wrong_password_is_told(broker: Broker, certificates: Certificates, mechanism: str) -> None:
    skip_unless(broker, "SASL")
    jaas = f"listener.name.inside.{mechanism.lower()}.sasl.jaas.config"
    line = f'{MODULES[mechanism]} required username="{USER}" password="wrong";'
    async with peer(broker, link(broker, certificates, {MECHANISM: mechanism, jaas: line})) as found:
        with pytest.raises(PeerError, match=r"does not let this broker in: .*(?i:invalid (cred|username))"):
            await brokers_seen(found)


@pytest.fixture
def bearer_settings(tmp_path: Path) -> dict[str, str]:
    """The settings of a broker that others reach by tokens."""
    issuer, token = Issuer(tmp_path), tmp_path / "token"
    token.write_text(issuer.token("broker") + "\n")
    of_mechanism = "listener.name.inside.oauthbearer.sasl."
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{of_mechanism}jaas.config": module,
        f"{of_mechanism}server.callback.handler.class": TOKEN_VALIDATORS[0],
        **issuer.settings,
        MECHANISM: "OAUTHBEARER",
        TOKEN_URL: token.as_uri(),
    }


async def test_a_broker_shows_the_token_that_is_in_its_file_now(
    bearer_settings: dict[str, str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    good = token.read_text()
    with Broker(config=bearer_settings) as broker:
        security = LinkSecurity(BrokerConfig(bearer_settings, clustered=True))
        for text, why in (
            (good[:-9], "does not let this broker in"),
            ("two words", "has no token"),
            ("", "has no token"),
        ):
            token.write_text(text)
            async with peer(broker, security) as found:
                with pytest.raises(PeerError, match=why):
                    await brokers_seen(found)
        token.unlink()
        async with peer(broker, security) as found:
            with pytest.raises(PeerError, match="its token cannot be read"):
                await brokers_seen(found)
        token.write_text(good)
        async with peer(broker, security) as found:
            assert await brokers_seen(found) == 1
            assert "User:broker" in {each.principal for each in broker.core.server.connections}


@pytest.mark.parametrize("url", ["", "https://issuer.example/token", "file:///missing", "/token"])
def test_the_token_of_a_broker_is_in_a_file(bearer_settings: dict[str, str], url: str) -> None:
    config = BrokerConfig({**bearer_settings, TOKEN_URL: url}, clustered=True)
    with pytest.raises(ConfigError, match=r"token\.endpoint\.url.*expected file:///"):
        LinkSecurity(config)


async def test_a_mechanism_that_is_not_offered_is_told(broker: Broker, certificates: Certificates) -> None:
    skip_unless(broker, "SASL")
    security = link(broker, certificates, {MECHANISM: "PLAIN"})
    assert security.login is not None
    security.login = security.login._replace(mechanism="GSSAPI")
    async with peer(broker, security) as found:
        with pytest.raises(PeerError, match=r"in by GSSAPI, but by PLAIN, .*: UNSUPPORTED_SASL_MECHANISM"):
            await brokers_seen(found)


@pytest.mark.parametrize(
    ("host", "more"),
    [
        ("127.0.0.2", {}),
        ("127.0.0.1", {"ssl.truststore.location": "other_authority"}),
        ("127.0.0.1", {"ssl.keystore.location": "stranger"}),
    ],
)
async def test_only_brokers_with_the_right_certificates_reach_each_other(
    broker: Broker, certificates: Certificates, host: str, more: dict[str, str]
) -> None:
    skip_unless(broker, "SSL")
    if "ssl.keystore.location" in more and broker.core.config.listeners[1].protocol.has_login:
        pytest.skip("certificates of clients count on such a listener only if it asks for them")
    named = {name: str(getattr(certificates, value)) for name, value in more.items()}
    async with peer(broker, link(broker, certificates, {MECHANISM: "PLAIN", **named}), host) as found:
        with pytest.raises(PeerError):
            await brokers_seen(found)


async def test_names_in_certificates_need_not_be_checked(broker: Broker, certificates: Certificates) -> None:
    skip_unless(broker, "SSL")
    more = {MECHANISM: "PLAIN", "ssl.endpoint.identification.algorithm": ""}
    inside = next(each for each in broker.core.server.listening if each.name == "INSIDE")
    security = link(broker, certificates, more)
    assert security.context is not None
    assert not security.context.check_hostname
    assert security.context.verify_mode == ssl.CERT_REQUIRED
    async with peer(broker, security, inside.host) as found:
        assert await brokers_seen(found) == 1


async def test_a_broker_logs_in_again_before_its_login_ends(certificates: Certificates) -> None:
    lines = settings(certificates, "SASL_PLAINTEXT") | {"connections.max.reauth.ms": "200"}
    with Broker(config=lines) as broker:
        async with peer(broker, link(broker, certificates, {MECHANISM: "PLAIN"})) as found:
            assert await brokers_seen(found) == 1
            (connection,) = broker.core.server.connections
            until = time.monotonic() + 1
            while time.monotonic() < until:
                assert await brokers_seen(found) == 1
            assert list(broker.core.server.connections) == [connection]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "its answer is no SCRAM"),
        (b"r=other,s=c2FsdA==,i=4096", "its answer is no SCRAM"),
        (b"r=NONCE,s=c2FsdA==,i=4095", "it asks for 4095 iterations"),
        (b"r=NONCE,s=c2FsdA==,i=999999999", "it asks for 999999999 iterations"),
        (b"r=NONCE,s=c2F,i=4096", "its salt is not in base 64"),
    ],
)
async def test_a_server_that_breaks_off_scram_is_not_believed(answer: bytes, why: str) -> None:
    login = ScramLogin(ScramMechanism.SCRAM_SHA_256, "a", "b")
    nonce = (await login.first()).rpartition(b"r=")[2]
    with pytest.raises(ClientLoginError, match=why):
        await login.answer(answer.replace(b"NONCE", nonce + b"more"))


async def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    login = ScramLogin(ScramMechanism.SCRAM_SHA_256, "a", "b")
    nonce = (await login.first()).rpartition(b"r=")[2]
    assert await login.answer(b"r=" + nonce + b"more,s=c2FsdA==,i=4096")
    with pytest.raises(ClientLoginError, match="it does not know the password itself"):
        await login.answer(b"v=" + base64.b64encode(b"x" * 32))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {MECHANISM: "EXTERNAL"},
            "=EXTERNAL: .* by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI; name one",
        ),
        ({}, "=GSSAPI: the listener INSIDE does not offer it"),
        ({MECHANISM: "PLAIN", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "INSIDE does not offer it"),
        (
            {
                MECHANISM: "PLAIN",
                "listener.name.inside.plain.sasl.jaas.config": f"{MODULES['PLAIN']} required;",
            },
            r"sasl\.jaas\.config: .*: add username=",
        ),
        ({MECHANISM: "PLAIN", "ssl.truststore.location": "/missing"}, "cannot read /missing"),
        ({MECHANISM: "PLAIN", "ssl.endpoint.identification.algorithm": "ldap"}, "expected https, or nothing"),
    ],
)
def test_links_that_cannot_work_end_the_start(
    certificates: Certificates, more: dict[str, str], message: str
) -> None:
    config = BrokerConfig(settings(certificates, "SASL_SSL") | more, clustered=True)
    with pytest.raises(ConfigError, match=message):
        LinkSecurity(config)
