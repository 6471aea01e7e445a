"""A broker that is attacked on one listener: plain, with TLS, or with logins."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.network.raw_client import RawClient
from tests.ports import free_ports
from tests.security.certificates import Certificates, trusting
from tests.servers.kafkapy_process import KafkapyProcess

SHARE: Final = float(os.environ.get("KAFKAPY_ATTACKERS", "0.2"))
"""The part of the connections that encrypted listeners get: each of them costs the test ten milliseconds."""
USER, PASSWORD = "alice", "alice-secret"
_ADDRESSES: Final = [f"127.0.0.{number}" for number in range(1, 9)]


class Kind(NamedTuple):
    """A kind of listener, and whether its clients have logged in when they attack."""

    protocol: str
    logs_in: bool = False

    def __str__(self) -> str:
        return f"{self.protocol} after a login" if self.logs_in else self.protocol


ALL: Final = (Kind("PLAINTEXT"), Kind("SSL"), Kind("SASL_SSL"), Kind("SASL_SSL", logs_in=True))
OPEN: Final = tuple(kind for kind in ALL if kind != Kind("SASL_SSL"))
"""Those whose clients may ask for anything."""


class AttackedBroker(KafkapyProcess):
    """kafkapy with a listener of one kind, and a plain one that shows its start."""

    def __init__(
        self,
        folder: Path,
        certificates: Certificates,
        kind: Kind,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        plain, attacked = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.kind = kind
        self.authority = certificates.authority
        self.attacked = plain if kind.protocol == "PLAINTEXT" else attacked
        listeners = [f"PLAINTEXT://{plain}"]
        if self.attacked != plain:
            listeners.append(f"{kind.protocol}://{attacked}")
        settings = {
            "durability": "os",
            "listeners": ",".join(listeners),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            **(properties or {}),
        }
        super().__init__(folder, properties=settings)
        self.bootstrap_servers = plain
        self._context = trusting(certificates) if kind.protocol.endswith("SSL") else None
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def client(self, source: str | None = None, *, logs_in: bool | None = None) -> RawClient:
        """A connection to the listener; it has logged in if the kind says so, or `logs_in`."""
        client = RawClient(self.attacked, source=source)
        if self._context is not None:
            client.encrypt(self._context)
        if self.kind.logs_in if logs_in is None else logs_in:
            assert client.log_in(USER, PASSWORD)
        return client

    def friend(self) -> RawClient:
        """A connection whose requests are answered."""
        return self.client(logs_in=self.kind.protocol.startswith("SASL"))

    def share(self, count: int) -> int:
        """How many connections there are where a listener without encryption has so many."""
        return count if self._context is None else round(count * SHARE)

    def clients(self, stack: contextlib.ExitStack, count: int) -> list[RawClient]:
        """Connections from eight addresses, or the share of them."""
        sources = itertools.islice(itertools.cycle(_ADDRESSES), self.share(count))
        return [stack.enter_context(self.client(source)) for source in sources]

    def probe(self) -> list[str]:
        """The arguments of a probe that asks for metadata (probe.py)."""
        host, _, port = self.attacked.rpartition(":")
        requests: list[tuple[TopMessage, int]] = [(MetadataRequest(), 12)]
        if self.kind.protocol.startswith("SASL"):
            words = f"\0{USER}\0{PASSWORD}".encode()
            login = (
                (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                (SaslAuthenticateRequest(auth_bytes=words), 2),
            )
            requests = [*login, *requests]
        frames = [encode_request(request, version, 1, "probe").hex() for request, version in requests]
        authority = "" if self._context is None else str(self.authority)
        return [host, port, str(self.pid), authority, *frames]
