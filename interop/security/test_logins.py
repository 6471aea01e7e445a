from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest

from interop.security.franz_go import fields, logged_in
from interop.security.python_clients import CLIENTS, RoundTrip
from interop.security.secure_server import OTHER_VERSIONS, WAYS, WRONG_WAYS, SecureServer, Way, may_read
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.java_programs import compiled
from interop.support.kafka_jars import TOOL_FLAGS, kafka_jars
from tests.security.certificates import Certificates

_numbers = itertools.count(1)


def topic_of(way: Way) -> str:
    return f"{way}-{next(_numbers)}"


@pytest.mark.parametrize("round_trip", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_client_comes_in(
    secure_server: SecureServer, certificates: Certificates, way: Way, round_trip: RoundTrip
) -> None:
    assert round_trip(secure_server, certificates, way, topic_of(way))


def assert_refused(
    server: SecureServer,
    certificates: Certificates,
    way: Way,
    round_trip: RoundTrip,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The client does not come in, and says why: by its exception or, some of them, in its log."""
    with pytest.raises(Exception) as error:  # noqa: PT011  each client has its own
        round_trip(server, certificates, way, topic_of(way))
    assert re.search(way.refusal, f"{error.value}\n{caplog.text}", re.IGNORECASE)


@pytest.mark.parametrize("round_trip", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("way", WRONG_WAYS, ids=str)
def test_a_client_does_not_come_in(
    secure_server: SecureServer,
    certificates: Certificates,
    way: Way,
    round_trip: RoundTrip,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert_refused(secure_server, certificates, way, round_trip, caplog)


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
@pytest.mark.parametrize("way", OTHER_VERSIONS, ids=str)
def test_a_client_that_offers_another_version_of_tls_does_not_come_in(
    secure_server: SecureServer,
    certificates: Certificates,
    way: Way,
    client: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """librdkafka has no setting for the versions that it offers."""
    assert_refused(secure_server, certificates, way, CLIENTS[client], caplog)


def java_settings(server: SecureServer, certificates: Certificates, way: Way, token: Path) -> dict[str, str]:
    """The settings of a client; `token` is a file for what it shows instead of a password."""
    lines = {
        "bootstrap.servers": server.addresses[way.listener],
        "security.protocol": way.protocol,
    }
    if way.is_encrypted:
        lines |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(way.authority(certificates)),
        }
    if way.certificate:
        lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client)}
    if way.offers is not None:
        lines["ssl.enabled.protocols"] = way.offers
    if way.mechanism == "OAUTHBEARER":
        package = "org.apache.kafka.common.security.oauthbearer"
        token.write_text(way.token(server.issuer))
        lines |= {
            "sasl.mechanism": way.mechanism,
            "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        }
    elif way.mechanism is not None:
        module = "plain.PlainLoginModule" if way.mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines |= {
            "sasl.mechanism": way.mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required"
            f' username="{way.username}" password="{way.password}";',
        }
    return lines


def test_java_clients_come_in_and_do_not(
    secure_server: SecureServer, certificates: Certificates, tmp_path: Path
) -> None:
    """All ways in one JVM, whose start takes longest."""
    with skipped_without_jars():
        jars = kafka_jars()
    expected, arguments = {}, []
    tokens: list[str] = []
    for way in (*WAYS, *WRONG_WAYS, *OTHER_VERSIONS):
        topic, path = topic_of(way), tmp_path / f"{way}.properties"
        token = path.with_suffix(".jwt")
        lines = java_settings(secure_server, certificates, way, token)
        if token.exists():
            tokens.append(token.as_uri())
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        arguments += [str(path), topic]
        expected[topic] = "java"
        if way.is_refused:
            by_password = way.is_wrong and way.mechanism is not None
            expected[topic] = f"{'Sasl' if by_password else 'Ssl'}AuthenticationException"
    program = compiled(Path(__file__).with_name("Logins.java"), jars)
    command = ["java", *TOOL_FLAGS, *may_read(",".join(tokens)), *program, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert dict(line.split("\t") for line in run.stdout.splitlines() if "\t" in line) == expected, run.stderr


def test_franz_go_comes_in_and_does_not(secure_server: SecureServer, certificates: Certificates) -> None:
    """All ways in one process."""
    ways = {topic_of(way): way for way in (*WAYS, *WRONG_WAYS, *OTHER_VERSIONS)}
    told = logged_in([fields(secure_server, certificates, way, topic) for topic, way in ways.items()])
    assert told.keys() == ways.keys()
    for topic, way in ways.items():
        if way.is_refused:
            assert re.search(rf"{way.refusal}|unknown authority", told[topic], re.IGNORECASE), topic
        else:
            assert told[topic] == "franz-go", topic
