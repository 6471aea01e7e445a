from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.security.secure_server import SecureServer
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from tests.security.certificates import Certificates, make_certificates
from tests.security.issuer import Issuer


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="session")
def secure_server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
    issuer: Issuer,
) -> Iterator[SecureServer]:
    against = request.config.getoption("--against")
    if against == "cluster":
        pytest.skip("the brokers of a cluster reach each other without TLS and logins")
    if against == "kafka":
        with skipped_without_jars():
            kafka_jars()
    server = SecureServer(
        tmp_path_factory.mktemp("server"), certificates, issuer, apache_kafka=against == "kafka"
    )
    with server.process:
        server.make_users()
        yield server
        assert server.process.running, server.process.output()
