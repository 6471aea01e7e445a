"""`kafkapy pipeline maintain`, as far as it goes without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy.pipeline.commands.maintain import maintain
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")
    path = tmp_path / "orders.yaml"
    path.write_text("topic: orders\ntable: delta:lake/orders\n")
    return str(path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(maintain, arguments)
    assert isinstance(result.exception, PipelineError)
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_a_wrong_time_is_named(pipeline: str) -> None:
    assert run(pipeline, "--retain", "a week") == "--retain: expected a time like 30s, 5m or 1h, not 'a week'"


def test_a_pipeline_that_has_not_run_has_no_table(pipeline: str) -> None:
    assert "orders has no table yet" in run(pipeline)


def test_a_running_pipeline_must_be_stopped_first(pipeline: str, tmp_path: Path) -> None:
    state = State(tmp_path / "lake" / "orders")
    state.begin()
    with state.lock():
        assert "its pipeline is running already" in run(pipeline)
