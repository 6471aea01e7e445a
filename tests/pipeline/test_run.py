"""Errors before Spark starts are one line, and create neither table nor state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click.testing
import pytest

from kafkapy.errors import UserError
from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.commands.run import FAILED, LIMIT
from kafkapy.pipeline.commands.run import run as run_command
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.run import many as many_module
from kafkapy.pipeline.run import run as run_module
from kafkapy.pipeline.run.many import Outcome
from kafkapy.pipeline.run.progress import Progress
from kafkapy.pipeline.run.run import RunResult
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics
from tests.pipeline.conftest import MakeTopic, delete_records
from tests.pipeline.spark_checkpoint import commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkStartedError(Exception):
    pass


class Unusable:
    """A session whose first use is an error."""

    def __getattr__(self, name: str) -> Any:
        raise SparkStartedError


def run(definition: PipelineDefinition, **how: Any) -> RunResult:
    """Run a pipeline until it uses Spark."""
    return run_module.run(definition, spark=cast("SparkSession", Unusable()), **how)


def refusal(definition: PipelineDefinition, **how: Any) -> str:
    with pytest.raises(UserError) as refused:
        run(definition, once=True, **how)
    return str(refused.value)


def test_spark_starts_when_all_is_well(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    definition = Pipeline(make_topic(), bootstrap=bootstrap).to_parquet(tmp_path / "table").definition
    with pytest.raises(SparkStartedError):
        run(definition)
    assert State(definition.table.location).running is None


def test_a_broker_that_does_not_answer(tmp_path: Path) -> None:
    definition = Pipeline("orders", bootstrap="127.0.0.1:1").to_parquet(tmp_path / "table").definition
    assert refusal(definition).startswith("cannot reach a Kafka broker at 127.0.0.1:1 (")
    assert list(tmp_path.iterdir()) == []


def test_a_topic_that_is_not_there(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(name="payments")
    definition = Pipeline(f"{topic}s", bootstrap=bootstrap).to_parquet(tmp_path / "table").definition
    expected = f"there is no topic '{topic}s' at {bootstrap} (did you mean '{topic}'?); "
    assert refusal(definition).startswith(expected)


def test_a_compacted_topic_and_parquet(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(cleanup_policy="compact")
    definition = Pipeline(topic, bootstrap=bootstrap).to_parquet(tmp_path / "table").definition
    assert "Parquet files cannot be upserted into" in refusal(definition)


def test_a_schema_that_cannot_be_read(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    pipeline = Pipeline(make_topic(), bootstrap=bootstrap).to_parquet(tmp_path / "table")
    assert "nowhere.json" in refusal(pipeline.json(tmp_path / "nowhere.json").definition)
    assert "id has an unknown type 'BIGIN'" in refusal(pipeline.json("id BIGIN").definition)


def test_columns_that_the_data_does_not_have(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    pipeline = Pipeline(make_topic(), bootstrap=bootstrap).to_delta(tmp_path / "table")
    told = refusal(pipeline.json("id BIGINT, country STRING").partition_by("county").definition)
    assert (
        "partition_by: the data has no column county (did you mean 'country'?); it has id, country, _topic"
        in told
    )
    told = refusal(pipeline.json("id BIGINT").upsert("idd").definition)
    assert "key: the data has no column idd (did you mean 'id'?); it has id" in told
    nested = "id BIGINT, address STRUCT<city: STRING, place: STRUCT<zip: INT>>"
    told = refusal(pipeline.json(nested).upsert(["id", "address.place.zip"]).definition)
    assert "key: address.place.zip is a field within the column address" in told
    assert told.endswith("make it one: select: ['*', 'address.place.zip AS zip'] and key: zip")
    told = refusal(pipeline.json(nested).upsert("address.street").definition)
    assert "key: the data has no column address.street (did you mean 'address'?); it has" in told
    for divided in (
        pipeline.partition_by("day(timestamp)"),
        pipeline.json("ID BIGINT").partition_by("id"),
        pipeline.json("`a.b` BIGINT").upsert("a.b"),
    ):
        with pytest.raises(SparkStartedError):
            run(divided.definition)


def test_a_folder_that_cannot_be_made(bootstrap: str, make_topic: MakeTopic) -> None:
    definition = Pipeline(make_topic(), bootstrap=bootstrap).to_parquet("/proc/table").definition
    assert refusal(definition).startswith("/proc/table: cannot be written: ")


def test_a_folder_of_other_things(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    definition = Pipeline(make_topic(), bootstrap=bootstrap).to_parquet(tmp_path).definition
    assert "the folder is not empty" in refusal(definition)


def test_positions_that_have_expired(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(records=10)
    definition = Pipeline(topic, bootstrap=bootstrap).to_parquet(tmp_path / "table").definition
    state = State(definition.table.location)
    state.begin()
    commit(state, topic, 0, {0: 4})
    delete_records(bootstrap, topic, {0: 6})
    assert "deleted records before they were read: partition 0 4 to 5 (2 offsets)" in refusal(definition)
    assert state.running is None


def test_a_topic_created_anew_that_has_outgrown_the_position(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Its first records would never be read, and the audit would find all offsets in the table."""
    topic = make_topic(records=10)
    definition = Pipeline(topic, bootstrap=bootstrap).to_parquet(tmp_path / "table").definition
    state = State(definition.table.location)
    state.begin_with("the id of the former topic")
    commit(state, topic, 0, {0: 4})
    told = f"{topic}: the topic {topic} was recreated since the table was written; write to another table"
    assert refusal(definition).startswith(told)
    state.begin_anew({0: 4}, trim=False, topic_id=Topics(bootstrap).topic_id(topic))
    with pytest.raises(SparkStartedError):
        run(definition)


