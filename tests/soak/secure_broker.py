"""The broker of a soak: logins over TLS, an authorizer, quotas and metrics, all at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

from tests.network.raw_client import eventually
from tests.ports import free_ports
from tests.security.certificates import Certificates
from tests.servers.kafkapy_process import KafkapyProcess
from tests.soak.counting_broker import TASKS_FILE

ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
USER, PASSWORD = "carol", "carol's secret"
_MODULES = "org.apache.kafka.common.security"


class SecureBroker(KafkapyProcess):
    """Clients come in by SASL_SSL; the other listener is for the question whether it answers."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        plain, secure, metrics = free_ports(3)
        self.secure_address = f"127.0.0.1:{secure}"
        self.metrics_url = f"http://127.0.0.1:{metrics}/metrics"
        self._certificates = certificates
        self._tasks = folder / "tasks"
        prefix = "listener.name.sasl_ssl"
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://{self.secure_address}",
            "log.dirs": str(folder / "data"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{prefix}.plain.sasl.jaas.config": (
                f"{_MODULES}.plain.PlainLoginModule required "
                f'user_{ADMIN}="{ADMIN_PASSWORD}" user_{USER}="{PASSWORD}";'
            ),
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "metrics.port": str(metrics),
            "log.retention.check.interval.ms": "5000",
            "group.initial.rebalance.delay.ms": "100",
            "group.min.session.timeout.ms": "2000",
        }
        super().__init__(
            folder,
            file=settings,
            program=("-m", "tests.soak.counting_broker"),
            environment={TASKS_FILE: str(self._tasks)},
        )
        self.bootstrap_servers = f"127.0.0.1:{plain}"

    def arguments(self) -> Iterator[str]:
        """None: the file has everything."""
        return iter(())

    def tasks(self) -> int:
        """How many tasks its event loop has."""
        self._tasks.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        eventually(self._tasks.exists, "the broker counts its tasks")
        return int(self._tasks.read_text())

    def client(self, *, admin: bool = False, scram: bool = False) -> dict[str, object]:
        """The settings of a client of librdkafka."""
        return {
            "bootstrap.servers": self.secure_address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._certificates.authority),
            "sasl.mechanism": "SCRAM-SHA-256" if scram else "PLAIN",
            "sasl.username": ADMIN if admin else USER,
            "sasl.password": ADMIN_PASSWORD if admin else PASSWORD,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
