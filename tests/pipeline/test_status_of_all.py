"""One status over many pipelines, once or all the time."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkapy.pipeline import PipelineError, Pipelines
from kafkapy.pipeline.commands import status as command
from kafkapy.pipeline.commands.cli import pipeline
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.state import Progress, State
from tests.pipeline import spark_checkpoint as spark
from tests.pipeline.conftest import MakeTopic
from tests.terminals import in_a_terminal


@pytest.fixture
def topics(make_topic: MakeTopic) -> tuple[str, str]:
    return make_topic(partitions=2, records=7, name="shop"), make_topic(records=4, name="shop")


@pytest.fixture
def file(topics: tuple[str, str], bootstrap: str, tmp_path: Path) -> Path:
    """A file of a topic that is gone, and of two by a pattern: the first is read in part."""
    first, second = topics
    value = {
        "bootstrap": bootstrap,
        "table": "delta:{topic}",
        "pipelines": [{"topic": "gone"}, {"topics": f"{first}|{second}"}],
    }
    path = tmp_path / "lake.yaml"
    path.write_text(json.dumps(value))
    state = State(tmp_path / first)
    state.begin()
    state.progress = Progress(
        incarnation="1f",
        batch=0,
        finished="2025-01-31T12:00:00+00:00",
        rows=500,
        seconds=0.5,
        total_rows=1200,
        dead_letters=3,
    )
    spark.begin(state, first, {0: 0, 1: 0})
    spark.commit(state, first, 0, {0: 4, 1: 1})
    return path


def test_each_pipeline_has_a_line_and_one_without_a_status_says_why(
    file: Path, topics: tuple[str, str], tmp_path: Path
) -> None:
    with State(tmp_path / topics[0]).lock():
        done = CliRunner().invoke(pipeline, ["status", str(file)], standalone_mode=False)
    lines = done.output.splitlines()
    assert lines[0] == "1 of 3 running, lag 6"
    assert lines[2].split()[-3:] == ["last", "batch", "state"]
    assert "there is no topic 'gone'" in lines[3]
    assert lines[4].split()[:6] == [topics[0], "2", "1,000", "1,200", "3", "2025-01-31T12:00:00+00:00"]
    assert "running (process " in lines[4]
    assert lines[5].split() == [topics[1], "4", "has", "not", "run", "yet"]
    assert done.return_value == 1


def test_its_json_has_that_of_each(file: Path, topics: tuple[str, str]) -> None:
    value = json.loads(CliRunner().invoke(pipeline, ["status", "--json", str(file)]).output)
    assert value["lag"] == 6
    gone, first, second = value["pipelines"]
    assert (gone["name"], gone["error"].startswith("there is no topic")) == ("gone", True)
    assert (first["name"], first["lag"], first["rows_written"]) == (topics[0], 2, 1200)
    assert (second["name"], second["lag"], second["batch"]) == (topics[1], 4, None)


def test_a_status_of_all_is_well_if_each_has_one(file: Path) -> None:
    value = json.loads(file.read_text())
    del value["pipelines"][0]
    whole = PipelinesFile.parse(json.dumps(value), source="lake.yaml", folder=file.parent)
    assert Pipelines(whole).status().ok
    assert not Pipelines.load(file).status().ok


class Interrupted:
    """Sleeps that Ctrl-C ends at the third one."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        threading.Event().wait(0.01)
        if len(self.slept) == 3:
            raise KeyboardInterrupt


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    sleeping = Interrupted()
    monkeypatch.setattr(command.time, "sleep", sleeping)  # type: ignore[attr-defined]
    return sleeping


def test_a_program_may_read_it_all_the_time(file: Path, sleeps: Interrupted) -> None:
    done = CliRunner().invoke(pipeline, ["status", "--json", "--watch", "5", str(file)])
    assert (done.exit_code, sleeps.slept) == (0, [5, 5, 5])
    values, rest = [], done.output
    while rest.strip():
        value, end = json.JSONDecoder().raw_decode(rest.lstrip())
        values.append(value["lag"])
        rest = rest.lstrip()[end:]
    assert values == [6, 6, 6]


def test_a_terminal_shows_how_the_lag_changes(
    sleeps: Interrupted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(monkeypatch, columns=100)
    monkeypatch.setenv("LINES", "30")
    lags = iter((600, 500, None))

    class Found:
        def __init__(self, lag: int) -> None:
            self.lag = lag

        def to_text(self) -> str:
            return f"pipelines with a lag of {self.lag}"

    def find() -> Any:
        lag = next(lags)
        if lag is None:
            raise PipelineError("cannot reach a Kafka broker")
        return Found(lag)

    with pytest.raises(KeyboardInterrupt):
        command.draw(find, 2)
    shown = capsys.readouterr().out
    assert "pipelines with a lag of 500" in shown
    assert re.search(r", lag -[\d,]+/s\. Ctrl-C ends\.", shown)
    assert "cannot reach a Kafka broker" in shown
    assert sleeps.slept == [2, 2, 2]
