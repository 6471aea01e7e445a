"""The containers for aiokafka's own tests, tried where those cannot be fetched."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from interop.aiokafka.containers import Container
from interop.support.waiting import wait_until
from tests.ports import free_ports
from tests.security.certificates import Certificates, make_certificates
from tests.servers.probe import brokers_alive

_JAAS: Final = """KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    user_admin="admin"
    user_test="test";

    com.sun.security.auth.module.Krb5LoginModule required
    keyTab="/server.keytab"
    principal="kafka/localhost@AIOLIBS";

    org.apache.kafka.common.security.scram.ScramLoginModule required
    username="test"
    password="test";
};
"""
_LISTENERS: Final = ("", "_SSL", "_SASL_PLAINTEXT", "_SASL_SSL")
_ACLS: Final = "/opt/kafka_2.13-4.3.1/bin/kafka-acls.sh --force --authorizer-properties zookeeper.connect=z"
_CONFIGS: Final = "/opt/kafka_2.13-4.3.1/bin/kafka-configs.sh --zookeeper z"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))


@pytest.fixture(scope="module")
def container(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
    ports: dict[str, int],
) -> Iterator[Container]:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("this is about a broker of kafkapy")
    folder = tmp_path_factory.mktemp("own")
    scripts = folder / "docker" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "jaas.conf").write_text(_JAAS)
    for name in ("server.key", "server.crt"):
        (folder / name).write_text(certificates.server.read_text() if name == "server.key" else "")
    (folder / "ca.crt").write_text(certificates.authority.read_text())
    environment: dict[str, Any] = {f"ADVERTISED{name}_PORT": port for name, port in ports.items()}
    environment |= {"ADVERTISED_HOST": "127.0.0.1", "NUM_PARTITIONS": 2, "SASL_JAAS_FILE": "jaas.conf"}
    environment["SASL_MECHANISMS"] = "PLAIN,GSSAPI,SCRAM-SHA-256,SCRAM-SHA-512"
    made = Container({str(folder): "/ssl_cert"})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made.serve(environment, [sys.executable, "-m", "kafkapy", "serve", "--config"], None)
    try:
        wait_until(lambda: brokers_alive(("127.0.0.1", ports[""])) == 1)
        yield made
    finally:
        made.stop()


async def write(port: int, protocol: str, **options: Any) -> int:
    """The offset of a record that is written through a listener."""
    servers = f"127.0.0.1:{port}"
    async with AIOKafkaProducer(bootstrap_servers=servers, security_protocol=protocol, **options) as producer:
        return int((await producer.send_and_wait("orders", b"first", partition=0)).offset)


def login(mechanism: str) -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "sasl_plain_username": "test", "sasl_plain_password": "test"}


async def test_clients_come_in_by_each_listener(
    container: Container, ports: dict[str, int], certificates: Certificates
) -> None:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    context.load_cert_chain(str(certificates.client))
    assert await write(ports[""], "PLAINTEXT") >= 0
    assert await write(ports["_SSL"], "SSL", ssl_context=context) >= 0
    assert await write(ports["_SASL_PLAINTEXT"], "SASL_PLAINTEXT", **login("PLAIN")) >= 0
    assert await write(ports["_SASL_SSL"], "SASL_SSL", ssl_context=context, **login("PLAIN")) >= 0


async def test_a_command_makes_a_user(container: Container, ports: dict[str, int]) -> None:
    change = "--alter --add-config SCRAM-SHA-256=[password=test] --entity-type users --entity-name test"
    assert container.exec_run(f"{_CONFIGS} {change}")[0] == 0
    assert await write(ports["_SASL_PLAINTEXT"], "SASL_PLAINTEXT", **login("SCRAM-SHA-256")) >= 0


async def test_commands_add_and_remove_rules(container: Container, ports: dict[str, int]) -> None:
    rule = "--topic orders --deny-principal User:test --operation WRITE"
    for action, allowed in {"--add": False, "--remove": True}.items():
        status, output = container.exec_run(f"{_ACLS} {action} {rule}")
        assert status == 0, output
        if allowed:
            assert await write(ports["_SASL_PLAINTEXT"], "SASL_PLAINTEXT", **login("PLAIN")) >= 0
        else:
            assert b"User:test" in container.exec_run(f"{_ACLS} --list --principal User:test")[1]
            with pytest.raises(TopicAuthorizationFailedError):
                await write(ports["_SASL_PLAINTEXT"], "SASL_PLAINTEXT", **login("PLAIN"))


def test_a_command_that_fails_says_so(container: Container) -> None:
    status, output = container.exec_run(f"{_ACLS} --add --topic orders --operation FLY")
    assert status != 0
    assert b"FLY" in output
