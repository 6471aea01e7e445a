"""Stores of Java's keytool, and the commands by which the broker has them converted."""

from __future__ import annotations

import re
import shlex
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Final

import pytest

from kafkapy import Broker
from kafkapy.broker.core import StartError
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.security.certificates import Certificates, trusting
from tests.security.listeners import Listeners

PASSWORD: Final = "of the store"


@pytest.fixture(autouse=True)
def _tools() -> None:
    for tool in ("keytool", "openssl"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")


def run(command: str, answers: int = 0) -> None:
    """Run a command whose questions have one answer.

    Without a terminal it reads them from a pipe.
    """
    text = answers * f"{PASSWORD}\n"
    subprocess.run(shlex.split(command), input=text, text=True, check=True, start_new_session=True)


def key_store(folder: Path, kind: str) -> Path:
    path = folder / "server.jks"
    run(
        "keytool -genkeypair -alias broker -keyalg EC -groupname secp256r1 -dname CN=broker"
        f" -ext san=ip:127.0.0.1 -storetype {kind} -keystore {path} -storepass '{PASSWORD}'"
        f" -keypass '{PASSWORD}'"
    )
    return path


def trust_store(folder: Path, kind: str, authority: Path) -> Path:
    path = folder / "trusted.jks"
    run(
        f"keytool -importcert -noprompt -alias ca -file {authority} -storetype {kind} -keystore {path}"
        f" -storepass '{PASSWORD}'"
    )
    return path


def converted(settings: dict[str, str], store: str) -> dict[str, str]:
    """The settings that the broker names, after its commands were run."""
    with pytest.raises(StartError) as raised:
        Broker(config=settings).start()
    found = re.fullmatch(
        rf"ssl\.{store}\.type: .*convert it: (keytool .*); (openssl .*);"
        r" then set (\S+)=(\S+) and (\S+)=(\S+), and remove (\S+)",
        str(raised.value),
    )
    assert found is not None, raised.value
    run(found[1], answers=3)
    run(found[2], answers=3)
    settings = {name: value for name, value in settings.items() if name != found[7]}
    return {**settings, found[3]: found[4], found[5]: found[6]}


def test_the_broker_starts_with_what_its_commands_made(certificates: Certificates, tmp_path: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.keystore.location": str(key_store(tmp_path, "JKS")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(trust_store(tmp_path, "JKS", certificates.authority)),
        "ssl.truststore.password": PASSWORD,
    }
    settings = converted(converted(settings, "keystore"), "truststore")
    context = ssl.create_default_context(cafile=settings["ssl.keystore.location"])
    context.load_cert_chain(str(certificates.client))
    with (
        Broker(config=settings) as broker,
        Listeners(broker).connect(SecurityProtocol.SSL, context) as client,
    ):
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_the_files_that_keytool_makes_by_itself_are_read(certificates: Certificates, tmp_path: Path) -> None:
    """They are PKCS12, whatever their names, and Apache Kafka needs no type for them."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.location": str(trust_store(tmp_path, "PKCS12", certificates.authority)),
        "ssl.truststore.password": PASSWORD,
    }
    with (
        Broker(config=settings) as broker,
        Listeners(broker).connect(SecurityProtocol.SSL, trusting(certificates, "client")) as client,
    ):
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
    own = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(key_store(tmp_path, "PKCS12")),
        "ssl.keystore.password": PASSWORD,
    }
    with Broker(config=own) as broker:
        assert Listeners(broker).address(SecurityProtocol.SSL)
