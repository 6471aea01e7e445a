"""`kafkapy topics`: topics are listed, described, created, changed and deleted."""

from __future__ import annotations

from pathlib import Path

from kafkapy import Broker
from tests.commands.conftest import Run, RunJson


def test_a_topic_is_created_with_units_and_described(kafkapy: Run, kafkapy_json: RunJson) -> None:
    made = kafkapy(
        "topics", "create", "orders", "-p", "6", "-c", "retention.ms=1d", "-c", "segment.bytes=64MiB"
    )
    assert made.exit_code == 0, made.output
    assert made.output.splitlines() == ["TOPIC   RESULT", "orders  created"]
    (topic,) = kafkapy_json("topics", "describe", "orders")
    assert topic["configs"] == {"retention.ms": "86400000", "segment.bytes": "67108864"}
    assert [partition["partition"] for partition in topic["partitions"]] == [0, 1, 2, 3, 4, 5]
    assert all(partition["isr"] == [1] for partition in topic["partitions"])
    text = kafkapy("topics", "describe", "orders").output.splitlines()
    assert text[0].startswith(f"Topic: orders  TopicId: {topic['topic_id']}  PartitionCount: 6  ")
    assert text[0].endswith("Configs: retention.ms=86400000,segment.bytes=67108864")
    assert text[1].split() == [
        "TOPIC",
        "PARTITION",
        "LEADER",
        "REPLICAS",
        "ISR",
        "OFFLINE",
        "LEADER",
        "EPOCH",
    ]
    assert text[2].split() == ["orders", "0", "1", "1", "1", "-", "0"]


def test_yaml_has_the_values_of_json(kafkapy: Run, kafkapy_json: RunJson) -> None:
    import yaml

    kafkapy("topics", "create", "formats")
    text = kafkapy("topics", "list", "--format", "yaml").output
    assert yaml.safe_load(text) == kafkapy_json("topics", "list")


def test_a_dry_run_creates_nothing(kafkapy: Run, kafkapy_json: RunJson) -> None:
    tried = kafkapy("topics", "create", "tried", "--dry-run")
    assert tried.output.splitlines()[1] == "tried  would be created"
    assert "tried" not in [topic["topic"] for topic in kafkapy_json("topics", "list")]


def test_a_topic_that_cannot_be_created_exits_with_1_and_the_brokers_reason(kafkapy: Run) -> None:
    result = kafkapy("topics", "create", "bad", "-c", "retention.ms=never")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafkapy: bad: INVALID_CONFIG: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_topic_that_exists_is_an_error_unless_that_is_meant(kafkapy: Run) -> None:
    kafkapy("topics", "create", "twice")
    again = kafkapy("topics", "create", "twice")
    assert again.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert kafkapy("topics", "create", "twice", "--if-not-exists").exit_code == 0


def test_partitions_are_added_after_a_dry_run(kafkapy: Run, kafkapy_json: RunJson) -> None:
    def partitions() -> int:
        return len(kafkapy_json("topics", "describe", "grows")[0]["partitions"])

    kafkapy("topics", "create", "grows")
    assert "would be altered" in kafkapy("topics", "alter", "grows", "-p", "3", "--dry-run").output
    assert partitions() == 1
    assert kafkapy("topics", "alter", "grows", "-p", "3").exit_code == 0
    assert partitions() == 3


def test_fewer_partitions_are_refused(kafkapy: Run) -> None:
    kafkapy("topics", "create", "shrinks", "-p", "3")
    result = kafkapy("topics", "alter", "shrinks", "-p", "1")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafkapy: shrinks: INVALID_PARTITIONS: ")


def test_nothing_is_deleted_unless_the_user_is_sure(kafkapy: Run, kafkapy_json: RunJson) -> None:
    kafkapy("topics", "create", "precious")
    result = kafkapy("topics", "delete", "precious")
    assert result.exit_code == 1
    assert "add --yes" in result.stderr
    assert "would be deleted" in kafkapy("topics", "delete", "precious", "--dry-run").output
    assert kafkapy_json("topics", "describe", "precious")
    assert kafkapy("topics", "delete", "precious", "--yes").output.splitlines()[1] == "precious  deleted"
    assert "precious" not in [topic["topic"] for topic in kafkapy_json("topics", "list")]


