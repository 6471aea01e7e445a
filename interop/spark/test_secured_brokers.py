"""Pipelines on a broker with TLS and logins, with both of their clients."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from interop.librdkafka.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint
from interop.security.secure_server import SCRAM_PASSWORD, SCRAM_USER, SecureServer
from interop.spark.test_audit import produce
from interop.spark.test_runs import group_offsets
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.dead_letters.reader import dead_letters
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.topics import Topics
from tests.security.certificates import Certificates, make_certificates
from tests.security.issuer import Issuer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

STORE_PASSWORD = "the-stores-password"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure_server(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecureServer]:
    issuer = Issuer(tmp_path_factory.mktemp("issuer"))
    server = SecureServer(tmp_path_factory.mktemp("secure"), certificates, issuer, apache_kafka=False)
    with server.process:
        server.make_users()
        yield server


def trusting(certificates: Certificates) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}


def by_scram(certificates: Certificates, folder: Path) -> dict[str, Any]:
    """A file that Kafka's tools take too, but for the reference to the secret."""
    (folder / "password").write_text(SCRAM_PASSWORD)
    login = f'ScramLoginModule required username="{SCRAM_USER}" password="${{file:{folder}/password}}";'
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"org.apache.kafka.common.security.scram.{login}",
        "bootstrap.servers": "elsewhere:9092",
        "auto.offset.reset": "none",
        **trusting(certificates),
    }
    (folder / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return {"client_config": "client.properties"}


def by_certificate(certificates: Certificates, folder: Path) -> dict[str, Any]:
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client)}
    return {"kafka": {"security.protocol": "SSL", **trusting(certificates), **own}}


def by_converted_stores(certificates: Certificates, folder: Path) -> dict[str, Any]:
    """Java's own stores, converted with the commands that the refusals name."""
    text = certificates.client.read_bytes()
    chain, key = load_pem_x509_certificates(text), load_pem_private_key(text, None)
    secret = BestAvailableEncryption(STORE_PASSWORD.encode())
    made = serialize_key_and_certificates(b"me", key, chain[0], chain[1:], secret)  # type: ignore[arg-type]
    (folder / "made.p12").write_bytes(made)
    passwords = ["-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD]

    def import_keystore(source: str, target: str, kind: str) -> None:
        stores = ["-srckeystore", source, "-destkeystore", target, "-deststoretype", kind]
        run_tool("keytool", "-importkeystore", *passwords, *stores, at=folder)

    import_keystore("made.p12", "me.jks", "JKS")
    keep = ["-storepass", STORE_PASSWORD, "-keystore", "ca.jks", "-noprompt"]
    run_tool("keytool", "-importcert", "-file", str(certificates.authority), *keep, at=folder)
    stores = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(folder / "me.jks"),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.location": str(folder / "ca.jks"),
    }
    with pytest.raises(PipelineError, match=r"keytool -importkeystore -srckeystore \S+ -destkeystore cli"):
        Topics("127.0.0.1:1", {**stores, "ssl.truststore.type": "PEM"})
    with pytest.raises(PipelineError, match=r"keytool -list -rfc -keystore \S+ > ca\.pem"):
        Topics("127.0.0.1:1", {**stores, "ssl.keystore.type": "PEM"})
    import_keystore("me.jks", "client.p12", "PKCS12")
    listed = run_tool("keytool", "-list", "-rfc", *keep[:-1], at=folder)
    (folder / "ca.pem").write_text(listed)
    (folder / "secret").write_text(STORE_PASSWORD)
    return {
        "kafka": {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(folder / "client.p12"),
            "ssl.keystore.password": f"${{file:{folder}/secret}}",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
        }
    }


def run_tool(*command: str, at: Path) -> str:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("way", [by_scram, by_certificate, by_converted_stores])
def test_all_clients_of_a_pipeline_come_in(
    spark: SparkSession, secure_server: SecureServer, certificates: Certificates, tmp_path: Path,
    capfd: pytest.CaptureFixture[str], way: Any,
) -> None:  # fmt: skip
    protocol = "SASL_SSL" if way is by_scram else "SSL"
    check_pipeline(spark, secure_server, way.__name__, protocol, way(certificates, tmp_path), tmp_path, capfd)


def test_all_clients_of_a_pipeline_come_in_with_tokens_of_an_identity_provider(
    spark: SparkSession, secure_server: SecureServer, certificates: Certificates, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
    (tmp_path / "secret").write_text(CLIENT_SECRET)
    with TokenEndpoint(tmp_path, secure_server.issuer) as endpoint:
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{bearer}CallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": endpoint.variables()["VALID_OIDC_URL"],
            "sasl.jaas.config": f'{bearer}Module required clientId="{CLIENT_ID}" '
            f'clientSecret="${{file:{tmp_path}/secret}}";',
        }
        given = {"kafka": {**login, **trusting(certificates)}}
        check_pipeline(spark, secure_server, "by_token", "SASL_SSL", given, tmp_path, capfd)


def check_pipeline(
    spark: SparkSession, server: SecureServer, topic: str, protocol: str, given: Mapping[str, Any],
    folder: Path, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Rows, dead letters, the group's offsets and an audit; no secret is kept or told."""
    plain = server.addresses["PLAINTEXT"]
    Topics(plain).create(topic, 1, {})
    definition = PipelineDefinition.from_mapping(
        {
            "topic": topic,
            "table": "delta:orders",
            "bootstrap": server.addresses[protocol],
            "format": {"kind": "json", "schema": "id BIGINT"},
            "dead_letter": f"{topic}.dlq",
            "group": f"{topic}-table",
            **given,
        },
        folder=folder,
    )
    good = [(0, f"k{number}", json.dumps({"id": number})) for number in range(20)]
    produce(plain, topic, [*good, (0, "bad", "no JSON")])
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters) == (20, 1)
    ids = deltalake.DeltaTable(folder / "orders").to_pyarrow_table()["id"].to_pylist()
    assert sorted(ids) == list(range(20))
    kept = PipelineDefinition.load(str(folder / "orders"))
    assert audit(kept, spark).ok, "the definition that is kept with the table is enough"
    letters = dead_letters(kept, Topics(kept.bootstrap, kept.kafka_options))
    assert [letter.source.offset for letter in letters] == [20]
    assert group_offsets(plain, f"{topic}-table") == {(topic, 0): 21}
    told = "".join(capfd.readouterr()) + kept.to_yaml()
    state = b"".join(path.read_bytes() for path in (folder / "orders").rglob("*") if path.is_file())
    for secret in (SCRAM_PASSWORD, STORE_PASSWORD, f'"{CLIENT_SECRET}"'):
        assert secret not in told
        assert secret.encode() not in state
