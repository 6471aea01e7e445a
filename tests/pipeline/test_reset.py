"""Reset: where to, and what it says beforehand.

A kill within it loses and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

import kafkapy.pipeline.tables
from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.commands.cli import pipeline
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import created_anew
from kafkapy.pipeline.reset import finish_reset, plan_reset, reset
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics
from tests.pipeline import spark_checkpoint as spark
from tests.pipeline.conftest import MakeTopic, delete_records
from tests.pipeline.no_spark import no_spark


class _Table:
    """Notes what is trimmed; `dies` once in the middle of it."""

    def __init__(self) -> None:
        self.trims: list[Mapping[int, int]] = []
        self.dies = False

    def exists(self) -> bool:
        return True

    def trim(self, positions: Mapping[int, int]) -> None:
        if self.dies:
            self.dies = False
            raise KeyboardInterrupt
        self.trims.append(positions)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> _Table:
    pytest.importorskip("py4j", reason="py4j is not installed (it comes with pyspark)")
    table = _Table()
    monkeypatch.setitem(vars(kafkapy.pipeline.tables), "open_table", lambda *_, **__: table)
    return table


NO_SPARK = no_spark()


@pytest.fixture
def definition(make_topic: MakeTopic, bootstrap: str, tmp_path: Path) -> PipelineDefinition:
    """Offsets 0 to 4 and 0 to 3 in the topic; the pipeline began at 0 and stands at 3 and 1."""
    topic = make_topic(partitions=2, records=7)
    definition = PipelineDefinition.from_mapping(
        {"topic": topic, "name": "orders", "bootstrap": bootstrap, "table": "delta:orders"}, folder=tmp_path
    )
    state = State(definition.table.location)
    state.definition = definition
    spark.begin(state, topic, {0: 0, 1: 0})
    spark.commit(state, topic, 0, {0: 3, 1: 1})
    return definition


@pytest.mark.parametrize(
    ("to", "after", "again", "skipped"),
    [
        ("earliest", {0: 0, 1: 0}, 4, 0),
        ("latest", {0: 4, 1: 3}, 0, 3),
        ("available", {0: 3, 1: 1}, 0, 0),
        ("1004", {0: 2, 1: 2}, 1, 1),
        ("1970-01-01T00:00:01.004Z", {0: 2, 1: 2}, 1, 1),
        ('{"0": 1}', {0: 1, 1: 1}, 2, 0),
        ('{"TOPIC": {"0": 1, "1": 2}}', {0: 1, 1: 2}, 2, 1),
    ],
)
def test_where_it_goes_is_said_beforehand(
    definition: PipelineDefinition, to: str, after: dict[int, int], again: int, skipped: int
) -> None:
    plan = plan_reset(definition, to.replace("TOPIC", definition.topic))
    assert (plan.after, plan.again, plan.skipped) == (after, again, skipped)
    text = "\n".join(plan.lines())
    assert f"partition 0: 3 -> {after[0]} (the topic has 0 to 4)" in text
    assert ("will be read again" in text) == bool(again)
    assert ("will be skipped" in text) == bool(skipped)
    assert "will be deleted from delta:" in text


def test_available_goes_on_at_what_is_left(definition: PipelineDefinition, bootstrap: str) -> None:
    delete_records(bootstrap, definition.topic, {0: 2, 1: 2})
    plan = plan_reset(definition, "available")
    assert (plan.after, plan.skipped) == ({0: 3, 1: 2}, 1)


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("yesterday", "expected earliest, latest, available, a time or offsets like '{\"0\": 12}', not 'yes"),
        ('{"0": 9}', "has the offsets 0 to 4, not 9; name one of these"),
        ('{"2": 0}', "expected offsets by partition (0 to 1)"),
        ('{"0": "1"}', "expected offsets by partition (0 to 1)"),
        ('{"0": 1', "expected offsets by partition (0 to 1)"),
        ('{"0": true}', "expected offsets by partition (0 to 1)"),
    ],
)
def test_a_wrong_place_is_refused(definition: PipelineDefinition, to: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        plan_reset(definition, to)
    assert message in str(caught.value)


def test_a_pipeline_that_has_not_run_has_nothing_to_reset(
    definition: PipelineDefinition, tmp_path: Path
) -> None:
    other = PipelineDefinition.from_mapping(
        {**definition.to_mapping(), "table": f"delta:{tmp_path / 'other'}"}
    )
    with pytest.raises(PipelineError, match="has not run yet: set start: instead"):
        plan_reset(other, "earliest")


def test_an_appended_table_is_trimmed_and_a_new_checkpoint_begins_there(
    definition: PipelineDefinition, table: _Table
) -> None:
    state = State(definition.table.location)
    old, writer = Path(state.checkpoint), state.app_id("orders")
    reset(plan_reset(definition, '{"0": 1}'), spark=NO_SPARK)
    assert table.trims == [{0: 1, 1: 1}]
    assert checkpoint.position(state) == {0: 1, 1: 1}
    assert checkpoint.committed_batch(state) is None
    assert state.app_id("orders") != writer
    assert not old.exists()
    finish_reset(definition, state, NO_SPARK)
    assert len(table.trims) == 1


def test_an_upserted_table_needs_no_trimming_and_no_spark(
    definition: PipelineDefinition, table: _Table
) -> None:
    upserting = PipelineDefinition.from_mapping({**definition.to_mapping(), "mode": "upsert"})
    plan = plan_reset(upserting, "earliest")
    reset(plan)
    assert table.trims == []
    assert "will be deleted" not in "\n".join(plan.lines())
    assert checkpoint.position(State(definition.table.location)) == {0: 0, 1: 0}


def test_a_kill_while_the_table_is_trimmed_is_made_good_by_the_next_run(
    definition: PipelineDefinition, table: _Table
) -> None:
    table.dies = True
    with pytest.raises(KeyboardInterrupt):
        reset(plan_reset(definition, '{"0": 1}'), spark=NO_SPARK)
    state = State(definition.table.location)
    assert checkpoint.position(state) == {0: 1, 1: 1}
    finish_reset(definition, state, NO_SPARK)
    assert table.trims == [{0: 1, 1: 1}]
    finish_reset(definition, state, NO_SPARK)
    assert len(table.trims) == 1


def test_a_reset_after_a_killed_one_trims_to_where_it_goes(
    definition: PipelineDefinition, table: _Table
) -> None:
    table.dies = True
    with pytest.raises(KeyboardInterrupt):
        reset(plan_reset(definition, '{"0": 1}'), spark=NO_SPARK)
    reset(plan_reset(definition, "latest"), spark=NO_SPARK)
    assert table.trims == [{0: 1, 1: 1}, {0: 4, 1: 3}]


def test_a_running_pipeline_is_not_reset(definition: PipelineDefinition, table: _Table) -> None:
    plan = plan_reset(definition, "earliest")
    with State(definition.table.location).lock():
        with pytest.raises(PipelineError, match="running already"):
            reset(plan, spark=NO_SPARK)
        result = CliRunner().invoke(pipeline, ["reset", definition.table.location, "--to", "earliest"])
    assert "orders is running (process" in str(result.exception)
    assert checkpoint.position(State(definition.table.location)) == {0: 3, 1: 1}
    assert table.trims == []


def test_a_recreated_topic_is_not_upserted_into_the_old_ones_table(
    definition: PipelineDefinition,
) -> None:
    upserting = PipelineDefinition.from_mapping({**definition.to_mapping(), "mode": "upsert"})
    spark.commit(State(definition.table.location), definition.topic, 1, {0: 30, 1: 1})
    with pytest.raises(PipelineError, match="was recreated, and the table would treat its records"):
        plan_reset(upserting, "earliest")
    assert plan_reset(definition, "earliest").after == {0: 0, 1: 0}


def test_the_mode_is_that_of_the_table_and_not_of_a_policy_changed_since(
    definition: PipelineDefinition, table: _Table
) -> None:
    """An appended table that is not trimmed would have each record twice."""
    State(definition.table.location).definition = replace(definition, mode="append")
    topic = ConfigResource(
        ResourceType.TOPIC,
        definition.topic,
        incremental_configs=[
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin = AdminClient({"bootstrap.servers": definition.bootstrap})
    admin.incremental_alter_configs([topic])[topic].result(10)
    reset(plan_reset(definition, "earliest"), spark=NO_SPARK)
    assert table.trims == [{0: 0, 1: 0}]


def test_a_recreated_topic_that_has_outgrown_the_position_is_another_one(
    definition: PipelineDefinition, table: _Table
) -> None:
    state = State(definition.table.location)
    state.begin_with("the id of the former topic")
    upserted = replace(definition, mode="upsert")
    with pytest.raises(PipelineError, match="was recreated, and the table would treat its records"):
        plan_reset(upserted, "earliest")
    assert plan_reset(upserted, "available").after == {0: 3, 1: 1}  # a copy with the same offsets

    assert plan_reset(upserted, "available").copied_from == ("the id of the former topic",)
    assert plan_reset(definition, "earliest").copied_from == ()

    topics = Topics(definition.bootstrap)
    assert "was recreated" in str(created_anew(definition, state, topics))
    reset(plan_reset(definition, "earliest"), spark=NO_SPARK)
    assert table.trims == [{0: 0, 1: 0}]
    assert created_anew(definition, state, topics) is None


def test_a_dry_run_and_a_no_change_nothing(definition: PipelineDefinition) -> None:
    arguments = ["reset", definition.table.location, "--to", "earliest"]
    dry = CliRunner().invoke(pipeline, [*arguments, "--dry-run"])
    assert (dry.exit_code, "4 offsets will be read again" in dry.output) == (0, True)
    for answer in ("n\n", ""):
        refused = CliRunner().invoke(pipeline, arguments, input=answer)
        assert "nothing was changed; --yes does it without asking" in str(refused.exception)
    assert checkpoint.position(State(definition.table.location)) == {0: 3, 1: 1}


def test_yes_resets_without_asking(definition: PipelineDefinition) -> None:
    upserting = PipelineDefinition.from_mapping({**definition.to_mapping(), "mode": "upsert"})
    State(definition.table.location).definition = upserting
    done = CliRunner().invoke(pipeline, ["reset", definition.table.location, "--to", "earliest", "--yes"])
    assert done.exit_code == 0, done.exception
    assert f"To continue at these offsets: kafkapy pipeline run {definition.table.location}" in done.output
    assert checkpoint.position(State(definition.table.location)) == {0: 0, 1: 0}
