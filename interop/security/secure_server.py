"""A server with a listener of each security protocol, and of each version of TLS.

kafkapy and Apache Kafka start from the same file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from interop.support.kafka_jars import TOOL_FLAGS
from interop.support.kafka_process import KafkaProcess
from kafkapy.configs.security_protocol import SecurityProtocol
from tests.network.raw_client import RawClient
from tests.ports import free_ports
from tests.security.certificates import Certificates
from tests.security.issuer import AUDIENCE, Issuer
from tests.security.listeners import MECHANISMS, PLAIN_USERS, settings
from tests.servers.kafkapy_process import KafkapyProcess

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
VERSIONS = ("TLSv1.2", "TLSv1.3")
ENCRYPTED = ("SSL", "SASL_SSL")
KEYS = "sasl.oauthbearer.jwks.endpoint.url"
SCRAM_USER, SCRAM_PASSWORD = "carol", "carol's secret"


def only(protocol: str, version: str) -> str:
    """The name of the listener that speaks one version of TLS."""
    return f"{protocol}_{version.removeprefix('TLSv').replace('.', '_')}"


LISTENERS = {
    **{protocol: protocol for protocol in PROTOCOLS},
    **{only(protocol, version): protocol for protocol in ENCRYPTED for version in VERSIONS},
}
"""The security protocol of each listener."""


class FromFile(KafkapyProcess):
    """kafkapy, started from a server.properties alone."""

    def __init__(self, folder: Path, file: dict[str, str], address: str) -> None:
        super().__init__(folder, file=file)
        self.bootstrap_servers = address

    def arguments(self) -> Iterator[str]:
        return iter(())


class SecureServer:
    """The server under test, and its addresses."""

    def __init__(
        self, folder: Path, certificates: Certificates, issuer: Issuer, *, apache_kafka: bool
    ) -> None:
        names = (*LISTENERS, "CONTROLLER")
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        listed = [f"{name}://{address}" for name, address in addresses.items()]
        protocols = [f"{name}:{protocol}" for name, protocol in LISTENERS.items()]
        self.addresses = addresses
        self.issuer = issuer
        lines = {
            # A backslash begins an escape in a file.
            **{name: text.replace("\\", "\\\\") for name, text in _settings(certificates, issuer).items()},
            "listeners": ",".join(listed),
            "advertised.listeners": ",".join(listed[:-1]),
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
            "delegation.token.secret.key": "the key of the tokens",
            "controller.quorum.voters": f"1@{addresses['CONTROLLER']}",
        }
        kafka = KafkaProcess(
            folder, properties=lines, jvm_flags=(*TOOL_FLAGS, *may_read(issuer.settings[KEYS]))
        )
        kafka.bootstrap_servers = addresses["PLAINTEXT"]
        self.process = kafka if apache_kafka else FromFile(folder, kafka.properties, addresses["PLAINTEXT"])

    def connect(self, protocol: SecurityProtocol) -> RawClient:
        """A connection to a listener without encryption."""
        return RawClient(self.addresses[protocol])

    def make_users(self) -> None:
        """Let the user of SCRAM come in."""
        admin = AdminClient({"bootstrap.servers": self.addresses["PLAINTEXT"]})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(SCRAM_USER, credential, SCRAM_PASSWORD.encode())
            admin.alter_user_scram_credentials([change])[SCRAM_USER].result()


def _settings(certificates: Certificates, issuer: Issuer) -> dict[str, str]:
    """The settings of all listeners.

    One of a single version of TLS has the settings of its protocol, and the version.
    """
    found = settings(certificates, issuer)
    for protocol in ENCRYPTED:
        of_protocol = f"listener.name.{protocol.lower()}."
        own = {name.removeprefix(of_protocol): found[name] for name in found if name.startswith(of_protocol)}
        for version in VERSIONS:
            for name, value in {**own, "ssl.enabled.protocols": version}.items():
                found[f"listener.name.{only(protocol, version).lower()}.{name}"] = value
    return found


def may_read(url: str) -> list[str]:
    """The flags with which Java reads keys or tokens at this address."""
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={url}" for kind in ("urls", "files")]


class Way:
    """A way to come in: a listener and what a client shows there."""

    def __init__(
        self,
        protocol: str,
        mechanism: str | None = None,
        *,
        certificate: bool = False,
        is_wrong: bool = False,
        version: str | None = None,
        offers: str | None = None,
    ) -> None:
        """`is_wrong` says that the password is wrong, or the authority, if there is no password.

        The listener speaks any version of TLS or one, and the client offers all or one.
        """
        self.protocol = protocol
        self.listener = protocol if version is None else only(protocol, version)
        self.offers = offers
        self.mechanism = mechanism
        self.certificate = certificate
        self.is_wrong = is_wrong
        self.username, self.password = (
            ("alice", PLAIN_USERS["alice"]) if mechanism == "PLAIN" else (SCRAM_USER, SCRAM_PASSWORD)
        )
        if is_wrong:
            self.password = "wrong"

    def __str__(self) -> str:
        parts = [self.listener, self.mechanism, "certificate" if self.certificate else None, self.offers]
        return "-".join(filter(None, [*parts, "wrong" if self.is_wrong else None]))

    @property
    def is_refused(self) -> bool:
        """Whether the client does not come in."""
        return self.is_wrong or self.offers is not None

    @property
    def refusal(self) -> str:
        """What a client says that does not come in, in capital letters or not."""
        if self.offers is not None:
            return "protocol.version"
        if self.mechanism is None:
            return "certificate.verify.failed"
        why = {
            "PLAIN": "invalid username or password",
            "OAUTHBEARER": "invalid.credentials|invalid_token",
        }.get(self.mechanism, "invalid credentials")
        # aiokafka takes the refusal of a token for the end of its login, and its next request closes the
        # connection. kafka-python drops an answer if the end of the connection comes with it.
        return f"{why}|closed|socket disconnected"

    def token(self, issuer: Issuer) -> str:
        """What the client shows where it has no password."""
        return issuer.token("alice", audience="somebody" if self.is_wrong else AUDIENCE)

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def authority(self, certificates: Certificates) -> Path:
        """The authority that the client trusts."""
        wrong = self.is_wrong and self.mechanism is None
        return certificates.other_authority if wrong else certificates.authority


WAYS = [
    Way("SSL"),
    Way("SSL", certificate=True),
    *(Way(protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
    *(Way("SSL", certificate=True, version=version) for version in VERSIONS),
    *(Way("SASL_SSL", mechanism, version=version) for version in VERSIONS for mechanism in MECHANISMS),
]
WRONG_WAYS = [
    Way("SSL", is_wrong=True),
    *(Way("SASL_SSL", mechanism, is_wrong=True) for mechanism in MECHANISMS),
]
OTHER_VERSIONS = [
    Way(protocol, mechanism, version=version, offers=offered)
    for protocol, mechanism in (("SSL", None), ("SASL_SSL", "PLAIN"))
    for version, offered in (VERSIONS, VERSIONS[::-1])
]
"""Ways of clients that offer a version of TLS which the listener does not speak."""