def test_a_table_that_another_driver_writes(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    definition = Pipeline(make_topic(), bootstrap=bootstrap).to_parquet(tmp_path / "table").definition
    with State(definition.table.location).lock():
        assert "its pipeline is running already (process " in refusal(definition)


def test_a_table_that_was_written_otherwise(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    pipeline = Pipeline(make_topic(), bootstrap=bootstrap).json("id BIGINT").to_delta(tmp_path / "table")
    state = State(tmp_path / "table")
    state.definition = pipeline.append().definition
    assert "was written with mode append, not upsert; set mode: append" in refusal(
        pipeline.upsert().definition
    )
    state.definition = pipeline.upsert("id").definition
    assert "has one row for each id, not the record key; keep key" in refusal(pipeline.upsert().definition)
    state.definition = replace(pipeline.append().definition, topic="other")
    assert "this table holds the topic other, not " in refusal(pipeline.append().definition)


def test_the_dead_letter_topic_is_made(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap).json("id BIGINT").to_delta(tmp_path / "table")
    with pytest.raises(SparkStartedError):
        run(pipeline.dead_letter(f"{topic}.dlq").definition)
    assert Topics(bootstrap).exists(f"{topic}.dlq")


def test_times_that_make_no_sense(tmp_path: Path) -> None:
    definition = Pipeline("orders").to_parquet(tmp_path / "table").definition
    with pytest.raises(PipelineError, match="exclude each other"):
        run(definition, once=True, every="1s")
    with pytest.raises(PipelineError, match=r"^--every: expected a time like 30s"):
        run(definition, every="3")


def test_the_command_hands_its_options_on_and_tells_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("topic: orders\ntable: delta:table\nmax_offsets_per_trigger: 10\n")
    calls: list[tuple[PipelineDefinition, dict[str, Any]]] = []

    def running(definition: PipelineDefinition, **how: Any) -> RunResult:
        calls.append((definition, how))
        return RunResult(batches=2, rows=1_234, dead_letters=5, stopped="every" in how and bool(how["every"]))

    monkeypatch.setattr(run_module, "run", running)
    runner = click.testing.CliRunner()
    told = runner.invoke(run_command, [str(file), "--once", "--master", "local[3]"])
    assert told.exit_code == 0
    assert told.output.startswith("orders: 1,234 rows in 2 batches, 5 dead letters, ")
    assert told.output.endswith(f" s; delta:{tmp_path}/table\n")
    told = runner.invoke(run_command, [str(file), "--every", "30s", "--max-rows-per-batch", "7", "--quiet"])
    assert (told.exit_code, told.output) == (0, "")
    (first, how), (second, other) = calls
    assert (first.master, first.max_offsets_per_trigger, how["once"], how["every"]) == (
        "local[3]",
        10,
        True,
        None,
    )
    assert (second.master, second.max_offsets_per_trigger, other["once"], other["every"]) == (
        None,
        7,
        False,
        "30s",
    )
    assert type(other["progress"]) is Progress
    assert runner.invoke(run_command, [str(file), "--once", "--every", "1s"]).exit_code == 2


LAKE = "table: delta:{topic}\npipelines: [{topic: orders}, {topic: paid, max_lag: 7}, {topic: third}]\n"


def outcomes(file: PipelinesFile, **errors: UserError) -> list[Outcome]:
    done = RunResult(batches=1, rows=2, dead_letters=0, stopped=False)
    return [Outcome(one, None if one.name in errors else done, errors.get(one.name)) for one in file.named]


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ({}, 0),
        ({"paid": LimitError("paid: too far behind")}, LIMIT),
        ({"paid": LimitError("paid: too far behind"), "third": PipelineError("third: is broken")}, FAILED),
    ],
)
def test_the_command_runs_all_pipelines_of_a_file_and_its_status_says_what_failed(
    errors: dict[str, UserError], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(LAKE)
    calls: list[tuple[PipelinesFile, dict[str, Any]]] = []

    def running(given: PipelinesFile, **how: Any) -> list[Outcome]:
        calls.append((given, how))
        how["note"]("orders: batch 0: 2 rows")
        return outcomes(given, **errors)

    monkeypatch.setattr(many_module, "run_many", running)
    words = [str(file), "--every", "5s", "--master", "local[3]", "--metrics", "0.0.0.0:9404"]
    told = click.testing.CliRunner().invoke(run_command, words, standalone_mode=False)
    assert told.return_value == status
    ((given, how),) = calls
    assert {one.master for one in given.named} == {"local[3]"}
    assert (how["once"], how["every"], how["metrics"]) == (False, "5s", "0.0.0.0:9404")
    assert "orders: 2 rows in 1 batches, 0 dead letters, " in told.stdout
    expected = [f"kafkapy: {error}" for error in errors.values()]
    if errors:
        expected.append(f"kafkapy: {len(errors)} of 3 pipelines failed")
    assert told.stderr.splitlines() == ["orders: batch 0: 2 rows", *expected]


def test_a_limit_has_an_exit_status_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("topic: orders\ntable: delta:table\nmax_lag: 10\n")

    def running(definition: PipelineDefinition, **how: Any) -> RunResult:
        raise LimitError("orders: the lag of 11 offsets is over 10 (max_lag)")

    monkeypatch.setattr(run_module, "run", running)
    told = click.testing.CliRunner().invoke(run_command, [str(file)], standalone_mode=False)
    assert isinstance(told.exception, LimitError)
    assert told.exception.exit_status == LIMIT
