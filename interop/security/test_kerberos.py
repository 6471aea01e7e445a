"""Clients and brokers come in by GSSAPI, with MIT Kerberos's key distribution centre."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from interop.security.python_clients import SECONDS, kafka_python_round_trip
from interop.security.secure_server import FromFile
from interop.support.debian import installed
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.java_programs import compiled
from interop.support.kafka_jars import TOOL_FLAGS, kafka_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.kerberos_centre import REALM, KerberosCentre, key_line, own_centre
from kafkapy import Broker
from kafkapy.configs.config import BrokerConfig
from kafkapy.inter_broker.peers import PeerError
from kafkapy.security.links import MECHANISM, LinkSecurity
from tests.inter_broker.test_secure_peers import brokers_seen, peer
from tests.ports import free_ports

SERVICE = "kafka/localhost"
RULES = r"RULE:[2:$1.$2](reports\..*)s/\..*//U,DEFAULT"


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosCentre]:
    with own_centre(tmp_path_factory.mktemp("centre")) as started:
        yield started


@pytest.fixture(scope="module")
def keytab(centre: KerberosCentre) -> Path:
    """The key of brokers."""
    return centre.add(SERVICE)


@pytest.fixture(scope="module")
def address(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    centre: KerberosCentre,
    keytab: Path,
) -> Iterator[str]:
    """A server's listener SASL_PLAINTEXT; kafkapy and Apache Kafka start from the same file."""
    against = request.config.getoption("--against")
    if against == "cluster":
        pytest.skip("the brokers of a cluster reach each other without logins")
    ports = dict(zip(("PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER"), free_ports(3), strict=True))
    addresses = {name: f"localhost:{port}" for name, port in ports.items()}
    listed = [f"{name}://{address}" for name, address in addresses.items()]
    lines = {
        "listeners": ",".join(listed),
        "advertised.listeners": ",".join(listed[:-1]),
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in list(ports)[:-1])
        + ",CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{addresses['CONTROLLER']}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES.replace("\\", "\\\\"),
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": key_line(keytab, SERVICE),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:REPORTS",
    }
    if against == "kafka":
        with skipped_without_jars():
            kafka_jars()
    folder = tmp_path_factory.mktemp("server")
    kafka = KafkaProcess(
        folder, properties=lines, jvm_flags=(*TOOL_FLAGS, f"-Djava.security.krb5.conf={centre.config}")
    )
    kafka.bootstrap_servers = addresses["PLAINTEXT"]
    process = kafka if against == "kafka" else FromFile(folder, kafka.properties, addresses["PLAINTEXT"])
    with process:
        yield addresses["SASL_PLAINTEXT"]
        assert process.running, process.output()


