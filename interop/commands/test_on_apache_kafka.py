"""kafkapy's commands do on Apache Kafka what its own tools do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from interop.commands.conftest import Run, RunJson, SecureKafka
from interop.support.waiting import wait_until


def values(rows: list[dict[str, Any]], key: str) -> list[Any]:
    return [row[key] for row in rows]


def test_topics(kafkapy: Run, done: RunJson, tmp_path: Path) -> None:
    done("topics", "create", "orders", "-p", "6", "-c", "retention.ms=1d", "--dry-run")
    assert "orders" not in values(done("topics", "list"), "topic")
    done("topics", "create", "orders", "-p", "6", "-c", "retention.ms=1d")
    wait_until(lambda: "orders" in values(done("topics", "list"), "topic"))
    (topic,) = done("topics", "describe", "orders")
    assert topic["configs"] == {"retention.ms": "86400000"}
    assert len(topic["partitions"]) == 6
    assert "TOPIC_ALREADY_EXISTS" in kafkapy("topics", "create", "orders").stderr
    done("topics", "alter", "orders", "-p", "8")
    wait_until(lambda: len(done("topics", "describe", "orders")[0]["partitions"]) == 8)
    path = tmp_path / "topics.yaml"
    path.write_text("topics: {orders: {partitions: 9, configs: {cleanup.policy: compact}}}")
    changes = done("topics", "apply", "-f", str(path), "--dry-run")
    assert values(changes, "change") == ["partitions", "cleanup.policy", "retention.ms"]
    done("topics", "apply", "-f", str(path), "--yes")
    wait_until(lambda: done("topics", "describe", "orders")[0]["configs"] == {"cleanup.policy": "compact"})
    done("topics", "delete", "orders", "--yes")
    wait_until(lambda: "orders" not in values(done("topics", "list"), "topic"))


def test_records_groups_and_lag(kafkapy: Run, done: RunJson) -> None:
    done("topics", "create", "records", "-p", "1")
    wait_until(lambda: "records" in values(done("topics", "list"), "topic"))
    assert kafkapy("produce", "records", "-K", ":", "-H", "h=1", input="a:1\nb:2\nc:3\n").exit_code == 0
    read = kafkapy("consume", "records", "-b", "--exit", "--print-key", "--print-headers")
    assert read.stdout.splitlines() == ["h:1\ta\t1", "h:1\tb\t2", "h:1\tc\t3"]
    assert kafkapy("consume", "records", "-b", "-n", "2", "--group", "shop").stdout.splitlines() == ["1", "2"]
    shown = kafkapy("tail", "records", "-n", "1", "--max-messages", "1").stdout
    assert shown.split("\t")[1:] == ["records-0", "2", "c", "3\n"]
    (row,) = done("lag", "shop", "--seconds")
    assert (row["committed"], row["end"], row["lag"]) == (2, 3, 1)
    assert 0 <= row["seconds"] < 600
    (group,) = done("groups", "describe", "shop")
    assert (group["type"], group["state"], group["members"]) == ("classic", "Empty", [])
    (move,) = done("groups", "reset-offsets", "shop", "--all-topics", "--shift-by", "-1", "--dry-run")
    assert (move["before"], move["after"]) == (2, 1)
    reset = ("groups", "reset-offsets", "shop", "--topic", "records:0", "--to-earliest", "--yes")
    assert kafkapy(*reset).exit_code == 0
    assert done("lag", "shop")[0]["lag"] == 3
    assert done("topics", "offsets", "records")[0]["latest"] == 3
    assert done("topics", "delete-records", "records:0=2", "--yes")[0]["low_watermark"] == 2
    done("groups", "delete", "shop", "--yes")
    assert "there is no group shop" in kafkapy("lag", "shop").stderr


def test_a_group_of_the_consumer_protocol(done: RunJson, kafka: SecureKafka, kafkapy: Run) -> None:
    done("topics", "create", "modern", "-p", "2")
    wait_until(lambda: "modern" in values(done("topics", "list"), "topic"))
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "modern",
            "group.protocol": "consumer",
            "client.id": "till",
        }
    )
    consumer.subscribe(["modern"])
    wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2)
    consumer.commit(offsets=[TopicPartition("modern", 0, 0)], asynchronous=False)
    (group,) = done("groups", "describe", "modern")
    assert (group["type"], group["state"]) == ("consumer", "Stable")
    assert group["members"][0]["client_id"] == "till"
    assert group["members"][0]["partitions"] == ["modern:0", "modern:1"]
    assert (
        "is Stable: stop its members"
        in kafkapy("groups", "reset-offsets", "modern", "--all-topics", "--to-latest").stderr
    )
    consumer.close()


def test_settings(done: RunJson, kafkapy: Run) -> None:
    done("topics", "create", "settings")
    for type_, name, key, value in (
        ("topics", "settings", "segment.bytes", "64MiB"),
        ("brokers", "1", "log.cleaner.threads", "2"),
        ("brokers", "default", "log.retention.ms", "2d"),
        ("groups", "g", "consumer.session.timeout.ms", "50s"),
        ("client-metrics", "m", "interval.ms", "1min"),
        ("broker-loggers", "1", "kafka.server.KafkaApis", "DEBUG"),
    ):
        done("configs", "alter", type_, name, "--set", f"{key}={value}")

        def changed(type_: str = type_, name: str = name, key: str = key) -> bool:
            return key in values(done("configs", "describe", type_, name), "key")

        wait_until(changed)
        done("configs", "alter", type_, name, "--unset", key)
    assert {"type": "topics", "name": "settings"} in done("configs", "list")
    assert "INVALID_CONFIG" in kafkapy("configs", "alter", "topics", "settings", "-c", "no=1").stderr


def test_users_quotas_and_acls(done: RunJson, kafka: SecureKafka, kafkapy: Run, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("open sesame")
    done("users", "set", "ali", "--password-file", str(tmp_path / "password"))
    wait_until(lambda: values(done("users", "list"), "user") == ["ali"])
    quota = ("quotas", "alter", "--user", "ali", "--client", "app")
    done(*quota, "-c", "producer_byte_rate=10MiB")
    wait_until(lambda: values(done("quotas", "list"), "value") == [10485760])
    done(*quota, "-d", "producer_byte_rate")
    wait_until(lambda: done("quotas", "list") == [])

    done("topics", "create", "guarded")
    properties = tmp_path / "ali.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=ali\nsasl.password=${{file:{tmp_path / 'password'}}}\n"
    )
    as_ali = ("--command-config", str(properties))
    refused = kafkapy("topics", "describe", "guarded", *as_ali, server=kafka.with_login)
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr
    add = ("acls", "add", "--allow-principal", "User:ali", "--producer", "--topic", "guard")
    assert len(done(*add, "--resource-pattern-type", "prefixed")) == 3
    wait_until(lambda: len(done("acls", "list", "--principal", "User:ali")) == 3)
    assert set(values(done("acls", "list"), "pattern")) == {"PREFIXED"}
    assert values(done("acls", "list", "--topic", "guarded", "--resource-pattern-type", "match"), "name")
    wait_until(
        lambda: kafkapy("produce", "guarded", *as_ali, server=kafka.with_login, input="1").exit_code == 0
    )
    remove = ("acls", "remove", "--topic", "guard", "--resource-pattern-type", "prefixed")
    assert values(done(*remove, "--dry-run"), "result") == ["would be removed"] * 3
    assert values(done(*remove, "--yes"), "result") == ["removed"] * 3
    wait_until(lambda: done("acls", "list") == [])


def test_tokens(done: RunJson, kafka: SecureKafka, kafkapy: Run, tmp_path: Path) -> None:
    (tmp_path / "alice.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=secret\n"
    )
    login = ("--command-config", str(tmp_path / "alice.properties"))
    made = done(
        "tokens", "create", "--max-life-time", "2d", "--renewer", "User:bob", *login, server=kafka.with_login
    )
    assert made["owner"] == "User:alice"
    wait_until(lambda: bool(done("tokens", "list", *login, server=kafka.with_login)))
    (token,) = done("tokens", "list", *login, server=kafka.with_login)
    assert (token["token_id"], token["renewers"]) == (made["token_id"], ["User:bob"])
    assert made["hmac"] not in json.dumps(token)
    renewed = done("tokens", "renew", made["token_id"], "--for", "1h", *login, server=kafka.with_login)
    assert renewed["expires"] < made["expires"]
    done("tokens", "expire", made["token_id"], "--yes", *login, server=kafka.with_login)
    wait_until(lambda: done("tokens", "list", *login, server=kafka.with_login) == [])
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in kafkapy("tokens", "create").stderr


def test_transactions_and_producers(done: RunJson, kafka: SecureKafka, kafkapy: Run) -> None:
    done("topics", "create", "open", "-p", "1")
    wait_until(lambda: "open" in values(done("topics", "list"), "topic"))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", "never")
    assert producer.flush(10) == 0
    assert {row["transactional_id"]: row["state"] for row in done("transactions", "list")} == {"t": "Ongoing"}
    (transaction,) = done("transactions", "describe", "t")
    assert transaction["partitions"] == ["open:0"]
    (row,) = done("producers", "open")
    assert (row["producer_id"], row["transaction_start"]) == (transaction["producer_id"], 0)
    done("transactions", "abort", "open:0", "--start-offset", "0", "--yes")
    wait_until(lambda: done("producers", "open")[0]["transaction_start"] is None)
    assert kafkapy("transactions", "find-hanging", "open").stderr == "no transaction hangs.\n"


def test_brokers_directories_and_reassignments(
    done: RunJson, kafka: SecureKafka, kafkapy: Run, tmp_path: Path
) -> None:
    assert values(done("cluster", "list-endpoints"), "broker") == [1]
    assert done("cluster", "describe")["cluster_id"] == "a2Fma2FweS1pbnRlcm9wMQ"
    assert {"Produce", "DescribeQuorum"} <= set(values(done("cluster", "api-versions"), "api"))
    assert "metadata.version" in values(done("cluster", "features"), "feature")
    (node,) = done("cluster", "quorum")
    assert (node["node"], node["role"]) == (1, "leader")
    assert values(done("ping"), "result") == ["answers"]
    done("topics", "create", "moved", "-p", "1")
    wait_until(lambda: "moved" in values(done("topics", "list"), "topic"))

    def directory() -> list[str]:
        return [
            row["log_dir"]
            for row in done("log-dirs", "describe", "--topic", "moved")
            for replica in row["replicas"]
            if not replica["future"]
        ]

    (source,) = directory()
    (target,) = set(kafka.log_dirs) - {source}
    done("log-dirs", "move", "moved", "--broker", "1", "--to", target)
    wait_until(lambda: directory() == [target])
    plan = kafkapy("reassign", "plan", "moved")
    (tmp_path / "plan.json").write_text(plan.stdout)
    execute = kafkapy("reassign", "execute", "-f", str(tmp_path / "plan.json"), "--yes")
    assert execute.stderr == "all replicas are where the plan has them.\n"
    assert done("reassign", "list") == []
    assert values(done("leaders", "elect", "moved"), "result") == ["not needed"]


def test_features_are_downgraded_and_upgraded(kafkapy: Run, done: RunJson) -> None:
    level = {row["feature"]: row["finalized"] for row in done("cluster", "features")}["streams.version"]
    assert level == 1
    down = ("cluster", "downgrade-features", "streams.version=0")
    assert values(done(*down, "--dry-run"), "result") == ["would be changed"]
    assert values(done(*down, "--yes"), "result") == ["changed"]
    assert values(done("cluster", "upgrade-features", "streams.version=1"), "result") == ["changed"]
    refused = kafkapy("cluster", "upgrade-features", "streams.version=9")
    assert refused.exit_code == 1
    assert "INVALID_UPDATE_VERSION" in refused.stderr


def test_a_plan_that_is_done_ends_throttles(done: RunJson, tmp_path: Path) -> None:
    done("topics", "create", "held", "-p", "1")
    wait_until(lambda: "held" in values(done("topics", "list"), "topic"))
    broker = str(done("cluster", "list-endpoints")[0]["broker"])
    throttled = "leader.replication.throttled"
    done("configs", "alter", "brokers", broker, "--set", f"{throttled}.rate=1000")
    done("configs", "alter", "topics", "held", "--set", f"{throttled}.replicas=0:{broker}")
    plan = tmp_path / "plan.json"
    plan.write_text(f'{{"partitions": [{{"topic": "held", "partition": 0, "replicas": [{broker}]}}]}}')
    verify = ("reassign", "verify", "-f", str(plan))

    def held() -> set[str]:
        rows = done("configs", "describe", "brokers", broker) + done("configs", "describe", "topics", "held")
        return {key for key in values(rows, "key") if key.startswith(throttled)}

    wait_until(lambda: held() == {f"{throttled}.rate", f"{throttled}.replicas"})
    assert values(done(*verify, "--preserve-throttles"), "result") == ["done"]
    assert held()
    assert values(done(*verify), "result") == ["done"]
    wait_until(lambda: not held())
