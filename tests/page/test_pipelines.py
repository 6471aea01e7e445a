"""Pipelines on the page: how they are doing, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy import Broker, Page
from kafkapy.errors import UserError
from kafkapy.pipeline.state import Progress, State
from tests.page.browsing import Browser
from tests.pipeline import spark_checkpoint as spark

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def lake(broker: Broker, name: str, tmp_path: Path) -> Path:
    """A file of pipelines: one has read in part, one has not run, the topic of one is gone."""
    broker.create_topics({name: 2, f"{name}.dlq": 1, f"{name}-new": 1})
    for number in range(7):
        broker.produce(name, value=str(number), partition=number % 2, timestamp=1_000 + number)
    value = {
        "bootstrap": broker.bootstrap_servers,
        "table": "delta:{topic}",
        "pipelines": [
            {"topic": name, "dead_letter": f"{name}.dlq"},
            {"topic": f"{name}-new"},
            {"topic": "gone"},
        ],
    }
    path = tmp_path / "lake.yaml"
    path.write_text(json.dumps(value))
    state = State(tmp_path / name)
    state.begin()
    state.progress = Progress(
        incarnation="1f",
        batch=1,
        finished="2026-01-31T12:00:00+00:00",
        rows=500,
        seconds=0.5,
        total_rows=1200,
        dead_letters=3,
    )
    spark.begin(state, name, {0: 0, 1: 0})
    spark.commit(state, name, 0, {0: 2, 1: 1})
    spark.commit(state, name, 1, {0: 4, 1: 1})
    return path


@pytest.fixture
def piped(broker: Broker, lake: Path) -> Iterator[Browser]:
    with Page(broker.bootstrap_servers, pipelines=[lake], timeout=30) as page:
        yield Browser(page.url)


def test_each_pipeline_has_its_lag_speed_and_dead_letters(piped: Browser, name: str) -> None:
    view = piped.get("/pipelines")
    first, second, gone = view.rows
    assert first[:2] == [name, name]
    assert first[3:7] == ["2", "1,000", "1,200", f"3 dead letters of {name}"]
    assert first[7:] == ["2026-01-31T12:00:00+00:00", "not running"]
    assert second[3:7] == ["0", "-", "0", "-"]
    assert second[8] == "has not run yet"
    assert "there is no topic 'gone'" in gone[1]
    assert "0 of 3 running." in view.text


def test_a_running_pipeline_is_told(piped: Browser, name: str, tmp_path: Path) -> None:
    with State(tmp_path / name).lock():
        assert "running (process " in piped.get("/pipelines?part=1").rows[0][8]


def test_one_pipeline_has_its_offsets_and_what_it_did_lately(
    piped: Browser, broker: Broker, name: str
) -> None:
    headers = [
        ("kafkapy.error", b"is no JSON: " + HOSTILE.encode()),
        ("kafkapy.source", f"{name}-0-1".encode()),
        ("kafkapy.timestamp", b"1760000000123"),
        ("kafkapy.pipeline", name.encode()),
    ]
    broker.produce(f"{name}.dlq", value="x", headers=headers)
    view = piped.get(piped.get("/pipelines").link(name))
    assert [row for row in view.rows if row[0] in ("0", "1")] == [
        ["0", "0", "4", "4", "0"],
        ["1", "0", "1", "3", "2"],
    ]
    assert [row for row in view.rows if "no JSON" in row[0]] == [[f"is no JSON: {HOSTILE}", "1"]]
    assert HOSTILE not in view.text
    assert view.link(f"Messages of {name}.dlq") == f"/topics/{name}.dlq/messages"
    assert "500 rows in 0.5 s, 1,000 a second" in view.text
    assert piped.get(f"/pipeline?file=0&name={name}&part=1").status == 200


def test_a_pipeline_that_does_not_exist_is_named(piped: Browser) -> None:
    for query in ("?file=0&name=nothing", "?file=7&name=x", "", f"?name={HOSTILE}"):
        view = piped.get(f"/pipeline{query}")
        assert view.status == 400
        assert "there is no pipeline" in view.problem
        assert HOSTILE not in view.text


def test_a_file_that_is_no_pipeline_is_refused_at_the_start(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("topic: 7\n")
    with pytest.raises(UserError, match=r"wrong\.yaml"):
        Page(broker.bootstrap_servers, pipelines=[tmp_path / "wrong.yaml"]).start()
    with pytest.raises(UserError, match="nothing"):
        Page(broker.bootstrap_servers, pipelines=[tmp_path / "nothing"]).start()


def test_a_page_without_pipelines_has_no_view_of_them(browser: Browser) -> None:
    assert "Pipelines" not in browser.get("/topics").text
    assert browser.get("/pipelines").status == 404
