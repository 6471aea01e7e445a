"""The windows of audits, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.audit.window import Window
from kafkapy.pipeline.commands.audit import audit as command
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State


def test_a_condition_names_the_limits_of_each_partition() -> None:
    assert Window().condition == "true"
    assert Window({0: 5}, {0: 9, 2: 7}).condition == (
        "partition NOT IN (0, 2) OR (partition = 0 AND offset >= 5 AND offset < 9) "
        "OR (partition = 2 AND offset >= 0 AND offset < 7)"
    )


def test_an_upsert_table_has_no_window_before_the_end() -> None:
    Window({0: 5}).check_mode("upsert")
    Window({0: 5}, {0: 9}).check_mode("append")
    with pytest.raises(PipelineError, match="only the last record of each key"):
        Window({}, {0: 9}).check_mode("upsert")


def test_a_window_and_an_incremental_audit_exclude_each_other(tmp_path: Path) -> None:
    definition = Pipeline("orders").to_delta(tmp_path / "table").definition
    with pytest.raises(PipelineError, match="leave out --from and --to"):
        audit(definition, incremental=True, starting="earliest")


@pytest.mark.parametrize("option", [["--from", "earliest"], ["--to", "latest"], ["--incremental"]])
def test_a_repair_has_no_window(option: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(tmp_path), "--repair", *option], standalone_mode=False)
    assert result.return_value == 2
    assert "--repair looks at the whole table" in result.output


def test_audits_are_forgotten_only_if_there_are_some(tmp_path: Path) -> None:
    state = State(tmp_path / "table")
    state.forget_audits()
    assert not (tmp_path / "table").exists()
    state.audited = {"offsets": {"rows": 1}}
    state.forget_audits()
    assert state.audited == {}
