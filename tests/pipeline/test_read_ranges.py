"""What a pipeline has read, over resets.

There is no Spark, but the checkpoints that it would leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import kafkapy.pipeline.tables
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.read_ranges import Ranges, below, gaps, read_so_far, with_present
from kafkapy.pipeline.reset import ResetPlan, reset
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget
from tests.pipeline import spark_checkpoint as spark
from tests.pipeline.no_spark import no_spark

Offsets = Mapping[int, int]
NO_SPARK = no_spark()

ResetTo = Callable[..., None]


@pytest.fixture
def definition(tmp_path: Path) -> PipelineDefinition:
    return PipelineDefinition(
        topic="orders", table=TableTarget(format="delta", location=str(tmp_path / "table"))
    )


@pytest.fixture
def state(definition: PipelineDefinition) -> State:
    return State(definition.table.location)


@pytest.fixture
def reset_to(definition: PipelineDefinition, monkeypatch: pytest.MonkeyPatch) -> ResetTo:
    pytest.importorskip("py4j", reason="py4j is not installed (it comes with pyspark)")
    monkeypatch.setitem(vars(kafkapy.pipeline.tables), "open_table", MagicMock())
    plan = ResetPlan(definition=definition, mode="append", before=[], after={})

    def carry_out(after: Offsets, **further: Any) -> None:
        reset(replace(plan, after=after, **further), spark=NO_SPARK)

    return carry_out


def read(state: State, start: Offsets, *ends: Offsets) -> Ranges:
    spark.begin(state, "orders", start)
    for batch, end in enumerate(ends):
        spark.commit(state, "orders", batch, end)
    return read_so_far(state, from_earliest=True)


def test_a_first_incarnation_has_read_from_its_start_to_its_last_batch(state: State) -> None:
    assert read_so_far(state, from_earliest=True) == {}
    assert read(state, {0: 5, 1: 0}) == {}
    assert read(state, {0: 5, 1: 0}, {0: 7, 1: 0}, {0: 9, 1: 0, 2: 4}) == {0: ((5, 9),), 2: ((0, 4),)}


def test_a_reset_that_moves_nothing_forgets_nothing(state: State, reset_to: ResetTo) -> None:
    read(state, {0: 0}, {0: 20})
    for _ in range(2):
        reset_to({0: 20})
        assert read_so_far(state, from_earliest=True) == {0: ((0, 20),)}
    assert read(state, {0: 20}, {0: 25}) == {0: ((0, 25),)}


def test_what_a_reset_skips_was_not_read(state: State, reset_to: ResetTo) -> None:
    read(state, {0: 2}, {0: 10})
    reset_to({0: 15})
    ranges = read(state, {0: 15}, {0: 18})
    assert ranges == {0: ((2, 10), (15, 18))}
    assert gaps(ranges[0], 18) == ((10, 15),)


def test_rows_that_a_reset_deletes_are_to_be_read_again(state: State, reset_to: ResetTo) -> None:
    read(state, {0: 0, 1: 0}, {0: 10, 1: 10})
    reset_to({0: 4, 1: 12})
    reset_to({0: 6, 1: 3})
    assert read_so_far(state, from_earliest=True) == {0: ((0, 4),), 1: ((0, 3),)}
    assert read(state, {0: 6, 1: 3}, {0: 8, 1: 4}) == {0: ((0, 4), (6, 8)), 1: ((0, 4),)}


def test_upserts_are_not_undone_by_going_back(state: State, reset_to: ResetTo) -> None:
    read(state, {0: 0}, {0: 10})
    reset_to({0: 4}, mode="upsert")
    assert read_so_far(state, from_earliest=True) == {0: ((0, 10),)}


def test_of_another_topic_of_that_name_nothing_was_read(state: State, reset_to: ResetTo) -> None:
    read(state, {0: 0}, {0: 10})
    reset_to({0: 4}, other=True)
    assert read_so_far(state, from_earliest=True) == {}


def test_a_state_of_before_ranges_were_kept_begins_at_its_last_reset(state: State, reset_to: ResetTo) -> None:
    read(state, {0: 0}, {0: 10})
    reset_to({0: 10})
    written = state.read_json("incarnation.json")
    del written["read"]
    state.write_json("incarnation.json", written)
    assert read(state, {0: 10}, {0: 12}) == {0: ((10, 12),)}


def test_ranges_that_touch_are_one_and_empty_ones_none() -> None:
    assert with_present({0: ((0, 3), (5, 8))}, {0: 3}, {0: 5}) == {0: ((0, 8),)}
    assert with_present({0: ((0, 3),)}, {0: 7}, {0: 7, 1: 0}) == {0: ((0, 3),), 1: ()}
    assert below({0: ((0, 3), (5, 8)), 1: ((0, 3),)}, {0: 5}) == {0: ((0, 3),)}
    assert gaps(((0, 3), (5, 8)), 8) == ((3, 5),)
    assert gaps(((0, 3), (5, 8)), 4) == ((3, 4),)
    assert gaps(((0, 3),), 6) == ((3, 6),)
    assert gaps((), 6) == ()
