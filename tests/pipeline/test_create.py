"""`kafkapy pipeline create`: what it checks, what it writes, what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.commands.cli import pipeline
from kafkapy.pipeline.definition import PipelineDefinition
from tests.pipeline.conftest import MakeTopic


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bootstrap: str) -> Path:
    """The current directory, with the tests' broker in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKAPY_BOOTSTRAP", bootstrap)
    return tmp_path


def create(*arguments: str) -> Result:
    return CliRunner().invoke(pipeline, ["create", *arguments])


def test_the_file_says_what_was_asked_and_how_to_go_on(
    make_topic: MakeTopic, here: Path, bootstrap: str
) -> None:
    topic = make_topic(partitions=2)
    done = create(topic, "--to", "delta:lake/orders")
    assert done.exit_code == 0, done.exception
    assert f"{topic} (2 partitions, cleanup.policy=delete, append) -> delta:{here}/lake/orders" in done.output
    assert f"Next: kafkapy pipeline run {topic}.yaml --once" in done.output
    assert (here / f"{topic}.yaml").read_text() == (
        f"name: {topic}\nbootstrap: {bootstrap}\ntopic: {topic}\n"
        "table: delta:lake/orders\nformat: raw\nstart: earliest\n"
    )
    assert not (here / "lake").exists()


def test_every_option_is_a_key_of_the_file(make_topic: MakeTopic, here: Path, bootstrap: str) -> None:
    topic = make_topic(cleanup_policy="compact")
    (here / "order.ddl").write_text("id INT, shop STRING, name STRING")
    options = {
        "to": "iceberg:lake/orders",
        "checkpoint": "checkpoints",
        "format": "json",
        "schema": "order.ddl",
        "rescued": "_rescued",
        "mode": "upsert",
        "merge-mode": "copy-on-write",
        "partition-by": "day(timestamp)",
        "from": "2025-01-31T12:00:00Z",
        "dead-letter": "orders.dlq",
        "max-dead-letters": "1%",
        "every": "30s",
        "group": "orders-table",
        "name": "orders",
        "bootstrap": bootstrap,
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = create(topic, *arguments, "--key", "id", "--key", "shop", "--widen-types")
    assert done.exit_code == 0, done.exception
    assert "upsert" in done.output
    assert PipelineDefinition.load("orders.yaml") == PipelineDefinition.from_mapping(
        {
            "topic": topic,
            "name": "orders",
            "bootstrap": bootstrap,
            "table": "iceberg:lake/orders",
            "checkpoint": "checkpoints",
            "format": {"kind": "json", "schema": "order.ddl", "rescued": "_rescued"},
            "mode": "upsert",
            "merge_mode": "copy-on-write",
            "key": ["id", "shop"],
            "partition_by": "day(timestamp)",
            "widen_types": True,
            "start": "2025-01-31T12:00:00Z",
            "dead_letter": "orders.dlq",
            "max_dead_letters": "1%",
            "every": "30s",
            "group": "orders-table",
        },
        folder=here,
    )


def test_a_file_elsewhere_means_the_same_table(make_topic: MakeTopic, here: Path) -> None:
    (here / "pipelines").mkdir()
    done = create(make_topic(), "--to", "delta:lake/orders", "--file", "pipelines/my orders.yaml")
    assert done.exit_code == 0, done.exception
    assert PipelineDefinition.load("pipelines/my orders.yaml").table.location == str(here / "lake/orders")
    assert "kafkapy pipeline run 'pipelines/my orders.yaml' --once" in done.output


def test_a_file_that_is_there_is_left_alone(make_topic: MakeTopic, here: Path) -> None:
    (here / "orders.yaml").write_text("mine")
    done = create(make_topic(), "--to", "delta:x", "--name", "orders")
    assert str(done.exception) == "orders.yaml exists already; remove it, or name another with --file"
    assert (here / "orders.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "lake/orders"], "table: 'lake/orders' names no format; write delta:lake/orders"),
        (["--to", "delta:x", "--format", "json", "--schema", "none.json"], "there is no file"),
        (["--to", "delta:x", "--from", "soon"], "start: expected a time"),
        (["--to", "delta:x", "--partition-by", "week(a)"], "partition_by: unknown transform"),
        (["--to", "parquet:x", "--mode", "upsert"], "Parquet files cannot be upserted into"),
        (["--to", "delta:taken"], "the folder is not empty and holds no delta table"),
        (["--to", "delta:x", "--bootstrap", "127.0.0.1:1"], "cannot reach a Kafka broker at 127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    arguments: list[str], message: str, make_topic: MakeTopic, here: Path
) -> None:
    (here / "taken").mkdir()
    (here / "taken/photo.jpg").touch()
    done = create(make_topic(), *arguments)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not list(here.glob("*.yaml"))


def test_a_missing_topic_is_not_created(make_topic: MakeTopic, here: Path) -> None:
    topic = make_topic(name="invoices")
    missing = topic.replace("invoices", "invoice")
    done = create(missing, "--to", "delta:x")
    assert f"there is no topic '{missing}'" in str(done.exception)
    assert f"did you mean '{topic}'?" in str(done.exception)
    assert f"there is no topic '{missing}'" in str(create(missing, "--to", "delta:x").exception)
    assert not list(here.glob("*.yaml"))


def test_a_compacted_topic_does_not_fit_parquet(make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")
    assert "is compacted, and Parquet files cannot be upserted" in str(
        create(topic, "--to", "parquet:x").exception
    )
    assert create(topic, "--to", "parquet:x", "--mode", "append").exit_code == 0


def test_python_takes_the_broker_of_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAPY_BOOTSTRAP", "kafka:9093")
    assert Pipeline("orders").to_delta("orders").definition.bootstrap == "kafka:9093"
    assert Pipeline("orders", bootstrap="other:1").to_delta("orders").definition.bootstrap == "other:1"
    monkeypatch.delenv("KAFKAPY_BOOTSTRAP")
    assert Pipeline("orders").to_delta("orders").definition.bootstrap == "127.0.0.1:9092"
