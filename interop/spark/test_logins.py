"""Pipelines that need jars or settings of the whole JVM to log in, in own processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import deltalake
import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from interop.security.secure_server import FromFile
from interop.spark.test_audit import produce
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kerberos_centre import KerberosCentre, key_line, own_centre
from interop.support.maven import CACHE, Coordinates, copy_jars
from kafkapy.pipeline.topics import Topics
from tests.pipeline.signed_urls import environment
from tests.ports import free_ports

pytestmark = pytest.mark.slow

AMAZONS = "software.amazon.msk.auth.iam"
AMAZONS_JAR = Coordinates("software.amazon.msk", "aws-msk-iam-auth", "2.3.5", classifier="all")
LINE = "listener.name.sasl_plaintext.{}.sasl.jaas.config"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def server(folder: Path, mechanism: str, host: str, own: Mapping[str, str]) -> tuple[FromFile, str]:
    """A broker with a plain listener and a secured one, and the address of the latter."""
    plain, secured = (f"{host}:{port}" for port in free_ports(2))
    lines = {
        "log.dirs": str(folder / "data"),
        "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{secured}",
        "sasl.enabled.mechanisms": mechanism,
        **own,
    }
    return FromFile(folder, lines, plain), secured


def check_pipeline(
    plain: str, secured: str, kafka: Mapping[str, str], spark: Mapping[str, str], folder: Path
) -> None:
    """Rows and dead letters of a pipeline that reaches its broker by `secured` alone."""
    Topics(plain).create("orders")
    good = [(0, f"k{number}", json.dumps({"id": number})) for number in range(20)]
    produce(plain, "orders", [*good, (0, "bad", "no JSON")])
    definition: dict[str, Any] = {
        "topic": "orders",
        "table": f"delta:{folder}/orders",
        "bootstrap": secured,
        "format": {"kind": "json", "schema": "id BIGINT"},
        "dead_letter": "orders.dlq",
        "kafka": {"security.protocol": "SASL_PLAINTEXT", **kafka},
        "spark": {"spark.driver.memory": "1g", **spark},
    }
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(definition))
    for name in ("run", "audit"):
        command = [sys.executable, "-m", "kafkapy", "pipeline", name, str(file)]
        once = ["--once"] if name == "run" else []
        done = subprocess.run([*command, *once], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    ids = deltalake.DeltaTable(folder / "orders").to_pyarrow_table()["id"].to_pylist()
    assert sorted(ids) == list(range(20))
    assert Topics(plain).end_offsets("orders.dlq") == {0: 1}


@pytest.fixture
def amazons_jar(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Amazon's login of Java's clients; this process and those that it starts have the key."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    with skipped_without_jars():
        folder = copy_jars([AMAZONS_JAR], CACHE / "spark" / "msk")
    return next(folder.glob("aws-msk-iam-auth-*-all.jar"))


def test_a_pipeline_comes_in_with_a_key_of_aws(amazons_jar: Path, tmp_path: Path) -> None:
    """With the tokens that Amazon MSK checks; Java's own mechanism is not there."""
    checker = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    own = {LINE.format("oauthbearer"): BEARER, checker: "tests.pipeline.signed_urls:SignedUrls"}
    broker, secured = server(tmp_path, "OAUTHBEARER", "127.0.0.1", own)
    login = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": BEARER,
        "sasl.login.callback.handler.class": f"{AMAZONS}.IAMOAuthBearerLoginCallbackHandler",
    }
    with broker:
        check_pipeline(broker.bootstrap_servers, secured, login, {"spark.jars": str(amazons_jar)}, tmp_path)


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[KerberosCentre]:
    own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(KafkaException) as refused:  # as nobody says who logs in, or since it cannot
        AdminClient({"bootstrap.servers": "127.0.0.1:1", **own})
    if "No provider" in str(refused.value):
        pytest.skip("this librdkafka is built without Kerberos, as the wheels are (docs/pipeline.md)")
    with own_centre(tmp_path) as started:
        yield started


def test_a_pipeline_comes_in_with_a_ticket(centre: KerberosCentre, tmp_path: Path) -> None:
    service = "kafka/localhost"
    own = {
        "sasl.kerberos.service.name": "kafka",
        LINE.format("gssapi"): key_line(centre.add(service), service),
    }
    broker, secured = server(tmp_path, "GSSAPI", "localhost", own)
    login = {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": key_line(centre.add("alice"), "alice"),
    }
    flag = {"spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={centre.config}"}
    with broker:
        check_pipeline(broker.bootstrap_servers, secured, login, flag, tmp_path)
