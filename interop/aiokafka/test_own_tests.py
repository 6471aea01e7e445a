"""aiokafka's own tests pass: of TLS, logins and ACLs in every run, all of them on request."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

import pytest

from interop.public_suites.suites import AIOKAFKA, AIOKAFKA_VERSION, Outcome, run
from interop.support.debian import installed
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kerberos_centre import own_centre

_REALM, _PORT = "AIOLIBS", 88
"""Of their krb5.conf."""
_PROGRAMS: Final = {"kafkapy": "kafkapy serve --config", "kafka": "interop.aiokafka.apache_kafka"}


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> list[str]:
    """The option that starts the server under test."""
    if version("aiokafka") != AIOKAFKA_VERSION:
        pytest.skip(f"these are the tests of aiokafka {AIOKAFKA_VERSION}, not of {version('aiokafka')}")
    against = request.config.getoption("--against")
    if against == "cluster":
        pytest.skip("the tests start a broker alone")
    if shutil.which("keytool") is None:
        pytest.skip("their script for certificates needs Java's keytool")
    for command, package in {"ktutil": "krb5-user", "openssl": "openssl"}.items():
        if why := installed(command, package):
            pytest.skip(why)
    if against == "kafka":
        with skipped_without_jars():
            kafka_jars()
    return ["--serve", shlex.join([sys.executable, "-m", *_PROGRAMS[against].split()])]


@pytest.fixture
def keytab(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The option of the broker's key, at a running centre like that of their image."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError as error:
            pytest.skip(f"their key distribution centre is at port {_PORT}: {error}")
    folder = tmp_path_factory.mktemp("centre")
    with own_centre(folder, _REALM, _PORT) as centre:
        centre.add_user("client/localhost", "aiokafka")
        # They destroy all tickets of the cache.
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{folder / 'tickets'}")
        yield ["--keytab", str(centre.add("kafka/localhost"))]


def passed(outcome: Outcome) -> int:
    """How many passed, where none failed."""
    assert outcome.others == [], outcome.output
    return outcome.passed


def test_their_tests_of_tls_logins_and_acls_pass(serve: list[str]) -> None:
    assert passed(run(AIOKAFKA, *serve, "-k", "(sasl or ssl) and not gssapi")) == 34


def test_their_tests_of_kerberos_pass(serve: list[str], keytab: list[str]) -> None:
    assert passed(run(AIOKAFKA, *serve, *keytab, "-k", "gssapi")) == 2


@pytest.mark.skipif(
    not os.environ.get("KAFKAPY_PUBLIC_SUITES"),
    reason="takes minutes, and has limits of time of its own: set KAFKAPY_PUBLIC_SUITES to run it",
)
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_all_of_their_other_tests_pass(serve: list[str]) -> None:
    assert passed(run(AIOKAFKA, *serve, "-k", "not gssapi")) == AIOKAFKA.passed
