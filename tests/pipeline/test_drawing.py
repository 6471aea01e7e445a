"""Pictures of a pipeline, and texts of others in them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.audit.report import AuditReport, Bounds, Example, Finding
from kafkapy.pipeline.commands.cli import pipeline as command
from kafkapy.pipeline.dead_letters.dead_letters import ERROR, PIPELINE, SOURCE
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.drawing import Part, bars, line_chart, page, paragraph, short, table
from kafkapy.pipeline.state import State
from kafkapy.pipeline.status import status_of
from tests.pipeline.conftest import MakeTopic

HOSTILE = "</svg><script>alert('x')</script>\"'&<b onmouseover=alert(1)>"
TAGS = {
    *("body", "div", "h2", "h3", "head", "html", "meta", "p", "span", "style", "table", "td", "th", "title"),
    *("tr", "svg", "path", "polyline", "rect", "text"),
}
VOID = {"meta", "path", "polyline"}
FETCHING = re.compile(r"https?:|url\(|@import|src=|href=", re.IGNORECASE)


class _Strict(HTMLParser):
    """Fails at unknown elements, at attributes that run code, and at a wrong nesting."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.texts: list[str] = []
        self.feed(content)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID, tag

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(content: str) -> str:
    """The text of a page, which must be whole, without scripts and without anything to fetch."""
    shown = "".join(_Strict(content).texts)
    assert not FETCHING.search(content)
    return shown


def test_texts_of_others_stay_texts() -> None:
    pieces = [
        paragraph(HOSTILE),
        table((HOSTILE,), [(HOSTILE, 1234567)]),
        bars(HOSTILE, [(HOSTILE, [Part(2, "bad", HOSTILE), Part(0, "good", HOSTILE)])]),
        line_chart(HOSTILE, [(0.0, 1.0), (10.0, 3.0)]),
    ]
    shown = read(page(HOSTILE, pieces))
    assert shown.count(HOSTILE) == 10
    assert "1,234,567" in shown


def test_a_line_goes_from_the_first_to_the_last_moment() -> None:
    drawn = line_chart("lag", [(1_000.0, 0.0), (2_000.0, 5.0), (3_000.0, 10.0)])
    assert 'points="0.0,116.0 280.0,60.0 560.0,4.0"' in drawn
    assert "00:00:01 UTC" in drawn
    assert "too few batches yet" in line_chart("lag", [(1_000.0, 0.0)])
    read(line_chart("lag", [(1.0, 0.0), (1.0, 0.0)]))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (12_345, "12.3k"), (5e6, "5M"), (10**18, "1e+06T")]
)
def test_large_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_an_audit_draws_itself() -> None:
    report = AuditReport(
        pipeline="orders",
        table="delta:lake/orders",
        topic="orders",
        mode="upsert",
        batch=3,
        bounds=(Bounds(partition=0, start=0, committed=80, planned=80, log_start=10, end=100),),
        notes={"matching": 70, "dead_letters": 0},
        findings=(Finding("stale", 1, (Example(0, 5, 5, "orders", key=HOSTILE, expected=9),)),),
    )
    shown = read(report._repr_html_())
    assert "Not clean: 1 stale." in shown
    assert "70 compared, 20 not read yet" in shown
    assert "orders-0: 5 key " + HOSTILE in shown


def written(state: State, name: str, lines: list[object]) -> None:
    text = "\n".join(["v1", *(json.dumps(line) for line in lines)])
    state.store.replace(f"{State.FOLDER}/checkpoint/{state.begin().id}/{name}", text.encode())


def test_a_status_draws_itself_and_is_written_as_a_page(
    make_topic: MakeTopic, bootstrap: str, tmp_path: Path
) -> None:
    topic = make_topic(records=30)
    letters = make_topic()
    definition = PipelineDefinition.from_mapping(
        {"topic": topic, "table": "delta:t", "bootstrap": bootstrap, "dead_letter": letters}, folder=tmp_path
    )
    state = State.of(definition)
    state.begin()
    state.definition = definition
    written(state, "sources/0/0", [{topic: {"0": 0}}])
    written(state, "metadata", [])
    for batch, end in enumerate((5, 10, 20)):
        settings = {"batchWatermarkMs": 0, "batchTimestampMs": 4_000_000_000_000 + 1_000 * batch}
        written(state, f"offsets/{batch}", [settings, {topic: {"0": end}}])
        written(state, f"commits/{batch}", [{"nextBatchWatermarkMs": 0}])
    state.store.replace(f"{State.FOLDER}/checkpoint/{state.begin().id}/metadata", b'{"id": "x"}')
    producer = Producer({"bootstrap.servers": bootstrap})
    for offset in range(3):
        headers = {SOURCE: f"{topic}-0-{offset}", PIPELINE: definition.name, ERROR: f"is wrong: {HOSTILE}"}
        producer.produce(letters, b"value", headers=[(name, text.encode()) for name, text in headers.items()])
    producer.flush()
    status = status_of(definition, with_recent=True)
    assert status.recent is not None
    assert [value for _, value in status.recent.lag] == [25, 20]
    assert [value for _, value in status.recent.speed] == [5, 10]
    assert status.recent.reasons == ((f"is wrong: {HOSTILE}", 3),)
    shown = read(Pipeline.of(definition).status()._repr_html_())
    assert "20 read, 10 to read" in shown
    result = CliRunner().invoke(
        command, ["report", str(tmp_path / "t"), "--html", str(tmp_path / "page.html")]
    )
    assert result.exit_code == 0, result.output
    page_text = (tmp_path / "page.html").read_text()
    assert f"is wrong: {HOSTILE}" in read(page_text)
    assert "prefers-color-scheme:dark" in page_text
