"""`kafkapy configs`, `users`, `quotas` and `acls` change what Kafka's tools change."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kafkapy import Broker
from tests.commands.conftest import Run, RunJson


def test_settings_of_a_topic_are_changed_and_shown(kafkapy: Run, kafkapy_json: RunJson) -> None:
    kafkapy("topics", "create", "set")
    alter = ("configs", "alter", "topics", "set")
    assert "would be altered" in kafkapy(*alter, "--set", "retention.ms=2d", "--dry-run").stdout
    assert kafkapy_json("configs", "describe", "topics", "set") == []
    assert kafkapy(*alter, "--set", "retention.ms=2d", "-c", "cleanup.policy=compact").exit_code == 0
    found = {row["key"]: row["value"] for row in kafkapy_json("configs", "describe", "topics", "set")}
    assert found == {"retention.ms": "172800000", "cleanup.policy": "compact"}
    assert kafkapy(*alter, "--unset", "cleanup.policy", "--set", "retention.ms=1h").exit_code == 0
    (row,) = kafkapy_json("configs", "describe", "topics", "set")
    assert (row["key"], row["value"], row["source"]) == ("retention.ms", "3600000", "DYNAMIC_TOPIC_CONFIG")


def test_all_settings_and_single_ones_are_shown_with_their_synonyms(
    kafkapy: Run, kafkapy_json: RunJson
) -> None:
    kafkapy("topics", "create", "shown")
    assert len(kafkapy_json("configs", "describe", "topics", "shown", "--all")) > 20
    (row,) = kafkapy_json("configs", "describe", "topics", "shown", "--key", "cleanup.policy", "--synonyms")
    assert row["synonyms"] == ["DEFAULT_CONFIG:log.cleanup.policy=delete"]
    assert (
        "no setting retention"
        in kafkapy("configs", "describe", "topics", "shown", "--key", "retention").stderr
    )


@pytest.mark.parametrize(
    ("type_", "name", "key", "value"),
    [
        ("brokers", "1", "log.retention.ms", "3600000"),
        ("brokers", "default", "log.retention.ms", "7200000"),
        ("groups", "shop", "consumer.session.timeout.ms", "50000"),
        ("client-metrics", "all", "interval.ms", "60000"),
        ("broker-loggers", "1", "kafkapy.broker.core", "DEBUG"),
    ],
)
def test_resources_of_all_types_have_settings(
    kafkapy: Run, kafkapy_json: RunJson, type_: str, name: str, key: str, value: str
) -> None:
    changed = kafkapy("configs", "alter", type_, name, "--set", f"{key}={value}")
    assert changed.exit_code == 0, changed.output
    rows = kafkapy_json("configs", "describe", type_, name, "--key", key)
    assert [row["value"] for row in rows] == [value]
    kafkapy("configs", "alter", type_, name, "--unset", key)


def test_the_words_of_kafka_configs_change_settings(kafkapy: Run, kafkapy_json: RunJson) -> None:
    kafkapy("topics", "create", "worded", "--partitions", "1")
    alter = ("configs", "alter", "topics", "worded")
    kafkapy(*alter, "--add-config", "retention.ms=1d", "--add-config", "segment.bytes=64MiB")
    kafkapy(*alter, "--delete-config", "retention.ms")
    (row,) = kafkapy_json("configs", "describe", "topics", "worded")
    assert (row["key"], row["value"]) == ("segment.bytes", "67108864")
    quota = ("quotas", "alter", "--user", "worded")
    kafkapy(*quota, "--add-config", "producer_byte_rate=1MiB")
    assert len(kafkapy_json("quotas", "describe", "--user", "worded")) == 1
    kafkapy(*quota, "--delete-config", "producer_byte_rate")
    assert kafkapy_json("quotas", "describe", "--user", "worded") == []


@pytest.mark.parametrize(
    ("type_", "name", "setting"),
    [
        ("topics", "all-of-them", "retention.ms=1d"),
        ("brokers", "default", "log.retention.ms=2d"),
        ("groups", "all-of-them", "consumer.session.timeout.ms=50s"),
        ("client-metrics", "all-of-them", "interval.ms=1m"),
    ],
)
def test_without_a_name_all_of_a_type_is_described(
    kafkapy: Run, kafkapy_json: RunJson, type_: str, name: str, setting: str
) -> None:
    if type_ == "topics":
        kafkapy("topics", "create", name, "--partitions", "1")
    kafkapy("configs", "alter", type_, name, "--set", setting)
    rows = kafkapy_json("configs", "describe", type_)
    key = setting.partition("=")[0]
    assert [row["name"] for row in rows if row["key"] == key and row["name"] == name] == [name]


def test_what_has_settings_is_listed(kafkapy: Run, kafkapy_json: RunJson) -> None:
    kafkapy("topics", "create", "listed")
    rows = kafkapy_json("configs", "list")
    assert {"type": "topics", "name": "listed"} in rows
    assert {"type": "brokers", "name": "1"} in rows
    assert {row["type"] for row in kafkapy_json("configs", "list", "topics")} == {"topics"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topics", "set", "-c", "retention.sm=1"), "INVALID_CONFIG: "),
        (("topics", "nowhere", "-c", "retention.ms=1"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("brokers", "one", "-c", "log.retention.ms=1"), "brokers one: expected a broker's id, or default"),
        (("topics", "set"), "nothing is to be changed: give --set KEY=VALUE or --unset KEY"),
        (("topics", "set", "-c", "retention.ms"), "--set retention.ms: expected KEY=VALUE"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(
    kafkapy: Run, arguments: tuple[str, ...], message: str
) -> None:
    kafkapy("topics", "create", "set", "--if-not-exists")
    result = kafkapy("configs", "alter", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_user_logs_in_with_the_password_that_was_set(tmp_path: Path) -> None:
    from tests.commands.conftest import invoke

    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    (tmp_path / "password").write_text("open sesame\n")
    with Broker(config=settings) as secure:
        plain = ("--bootstrap-server", secure.bootstrap_servers)
        password = ("--password-file", str(tmp_path / "password"))
        assert invoke("users", "set", "ali", *password, *plain).exit_code == 0
        assert invoke("users", "list", *plain).stdout.splitlines()[1].split() == [
            "ali",
            "SCRAM-SHA-512",
            "4096",
        ]
        port = next(each.port for each in secure.core.server.listening if each.name == "SASL_PLAINTEXT")
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ali", "sasl.password": "open sesame"}
        consumer = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": "SASL_PLAINTEXT",
                "group.id": "g",
                **login,
            }
        )
        assert consumer.list_topics(timeout=10).brokers
        consumer.close()
        assert "would be deleted" in invoke("users", "delete", "ali", "--dry-run", *plain).stdout
        other = ("--mechanism", "SCRAM-SHA-256", "--dry-run")
        assert "has no SCRAM-SHA-256" in invoke("users", "delete", "ali", *other, *plain).stderr
        assert "add --yes" in invoke("users", "delete", "ali", *plain).stderr
        assert invoke("users", "delete", "ali", "--yes", *plain).exit_code == 0
        assert invoke("users", "list", *plain).stderr == "no user has credentials.\n"
        missing = invoke("users", "describe", "ali", *plain)
        assert missing.stderr.startswith("kafkapy: user ali: RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    "secret",
    [
        "ssl.key.password=hunter2",
        "listener.name.login.plain.sasl.jaas.config=PlainLoginModule required user_alice=hunter2;",
    ],
)
def test_a_secret_of_a_setting_is_no_argument(kafkapy: Run, secret: str) -> None:
    refused = kafkapy("configs", "alter", "brokers", "1", "--set", secret)
    assert refused.exit_code == 1
    assert "others can read arguments" in refused.stderr


def test_a_secret_of_a_setting_comes_from_a_file(tmp_path: Path) -> None:
    from tests.commands.conftest import invoke

    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{}";'
    setting = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    (tmp_path / "password").write_text("second\n")
    (tmp_path / "line").write_text(jaas.format("third"))
    given = {
        "second": jaas.format(f"${{file:{tmp_path / 'password'}}}"),
        "third": f"${{file:{tmp_path / 'line'}}}",
    }
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        setting: jaas.format("first"),
    }
    with Broker(config=settings) as secure:
        port = next(each.port for each in secure.core.server.listening if each.name == "SASL_PLAINTEXT")
        for password, value in given.items():
            alter = ("configs", "alter", "brokers", "1", "--set", f"{setting}={value}")
            changed = invoke(*alter, "--bootstrap-server", secure.bootstrap_servers)
            assert changed.exit_code == 0, changed.output
            login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": password}
            servers = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
            consumer = Consumer({**servers, **login, "group.id": "g"})
            assert consumer.list_topics(timeout=10).brokers
            consumer.close()


def test_a_password_is_no_argument_and_needs_somebody_to_ask(kafkapy: Run) -> None:
    assert "nobody can be asked for the password" in kafkapy("users", "set", "ali").stderr
    assert "--password " not in kafkapy("users", "set", "--help").stdout


def test_quotas_are_set_shown_and_removed(kafkapy: Run, kafkapy_json: RunJson) -> None:
    alter = ("quotas", "alter", "--user", "alice", "--client", "app")
    assert "would be altered" in kafkapy(*alter, "-c", "producer_byte_rate=10MiB", "--dry-run").stdout
    assert kafkapy_json("quotas", "list") == []
    assert kafkapy(*alter, "-c", "producer_byte_rate=10MiB", "-c", "request_percentage=12.5").exit_code == 0
    assert kafkapy("quotas", "alter", "--user-defaults", "-c", "consumer_byte_rate=1k").exit_code == 0
    rows = [(row["entity"], row["key"], row["value"]) for row in kafkapy_json("quotas", "list")]
    assert rows == [
        ("user (default)", "consumer_byte_rate", 1024),
        ("user alice, client-id app", "producer_byte_rate", 10485760),
        ("user alice, client-id app", "request_percentage", 12.5),
    ]
    found = kafkapy_json("quotas", "describe", "--user-defaults")
    assert [(row["key"], row["value"]) for row in found] == [("consumer_byte_rate", 1024)]
    assert kafkapy(*alter, "-d", "producer_byte_rate", "-d", "request_percentage").exit_code == 0
    assert (
        kafkapy("quotas", "describe", "--user", "alice", "--client", "app").stderr == "there are no quotas.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-c", "producer_byte_rate=1"), "name an entity: --user, --client, --ip"),
        (("--user", "a"), "nothing is to be changed"),
        (
            ("--user", "a", "--user-defaults", "-c", "producer_byte_rate=1"),
            "--user and --user-defaults are given",
        ),
        (
            ("--user", "a", "-c", "producer_rate=1"),
            "there is no quota producer_rate; there are producer_byte_rate",
        ),
        (("--user", "a", "-c", "producer_byte_rate=fast"), "expected a number, or a size"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(kafkapy: Run, arguments: tuple[str, ...], message: str) -> None:
    result = kafkapy("quotas", "alter", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "--topic", "a"), "name a principal"),
        (("add", "--allow-principal", "alice", "--topic", "a"), "alice is no principal: expected User:NAME"),
        (("add", "--allow-principal", "User:alice"), "name a resource"),
        (
            ("add", "--allow-principal", "User:a", "--consumer", "--topic", "a"),
            "--consumer needs --topic and",
        ),
        (
            ("add", "--allow-principal", "User:a", "--topic", "a", "--resource-pattern-type", "any"),
            "is literal or",
        ),
        (("remove",), "name a resource, such as --topic orders, or a principal"),
    ],
)
def test_acls_that_say_too_little_are_refused(kafkapy: Run, arguments: tuple[str, ...], message: str) -> None:
    result = kafkapy("acls", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_producers_and_a_consumers_acls_are_those_of_kafka_acls(kafkapy_json: RunJson) -> None:
    options = ("--producer", "--consumer", "--topic", "orders", "--group", "shop", "--dry-run")
    rows = kafkapy_json("acls", "add", "--allow-principal", "User:alice", *options)
    assert {(row["resource_type"], row["name"], row["operation"]) for row in rows} == {
        ("TOPIC", "orders", "Write"),
        ("TOPIC", "orders", "Describe"),
        ("TOPIC", "orders", "Create"),
        ("TOPIC", "orders", "Read"),
        ("GROUP", "shop", "Read"),
    }
    assert {(row["principal"], row["host"], row["permission"]) for row in rows} == {
        ("User:alice", "*", "ALLOW")
    }