def test_an_unknown_topic_is_named(kafkapy: Run) -> None:
    for arguments in (("describe", "nowhere"), ("delete", "nowhere", "--yes")):
        result = kafkapy("topics", *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "kafkapy: there is no topic nowhere; kafkapy topics list names all\n"
    assert kafkapy("topics", "delete", "nowhere", "--if-exists").exit_code == 0


def test_a_replica_assignment_decides_how_many_partitions_there_are(
    kafkapy: Run, kafkapy_json: RunJson
) -> None:
    assert kafkapy("topics", "create", "placed", "--replica-assignment", "1,1").exit_code == 0
    (topic,) = kafkapy_json("topics", "describe", "placed")
    assert [partition["replicas"] for partition in topic["partitions"]] == [[1], [1]]


def test_only_partitions_with_a_problem_are_shown_when_asked_for(kafkapy: Run) -> None:
    kafkapy("topics", "create", "healthy")
    result = kafkapy("topics", "describe", "healthy", "--under-replicated-partitions")
    assert (result.stdout, result.stderr) == ("", "no partition is like this.\n")


FILE = """
topics:
  applied:
    partitions: 2
    configs: {retention.ms: 7d, cleanup.policy: [compact, delete]}
  plain:
"""


def test_a_file_of_topics_is_applied_after_it_was_shown(
    kafkapy: Run, kafkapy_json: RunJson, tmp_path: Path
) -> None:
    path = tmp_path / "topics.yaml"
    path.write_text(FILE)
    planned = kafkapy_json("topics", "apply", "-f", str(path), "--dry-run")
    assert [(row["topic"], row["change"]) for row in planned] == [("applied", "create"), ("plain", "create")]
    assert "applied" not in [topic["topic"] for topic in kafkapy_json("topics", "list")]

    assert kafkapy("topics", "apply", "-f", str(path)).exit_code == 0
    (topic,) = kafkapy_json("topics", "describe", "applied")
    assert topic["configs"] == {"retention.ms": "604800000", "cleanup.policy": "compact,delete"}
    assert kafkapy("topics", "apply", "-f", str(path)).stderr == "nothing is to be changed.\n"

    path.write_text("topics: {applied: {partitions: 3, configs: {retention.ms: 1d}}}")
    planned = kafkapy_json("topics", "apply", "-f", str(path), "--dry-run")
    assert [(row["change"], row["before"], row["after"]) for row in planned] == [
        ("partitions", 2, 3),
        ("retention.ms", "604800000", "86400000"),
        ("cleanup.policy", "compact,delete", "default"),
    ]
    assert "add --yes" in kafkapy("topics", "apply", "-f", str(path)).stderr
    assert kafkapy("topics", "apply", "-f", str(path), "--yes").exit_code == 0
    (topic,) = kafkapy_json("topics", "describe", "applied")
    assert topic["configs"] == {"retention.ms": "86400000"}
    assert len(topic["partitions"]) == 3


def test_what_a_broker_refuses_in_a_file_changes_nothing(
    kafkapy: Run, kafkapy_json: RunJson, tmp_path: Path
) -> None:
    path = tmp_path / "topics.yaml"
    path.write_text("topics: {good: {}, wrong: {configs: {retention.ms: soon}}}")
    result = kafkapy("topics", "apply", "-f", str(path))
    assert result.exit_code == 1
    assert "topic wrong: INVALID_CONFIG" in result.stderr
    assert "good" not in [topic["topic"] for topic in kafkapy_json("topics", "list")]


def test_a_mistake_in_a_file_is_named(kafkapy: Run, tmp_path: Path) -> None:
    path = tmp_path / "topics.yaml"
    for text, message in (
        ("topics: [", ", line 1: is no YAML"),
        ("orders: {}", "expected `topics:` with topics by name"),
        ("topics: {orders: {partition: 3}}", "orders: unknown field partition"),
        ("topics: {orders: {partitions: many}}", "partitions: expected a whole number above 0"),
    ):
        path.write_text(text)
        result = kafkapy("topics", "apply", "-f", str(path))
        assert result.exit_code == 1
        assert message in result.stderr


def test_fewer_partitions_in_a_file_are_refused(kafkapy: Run, tmp_path: Path) -> None:
    kafkapy("topics", "create", "wide", "-p", "4")
    path = tmp_path / "topics.yaml"
    path.write_text("topics: {wide: {partitions: 2}}")
    result = kafkapy("topics", "apply", "-f", str(path))
    assert result.exit_code == 1
    assert "wide has 4 partitions: Kafka cannot make them fewer" in result.stderr


def test_records_are_deleted_up_to_an_offset(kafkapy: Run, kafkapy_json: RunJson, broker: Broker) -> None:
    kafkapy("topics", "create", "emptied", "--partitions", "1")
    for number in range(5):
        broker.produce("emptied", value=f"{number}")
    (row,) = kafkapy_json("topics", "delete-records", "emptied:0=3", "--dry-run")
    assert (row["before"], row["low_watermark"]) == (0, 3)
    beyond = kafkapy("topics", "delete-records", "emptied:0=7", "--dry-run")
    assert (beyond.exit_code, "OFFSET_OUT_OF_RANGE: the records end at 5" in beyond.stderr) == (1, True)
    assert kafkapy_json("topics", "offsets", "emptied")[0]["earliest"] == 0
    (row,) = kafkapy_json("topics", "delete-records", "emptied:0=-1", "--yes")
    assert row == {"topic": "emptied", "partition": 0, "low_watermark": 5}
    assert "OFFSET_OUT_OF_RANGE" in kafkapy("topics", "delete-records", "emptied:0=7", "--yes").stderr


def test_partitions_with_just_enough_replicas_and_topics_with_settings_are_found(
    kafkapy: Run, kafkapy_json: RunJson
) -> None:
    kafkapy("topics", "create", "plain", "kept", "--partitions", "1")
    kafkapy("configs", "alter", "topics", "kept", "--add-config", "retention.ms=1d")
    (kept,) = kafkapy_json("topics", "describe", "plain", "kept", "--topics-with-overrides")
    assert (kept["topic"], kept["configs"]) == ("kept", {"retention.ms": "86400000"})
    text = kafkapy("topics", "describe", "plain", "kept", "--topics-with-overrides").stdout
    assert len(text.splitlines()) == 1  # no partitions, as kafka-topics.sh shows it
    found = kafkapy_json("topics", "describe", "plain", "kept", "--at-min-isr-partitions")
    assert [row["topic"] for row in found] == ["kept", "plain"]
    kafkapy("configs", "alter", "topics", "kept", "--add-config", "min.insync.replicas=2")
    (plain,) = kafkapy_json("topics", "describe", "plain", "kept", "--at-min-isr-partitions")
    assert plain["topic"] == "plain"
