"""librdkafka's own tests of TLS, logins and ACLs pass."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from interop.librdkafka.program import built_tests
from interop.librdkafka.run import Process, Run
from interop.security.secure_server import FromFile
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import java_command
from tests.ports import free_ports
from tests.security.certificates import Certificates, make_certificates

_PASSWORD: Final = "secret"
_SECONDS: Final = 600
_REAUTH_MS: Final = 3_000
"""0142 waits some seventeen times as long."""

ADMINISTRATION: Final = {
    "Acls": 12,
    "Configs": 8,
    "CreateTopics": 8,
    "Records": 4,
    "UserScram": 6,
    "authorized": 16,
}
"""What the names of parts of 0081 contain, and how many parts have to pass."""


class Server:
    """A broker with ACLs, and a listener for each kind of tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = make_certificates(folder)
        names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(3), strict=True)}
        listeners = ",".join(f"{name}://{address}" for name, address in self.addresses.items())
        lines = {
            "log.dirs": str(folder / "data"),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "num.partitions": "4",
            "durability": "os",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            "connections.max.reauth.ms": str(_REAUTH_MS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            f'PlainLoginModule required user_alice="{_PASSWORD}";',
        }
        self.process = FromFile(folder, lines, self.addresses["PLAINTEXT"])

    def runs(self) -> dict[str, tuple[str, Run]]:
        """The runs, each with the listener that it uses."""
        return {
            # Each is a part of 0081; one of the others counts on the machine (FINDINGS.md).
            **{
                name: ("PLAINTEXT", Run("0081", parts, subtests=name))
                for name, parts in ADMINISTRATION.items()
            },
            "access control": (
                "PLAINTEXT",
                Run("0109 0115 0119", 0, variables={"KAFKA_PATH": str(self._java_tools())}),
            ),
            "certificates": (
                "SSL",
                Run("0097", 0, settings=self._tls_settings(), variables=self._tls_files()),
            ),
            "logins": ("SASL_PLAINTEXT", Run("0135 0142", 6, settings=self._login())),
        }

    def _java_tools(self) -> Path:
        """A folder with the tool that some tests call, as a distribution of Apache Kafka has it."""
        tool = self.folder / "kafka" / "bin" / "kafka-acls.sh"
        tool.parent.mkdir(parents=True)
        command = shlex.join([*java_command(), "org.apache.kafka.tools.AclCommand"])
        tool.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        tool.chmod(0o755)
        return tool.parents[1]

    @staticmethod
    def _login() -> dict[str, str]:
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": _PASSWORD,
        }

    def _tls_settings(self) -> dict[str, str]:
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(self.certificates.client),
            "ssl.key.location": str(self.certificates.client),
            "ssl.key.password": _PASSWORD,
        }

    def _tls_files(self) -> dict[str, str]:
        """The client's certificate and key, and the authority's, in each format."""
        files = {
            "SSL_pub_pem": self.certificates.client,
            "SSL_priv_pem": self.certificates.client,
            "SSL_all_cas_pem": self.certificates.authority,
            **_encoded(self.certificates, self.folder),
        }
        return {name: str(path) for name, path in files.items()} | {"SSL_password": _PASSWORD}


def _encoded(certificates: Certificates, folder: Path) -> dict[str, Path]:
    pem = certificates.client.read_bytes()
    key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
    authority = load_pem_x509_certificate(certificates.authority.read_bytes())
    contents = {
        "SSL_pub_der": certificate.public_bytes(Encoding.DER),
        "SSL_priv_der": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        "SSL_ca_der": authority.public_bytes(Encoding.DER),
        "SSL_pkcs": pkcs12.serialize_key_and_certificates(
            b"client",
            key,  # type: ignore[arg-type]  # of a kind that can be in such a file
            certificate,
            [authority],
            BestAvailableEncryption(_PASSWORD.encode()),
        ),
    }
    files = {name: folder / name for name in contents}
    for name, content in contents.items():
        files[name].write_bytes(content)
    return files


@pytest.fixture(scope="module")
def processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Process]]:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("this is about a broker with listeners of its own")
    server = Server(tmp_path_factory.mktemp("secure"))
    with skipped_without_jars():
        runs = server.runs()
    program = built_tests(number for _, run in runs.values() for number in run.tests.split())
    with ExitStack() as stack:
        stack.enter_context(server.process)
        yield {
            name: stack.enter_context(
                Process(program, server.addresses[listener], run, tmp_path_factory.mktemp("run"))
            )
            for name, (listener, run) in runs.items()
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ADMINISTRATION, "access control", "certificates", "logins"])
def test_librdkafkas_own_tests_of_security_pass(processes: dict[str, Process], name: str) -> None:
    processes[name].require_passed(_SECONDS)
