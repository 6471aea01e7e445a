"""Status without Spark: lag, speed, dead letters, and what has expired."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkapy.pipeline.commands.cli import pipeline
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline import Pipeline
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import expired
from kafkapy.pipeline.state import Progress, State
from kafkapy.pipeline.status import status_of
from kafkapy.pipeline.topics import Topics
from tests.pipeline import spark_checkpoint as spark
from tests.pipeline.conftest import MakeTopic, delete_records


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """Four records in partition 0, three in partitions 1 and 2.

    Record i has the time 1000 + i ms.
    """
    return make_topic(partitions=3, records=10)


@pytest.fixture
def definition(topic: str, bootstrap: str, tmp_path: Path) -> PipelineDefinition:
    return define(topic, bootstrap, tmp_path)


def define(topic: str, bootstrap: str, folder: Path, **values: Any) -> PipelineDefinition:
    given = {"topic": topic, "bootstrap": bootstrap, "table": "delta:orders", **values}
    return PipelineDefinition.from_mapping(given, folder=folder)


def state_of(definition: PipelineDefinition) -> State:
    return State(definition.table.location)


def test_lag_is_what_lies_between_the_last_batch_and_the_end(definition: PipelineDefinition) -> None:
    spark.begin(state_of(definition), definition.topic, {0: 0, 1: 0, 2: 0})
    spark.commit(state_of(definition), definition.topic, 0, {0: 4, 1: 1, 2: 0})
    spark.plan(state_of(definition), definition.topic, 1, {0: 4, 1: 3, 2: 3})
    found = status_of(definition)
    assert [(one.partition, one.position, one.end, one.lag) for one in found.partitions] == [
        (0, 4, 4, 0),
        (1, 1, 3, 2),
        (2, 0, 3, 3),
    ]
    assert (found.lag, found.batch, found.process) == (5, 0, None)


@pytest.mark.parametrize(("start", "lag"), [("earliest", 10), ("latest", 0), ("1007", 3)])
def test_before_the_first_run_lag_is_what_it_will_read(
    start: str, lag: int, topic: str, bootstrap: str, tmp_path: Path
) -> None:
    found = status_of(define(topic, bootstrap, tmp_path, start=start))
    assert (found.lag, found.batch) == (lag, None)
    assert not (tmp_path / "orders").exists()


def test_a_partition_that_was_added_lags_from_its_start(definition: PipelineDefinition) -> None:
    spark.commit(state_of(definition), definition.topic, 0, {0: 4, 1: 3})
    assert status_of(definition).lag == 3


def test_a_running_pipeline_is_seen(definition: PipelineDefinition, tmp_path: Path) -> None:
    state_of(definition).progress = Progress(
        incarnation="1f",
        batch=7,
        finished="2025-01-31T12:00:00+00:00",
        rows=500,
        seconds=0.5,
        total_rows=1200,
        dead_letters=3,
        left_out=17,
    )
    for batch in (6, 7):
        spark.commit(state_of(definition), definition.topic, batch, {0: 4, 1: 3, 2: 0})
    state_of(definition).definition = definition
    with state_of(definition).lock():
        text = CliRunner().invoke(pipeline, ["status", str(tmp_path / "orders")]).output
        value = json.loads(
            CliRunner().invoke(pipeline, ["status", "--json", str(tmp_path / "orders")]).output
        )
    for shown in ("running (process ", "500 rows in 0.5 s (1,000 rows/s)", "1,200", "dead letters", "17"):
        assert shown in text
    assert value["running"]
    assert value["left_out"] == 17
    assert value["last_batch"]["rows_per_second"] == 1000
    assert (value["rows_written"], value["dead_letters"], value["lag"], value["batch"]) == (1200, 3, 3, 7)
    assert value["partitions"][2] == {
        "partition": 2,
        "start": 0,
        "position": 0,
        "end": 3,
        "lag": 3,
        "expired": 0,
    }


def test_a_pipeline_in_python_has_a_status(topic: str, bootstrap: str, tmp_path: Path) -> None:
    assert Pipeline(topic, bootstrap=bootstrap).to_delta(tmp_path / "orders").status().lag == 10


def test_expired_positions_are_named_with_what_was_lost(
    definition: PipelineDefinition, topics: Topics, bootstrap: str
) -> None:
    state = state_of(definition)
    assert expired(definition, state, topics) is None
    spark.commit(state, definition.topic, 0, {0: 1, 1: 1, 2: 0})
    assert expired(definition, state, topics) is None
    delete_records(bootstrap, definition.topic, {0: 3, 1: 1, 2: 1})
    problem = expired(definition, state, topics)
    assert isinstance(problem, PipelineError)
    assert "partition 0 1 to 2, partition 2 0 to 0 (3 offsets)" in str(problem)
    assert f"kafkapy pipeline reset {definition.table.location} --to available" in str(problem)
    found = status_of(definition)
    assert (found.lag, found.expired) == (5, 3)


def test_a_topic_that_was_created_anew_is_not_taken_for_the_old_one(
    definition: PipelineDefinition, topics: Topics
) -> None:
    spark.commit(state_of(definition), definition.topic, 0, {0: 4, 1: 3, 2: 30})
    problem = expired(definition, state_of(definition), topics)
    assert "ends before the position of the pipeline (partition 2 at 30 of 3)" in str(problem)


def test_the_remedy_for_a_topic_created_anew_is_one_that_the_table_allows(
    definition: PipelineDefinition, topics: Topics
) -> None:
    state = state_of(definition)
    spark.commit(state, definition.topic, 0, {0: 4, 1: 3, 2: 30})
    for mode, remedy in (
        ("append", "or replace these rows by its records: kafkapy pipeline reset "),
        ("upsert", "write to another table, or delete this one"),
    ):
        state.definition = replace(definition, mode=mode)
        beyond = str(expired(definition, state, topics))
        assert remedy in beyond
        assert ("--to earliest" in beyond) == (mode == "append")
    state.begin_with("the id of the former topic")
    anew = str(expired(definition, state, topics))
    assert (
        "write to another table, or delete this one; if it was copied with its offsets, continue with" in anew
    )
    assert "--to earliest" not in anew


def test_a_topic_created_anew_with_fewer_partitions_is_noticed(
    make_topic: MakeTopic, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    definition = define(make_topic(partitions=1), bootstrap, tmp_path)
    spark.commit(state_of(definition), definition.topic, 0, {0: 0, 1: 5})
    problem = expired(definition, state_of(definition), topics)
    assert "(partition 1 at 5 of 0)" in str(problem)
