"""A repair deletes what is not of the topic, so it must be sure what the table is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.audit.repair import RepairPlan, repair


def never(plan: RepairPlan) -> bool:
    raise AssertionError(f"asked to carry out {plan}")


def test_a_table_that_was_written_otherwise_is_not_repaired(tmp_path: Path) -> None:
    definition = Pipeline("orders").json("id BIGINT").upsert("id").to_delta(tmp_path / "table").definition
    state = State(tmp_path / "table")
    for former, told in (
        (replace(definition, topic="other"), "holds the topic other, not orders"),
        (replace(definition, mode="append", key=()), "was written with mode append, not upsert"),
        (replace(definition, key=("shop",)), "has one row for each shop, not id"),
    ):
        state.definition = former
        with pytest.raises(PipelineError, match=told):
            repair(definition, agree=never)