@pytest.fixture
def as_principal(centre: KerberosCentre, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes this process a principal, whose keytab it returns."""

    def become(name: str, *, cache: str = "") -> Path:
        path = keytabs.get(name) or centre.add(name)
        keytabs[name] = path
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{path}")
        monkeypatch.setenv("KRB5CCNAME", f"MEMORY:{name}{cache}")
        return path

    return become


keytabs: dict[str, Path] = {}
"""By principal."""


def options(address: str, service: str = "kafka") -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": service,
    }


def round_trip(address: str, topic: str, service: str = "kafka", seconds: float = SECONDS) -> bytes:
    """What kafka-python reads after it has written."""
    return kafka_python_round_trip(options(address, service), topic, seconds)


@pytest.mark.parametrize("principal", ["alice", "reports/west.example"])
def test_kafka_python_comes_in(address: str, as_principal: Any, principal: str) -> None:
    as_principal(principal)
    assert round_trip(address, "of-kafka-python") == b"kafka-python"


def test_a_principal_without_a_short_name_does_not_come_in(address: str, as_principal: Any) -> None:
    as_principal("mallory/elsewhere@" + REALM)
    with pytest.raises(Exception, match=r"."):
        assert round_trip(address, "of-mallory", seconds=3)


async def test_aiokafka_comes_in(address: str, as_principal: Any) -> None:
    as_principal("alice")
    async with AIOKafkaProducer(**options(address)) as producer:
        assert (await producer.send_and_wait("of-aiokafka", b"aiokafka")).offset >= 0


def test_librdkafka_comes_in(address: str, as_principal: Any, tmp_path: Path) -> None:
    """By kcat of Debian: the wheel of confluent-kafka is built without GSSAPI."""
    if why := installed("kcat", "kcat"):
        pytest.skip(why)
    if not list(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so")):
        pytest.skip("Cyrus SASL has no GSSAPI (Debian: apt-get install libsasl2-modules-gssapi-mit)")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": str(as_principal("alice")),
        "sasl.kerberos.principal": f"alice@{REALM}",
    }
    command = ["kcat", "-b", address, "-t", "of-librdkafka"]
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    environment = os.environ | {"KRB5CCNAME": f"FILE:{tmp_path / 'cache'}"}
    written = subprocess.run(
        [*command, "-P"], input=b"kcat\n", env=environment, capture_output=True, check=False, timeout=60
    )
    assert written.returncode == 0, written.stderr
    read = subprocess.run(
        [*command, "-C", "-e", "-o", "beginning"],
        env=environment,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert read.stdout.splitlines()[0] == b"kcat", read.stderr


def test_java_clients_come_in_and_do_not(
    address: str, centre: KerberosCentre, as_principal: Any, tmp_path: Path
) -> None:
    with skipped_without_jars():
        jars = kafka_jars()
    centre.add("other/localhost")
    ways = {
        "of-alice": ("alice", "kafka", "java"),
        "of-reports": ("reports/west.example", "kafka", "java"),
        "of-other": ("alice", "other", "SaslAuthenticationException"),
    }
    arguments = []
    for topic, (principal, service, _) in ways.items():
        path = tmp_path / f"{topic}.properties"
        lines = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.jaas.config": key_line(as_principal(principal), principal),
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        arguments += [str(path), topic]
    program = compiled(Path(__file__).with_name("Logins.java"), jars)
    command = ["java", *TOOL_FLAGS, f"-Djava.security.krb5.conf={centre.config}", *program, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    found = dict(line.split("\t") for line in run.stdout.splitlines() if "\t" in line)
    assert found == {topic: expected for topic, (_, _, expected) in ways.items()}, run.stderr


def test_a_ticket_for_a_key_that_the_broker_lacks_counts_once_it_has_it(
    address: str, centre: KerberosCentre, keytab: Path, as_principal: Any, tmp_path: Path
) -> None:
    """A new key is in the centre before it is in all keytabs."""
    elsewhere = tmp_path / "elsewhere.keytab"
    shutil.copy(keytab, elsewhere)
    centre.change_key(SERVICE, elsewhere)
    as_principal("alice", cache="-new")
    with pytest.raises(Exception, match=r"."):
        round_trip(address, "of-a-new-key", seconds=3)
    elsewhere.replace(keytab)
    assert round_trip(address, "of-a-new-key") == b"kafka-python"


def link_settings(keytab: Path, principal: str = SERVICE) -> dict[str, str]:
    """The settings of a broker of a cluster whose brokers log in by GSSAPI."""
    return {
        "listeners": "PLAINTEXT://localhost:0,INSIDE://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.inside.gssapi.sasl.jaas.config": key_line(keytab, principal),
        MECHANISM: "GSSAPI",
    }


async def test_brokers_come_in_at_each_other(
    centre: KerberosCentre, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    with Broker(config=link_settings(keytab)) as broker:
        security = LinkSecurity(BrokerConfig(link_settings(keytab), clustered=True))
        for _ in range(2):
            async with peer(broker, security, "localhost") as found:
                assert await brokers_seen(found) == 1
                assert "User:kafka" in {each.principal for each in broker.core.server.connections}
        async with peer(broker, security, "127.0.0.1") as found:
            with pytest.raises(PeerError, match=r"cannot log in at .*: Server kafka/127.0.0.1@.* not found"):
                await brokers_seen(found)


async def test_tickets_are_not_those_of_a_broker_that_was_here_before(
    centre: KerberosCentre, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    for number in range(2):  # each time with another key; the one before is in no keytab any more
        only = centre.add(SERVICE, keytab=f"only-{number}.keytab")
        settings = link_settings(only)
        with Broker(config=settings) as broker:
            security = LinkSecurity(BrokerConfig(settings, clustered=True))
            async with peer(broker, security, "localhost") as found:
                assert await brokers_seen(found) == 1
    centre.change_key(SERVICE, keytab)  # for the others


async def test_a_broker_that_the_centre_does_not_know_is_told(
    centre: KerberosCentre, keytab: Path, tmp_path: Path
) -> None:
    gone = centre.add("kafka/gone")
    centre.remove("kafka/gone")
    with Broker(config=link_settings(keytab)) as broker:
        security = LinkSecurity(BrokerConfig(link_settings(gone, "kafka/gone"), clustered=True))
        async with peer(broker, security, "localhost") as found:
            with pytest.raises(
                PeerError, match=r"this broker cannot log in at .*not found in Kerberos database"
            ):
                await brokers_seen(found)
