"""A plugin of pytest for kafka-python's own tests of logins and TLS.

They start Apache Kafka by a fixture of theirs; with the plugin it starts kafkapy.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from test.integration.fixtures import (  # type: ignore[import-not-found]  # of the source release
    KafkaFixture,
    client_params,
)

from interop.security.secure_server import FromFile
from tests.ports import free_ports
from tests.security.certificates import make_certificates

_SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_MODULES = {"PLAIN": "plain.PlainLoginModule", **dict.fromkeys(_SCRAM, "scram.ScramLoginModule")}


class Output:
    """What a broker has printed, which their tests show at their end."""

    def __init__(self, process: FromFile) -> None:
        self._process = process

    def dump_logs(self) -> None:
        print(self._process.output())


class OwnFixture(KafkaFixture):  # type: ignore[misc]
    """Stands for a broker of Apache Kafka, with a listener of the protocol wanted."""

    @classmethod
    def instance(cls, broker_id: int, **options: Any) -> OwnFixture:
        return cls(broker_id, options.get("transport", "PLAINTEXT"), options.get("sasl_mechanism"))

    def __init__(self, broker_id: int, transport: str, mechanism: str | None) -> None:
        plain, port = free_ports(2)
        super().__init__(
            "localhost", port, broker_id, transport=transport, sasl_mechanism=mechanism, external=True
        )
        self._temporary = tempfile.TemporaryDirectory()
        folder = Path(self._temporary.name)
        listeners = f"INSIDE://localhost:{plain},{transport}://localhost:{port}"
        lines = {
            "log.dirs": str(folder / "data"),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"INSIDE:PLAINTEXT,{transport}:{transport}",
            "inter.broker.listener.name": "INSIDE",
            "durability": "os",
        }
        if mechanism is not None:
            users = f' user_{self.broker_user}="{self.broker_password}"' if mechanism == "PLAIN" else ""
            name = f"listener.name.{transport.lower()}.{mechanism.lower()}.sasl.jaas.config"
            lines["sasl.enabled.mechanisms"] = mechanism
            lines[name] = f"org.apache.kafka.common.security.{_MODULES[mechanism]} required{users};"
        if "SSL" in transport.split("_"):
            certificates = make_certificates(folder)
            self.ssl_dir = str(folder)
            certificates.authority.rename(folder / "ca-cert")
            lines["ssl.keystore.type"] = "PEM"
            lines["ssl.keystore.location"] = str(certificates.server)
        self._process = FromFile(folder, lines, f"localhost:{plain}")
        self._process.start()
        self.child = Output(self._process)
        if mechanism in _SCRAM:
            self._make_user(_SCRAM[mechanism])

    def _make_user(self, mechanism: ScramMechanism) -> None:
        admin = AdminClient({"bootstrap.servers": self._process.bootstrap_servers})
        change = UserScramCredentialUpsertion(
            self.broker_user, ScramCredentialInfo(mechanism, 4096), self.broker_password.encode()
        )
        admin.alter_user_scram_credentials([change])[self.broker_user].result()

    def start(self) -> None:
        """It is running already."""

    def close(self) -> None:
        self._process.stop()
        self._temporary.cleanup()

    def get_topic_names(self) -> list[str]:
        """The names that their own fixture asks a Java program for."""
        admin = KafkaAdminClient(**client_params(self, "names"))
        try:
            return list(admin.list_topics())
        finally:
            admin.close()


KafkaFixture.instance = OwnFixture.instance
