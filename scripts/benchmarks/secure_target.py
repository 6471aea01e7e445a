"""A server with TLS and logins, and the same certificates as every other."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from scripts.benchmarks.load import Target
from scripts.benchmarks.servers import new_server
from tests.ports import free_ports
from tests.security.certificates import Certificates, make_certificates, trusting
from tests.servers.server_process import ServerProcess

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD, ITERATIONS = "alice", "alice-secret", 4096
_MODULES: Final = "org.apache.kafka.common.security"


class SecureTarget(Target):
    """A running server, seen by the clients of one of its listeners."""

    def __init__(
        self,
        server: ServerProcess,
        addresses: Mapping[str, str],
        certificates: Certificates,
        protocol: str = "PLAINTEXT",
    ) -> None:
        super().__init__(server)
        self._addresses = addresses
        self._certificates = certificates
        self._protocol = protocol

    def by(self, protocol: str) -> SecureTarget:
        """The same server by another listener."""
        return SecureTarget(self.server, self._addresses, self._certificates, protocol)

    @property
    def address(self) -> str:
        """The address of the listener."""
        return self._addresses[self._protocol]

    @property
    def authority(self) -> Path:
        """The file with the authority of the server's certificate."""
        return self._certificates.authority

    @property
    def context(self) -> ssl.SSLContext | None:
        """With what a socket is encrypted, if it is."""
        return trusting(self._certificates) if self._protocol.endswith("SSL") else None

    @property
    def client(self) -> dict[str, str]:
        """The settings with which a client of librdkafka logs in by PLAIN, if it must."""
        settings = {"bootstrap.servers": self.address, "security.protocol": self._protocol}
        if self._protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.authority)
        if self._protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
        return settings


@contextmanager
def secure_server(name: str, folder: Path) -> Iterator[SecureTarget]:
    """Run the server of a column with a listener of each security protocol."""
    folder.mkdir(parents=True, exist_ok=True)
    certificates = make_certificates(folder)
    *ports, controller = free_ports(len(PROTOCOLS) + 1)
    addresses = {protocol: f"127.0.0.1:{port}" for protocol, port in zip(PROTOCOLS, ports, strict=True)}
    listeners = [f"{protocol}://{address}" for protocol, address in addresses.items()]
    settings = {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(listeners),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    }
    for protocol in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{protocol}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{_MODULES}.scram.ScramLoginModule required;"
    if not name.startswith("kafkapy"):
        own = f"CONTROLLER://127.0.0.1:{controller}"
        settings["listeners"] += f",{own}"
        settings["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
        settings["listener.security.protocol.map"] = (
            ",".join(f"{each}:{each}" for each in PROTOCOLS) + ",CONTROLLER:PLAINTEXT"
        )
    server = new_server(name, folder / "server", settings)
    server.bootstrap_servers = addresses["PLAINTEXT"]
    with server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
        change = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])[USER].result(60)
        yield SecureTarget(server, addresses, certificates)
