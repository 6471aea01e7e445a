"""Secrets are named in a definition, and used where they are needed.

They are written down and told nowhere.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError
from kafkapy.pipeline.commands.cli import pipeline as command
from kafkapy.pipeline.secret_options import kept, redacted, resolved_url, secrets_of
from kafkapy.pipeline.state import State
from kafkapy.pipeline.stream_failures import explain
from kafkapy.pipeline.topics import Topics
from kafkapy.spark.secret_names import has_secret, is_secret
from tests.pipeline.conftest import MakeTopic
from tests.pipeline.schema_registry import running_registry

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = f'{PLAIN} username="ann" password="hunter-2";'


def definition(**values: Any) -> PipelineDefinition:
    return PipelineDefinition.from_mapping(
        {"topic": "orders", "table": "delta:lake/orders", **values}, source="orders.yaml"
    )


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.truststore.password",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.azure.account.key.orders.dfs.core.windows.net",
        "spark.hadoop.fs.azure.account.oauth2.client.secret",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.authenticate.secret",
        "spark.ssl.keyStorePassword",
    ],
)
def test_a_secret_is_told_by_the_name_of_its_option(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "security.protocol",
        "ssl.keystore.location",
        "sasl.oauthbearer.token.endpoint.url",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.hadoop.hadoop.security.credential.provider.path",
        "spark.kubernetes.authenticate.oauthTokenFile",
        "spark.kafka.clusters.a.sasl.token.mechanism",
        "spark.authenticate.secretBitLength",
        "spark.executor.memory",
    ],
)
def test_what_is_only_about_a_secret_is_none(name: str) -> None:
    assert not is_secret(name)


def test_secrets_come_from_the_environment_and_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "hunter-2")
    (tmp_path / "key").write_text("s3cr3t\n")
    (tmp_path / "orders.yaml").write_text(
        "topic: orders\ntable: delta:lake/orders\nkafka:\n"
        f'  sasl.jaas.config: \'{PLAIN} username="ann" password="${{ORDERS_PASSWORD}}";\'\n'
        "spark:\n  spark.hadoop.fs.s3a.secret.key: ${file:key}\n  spark.x: ${spark.y}-${env:HOME}\n"
    )
    loaded = PipelineDefinition.load(tmp_path / "orders.yaml")
    assert loaded.kafka_options == {"sasl.jaas.config": JAAS}
    assert loaded.spark_options == {
        "spark.hadoop.fs.s3a.secret.key": "s3cr3t",
        "spark.x": "${spark.y}-${env:HOME}",  # Spark's own
    }
    assert loaded.spark["spark.hadoop.fs.s3a.secret.key"] == f"${{file:{tmp_path}/key}}"


def test_a_secret_that_cannot_be_had_is_named_when_it_is_needed(tmp_path: Path) -> None:
    missing = definition(kafka={"ssl.key.password": "${NO_SUCH_VARIABLE}"})
    with pytest.raises(PipelineError, match=r"^kafka\.ssl\.key\.password: the environment variable NO_SUCH"):
        missing.kafka_options  # noqa: B018
    unread = definition(spark={"spark.authenticate.secret": f"${{file:{tmp_path}/none}}"})
    with pytest.raises(PipelineError, match=r"^spark\.authenticate\.secret: .*/none cannot be read: "):
        unread.spark_options  # noqa: B018


@pytest.mark.parametrize("value", ["${", "${}", "${a b}", "${NAME", "x${env:HOME}", "${file:a:${B}}"])
def test_a_reference_to_nothing_is_refused(value: str) -> None:
    with pytest.raises(PipelineError, match=r"orders\.yaml: kafka\.ssl\.key\.password: '\$\{' begins a ref"):
        definition(kafka={"ssl.key.password": value})


def test_a_password_of_a_registry_is_quoted_for_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "p@ss/word")
    monkeypatch.setenv("URL", "https://ann:pw@registry:8081")
    assert resolved_url("registry", "https://ann:${PASSWORD}@registry:8081/a") == (
        "https://ann:p%40ss%2Fword@registry:8081/a"
    )
    assert resolved_url("registry", "${URL}") == "https://ann:pw@registry:8081"


# -- written down


def test_what_is_kept_beside_the_table_has_references_and_no_secrets(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.definition = definition(
        format={"kind": "avro", "registry": "https://ann:hunter-2@registry:8081"},
        kafka={"sasl.jaas.config": JAAS, "security.protocol": "SASL_SSL"},
        spark={
            "spark.hadoop.fs.s3a.access.key": "AKIA1234",
            "spark.hadoop.fs.s3a.secret.key": "${S3_KEY}",
            "spark.executor.memory": "4g",
        },
    )
    written = (tmp_path / "_kafkapy" / "pipeline.yaml").read_text()
    assert "hunter-2" not in written
    assert "AKIA1234" not in written
    kept = state.definition
    assert kept is not None
    assert kept.kafka == {"sasl.jaas.config": "${left out}", "security.protocol": "SASL_SSL"}
    assert kept.spark["spark.hadoop.fs.s3a.secret.key"] == "${S3_KEY}"
    assert kept.spark["spark.executor.memory"] == "4g"
    assert kept.format.registry == "https://ann:${left out}@registry:8081"
    with pytest.raises(PipelineError, match=r"kafka\.sasl\.jaas\.config: the table stores no secrets; name"):
        kept.kafka_options  # noqa: B018


@pytest.mark.parametrize(
    ("url", "stays"),
    [
        ("https://ann:hunter-2@catalog.example/api", False),
        ("https://ann:${PASSWORD}@catalog.example/api", True),
        ("https://catalog.example/api", True),
        ("https://ann@catalog.example/api", True),
        ("jdbc:postgresql://db:5432/lake?user=ann&password=hunter-2", False),
        ("jdbc:postgresql://db:5432/lake?user=ann&password=${PASSWORD}&ssl=true", True),
        ("jdbc:sqlserver://db:1433;user=ann;password=hunter-2;encrypt=true", False),
        ("jdbc:mysql://ann:hunter-2@db/lake", False),
        ("jdbc:sqlite:/lake/catalog.db", True),
    ],
)
def test_a_secret_in_a_url_is_one_whatever_the_option_is_called(url: str, stays: bool) -> None:
    option = {"spark.sql.catalog.lake.uri": url}
    assert (kept(option) == option) is stays
    assert ("hunter-2" in secrets_of(option)) is not stays
    wanted = definition(spark=option)
    assert "hunter-2" not in wanted.redacted(f"cannot connect to {url}")
    assert has_secret(url) is ("hunter-2" in url or "PASSWORD" in url)


@pytest.mark.parametrize(
    ("jaas", "stays"),
    [
        (f'{PLAIN} username="ann" password="${{PASSWORD}}";', True),
        (f"{PLAIN} username=ann password='${{file:/run/secrets/ann}}';", True),
        ("${JAAS}", True),
        ('x.ScramLoginModule required username="${A}" password="${B}" tokenauth="true";', True),
        ('com.sun.security.auth.module.Krb5LoginModule required keyTab="/etc/ann" principal="ann";', True),
        (JAAS, False),
        (f'{PLAIN} username="${{USER}}" password="hunter-2";', False),
        (f'{PLAIN} username="ann" password="${{A}}hunter-2";', False),
        (f"{PLAIN} username=ann password=hunter-2;", False),
        ("hunter-2", False),
    ],
)
def test_a_login_is_kept_only_if_its_secrets_are_references(jaas: str, stays: bool) -> None:
    assert (kept({"sasl.jaas.config": jaas}) == {"sasl.jaas.config": jaas}) is stays


def test_a_pipeline_made_in_python_has_its_secrets_and_keeps_none(tmp_path: Path) -> None:
    pipeline = Pipeline("orders").kafka(sasl_jaas_config=JAAS).to_delta(tmp_path)
    assert pipeline.definition.kafka_options["sasl.jaas.config"] == JAAS
    State(tmp_path).definition = pipeline.definition
    assert "hunter-2" not in (tmp_path / "_kafkapy" / "pipeline.yaml").read_text()


def test_a_file_that_is_made_with_a_secret_is_for_its_owner_only(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", "hunter-2")
    topic = make_topic()
    with running_registry() as registry:
        for login, mode in (("ann:hunter-2@", 0o600), ("ann:${PASSWORD}@", 0o644), ("", 0o644)):
            file = tmp_path / f"{mode}{len(login)}.yaml"
            address = registry.url.replace("//", f"//{login}")
            arguments = [
                "create",
                topic,
                "--to",
                "parquet:lake",
                "--format",
                "avro",
                "--bootstrap",
                bootstrap,
            ]
            made = CliRunner().invoke(command, [*arguments, "--registry", address, "--file", str(file)])
            assert made.exception is None, made.output
            assert stat.S_IMODE(file.stat().st_mode) == mode
            assert yaml.safe_load(file.read_text())["format"]["registry"] == address


# -- told


def test_a_definition_shows_no_secret() -> None:
    told = repr(
        definition(
            format={"kind": "avro", "registry": "https://ann:hunter-2@registry:8081"},
            kafka={"sasl.jaas.config": JAAS},
            spark={"spark.hadoop.fs.s3a.secret.key": "hunter-2"},
        )
    )
    assert "hunter-2" not in told
    assert "topic='orders'" in told


@pytest.mark.parametrize(
    "text",
    [
        "kafka: {ssl.key.password: [hunter-2]}",
        "kafka: ssl.key.password=hunter-2",
        "kafka: [ssl.key.password, hunter-2]",
        "spark: {spark.authenticate.secret: {hunter-2: 1}}",
        "kafka: {ssl.key.password: *hunter-2}",
        "kafka: {ssl.key.password: !hunter-2 x}",
        "format: {kind: avro, registry: 'ann:hunter-2@registry'}",
        "format: {kind: avro, registry: 'ann:hunter-2/2@registry'}",
    ],
)
def test_what_is_wrong_with_a_secret_is_said_without_it(text: str) -> None:
    with pytest.raises(PipelineError) as refused:
        PipelineDefinition.parse(f"topic: orders\ntable: delta:lake\n{text}\n", source="orders.yaml")
    assert "hunter-2" not in str(refused.value)
    assert str(refused.value).startswith("orders.yaml")


def test_what_spark_says_is_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("py4j")
    monkeypatch.setenv("S3_KEY", "s3cr3t")
    wanted = definition(
        kafka={"sasl.jaas.config": JAAS},
        spark={"spark.hadoop.fs.s3a.secret.key": "${S3_KEY}", "spark.x": "${NOT_SET}"},
    )
    error = ValueError(f"cannot use password hunter-2 of {JAAS} with key s3cr3t of orders")
    told = str(explain(error, wanted).error)
    assert "[hidden]" in told
    assert "hunter-2" not in told
    assert "s3cr3t" not in told
    assert told.endswith("of orders")


def test_what_a_client_says_is_told_without_secrets() -> None:
    """Somebody has written the password in the wrong line."""
    with pytest.raises(PipelineError, match=r'^kafka: Invalid value "\[hidden\]" for .*; correct it'):
        Topics("127.0.0.1:9092", {"sasl.jaas.config": JAAS, "security.protocol": "hunter-2"})


def test_a_password_is_hidden_with_and_without_its_backslashes() -> None:
    secrets = secrets_of({"sasl.jaas.config": f'{PLAIN} username="ann" password="a\\"bcd";'})
    assert redacted('a\\"bcd a"bcd', secrets) == "[hidden] [hidden]"


def test_a_secret_of_few_characters_does_not_riddle_a_message() -> None:
    assert redacted("the topic orders", secrets_of({"ssl.key.password": "the"})) == "the topic orders"
