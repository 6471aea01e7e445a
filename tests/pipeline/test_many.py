"""How many pipelines of a process begin, fail and end, with runs that are not Spark's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.run import many
from kafkapy.pipeline.run.many import Outcome, run_many
from kafkapy.pipeline.run.run import Job, RunResult
from tests.pipeline.no_spark import no_spark

if TYPE_CHECKING:
    from kafkapy.pipeline.topics import Clients

pytest.importorskip("pyspark")

DONE = RunResult(batches=1, rows=1, dead_letters=0, stopped=False)
FOLLOWING = "topics: shop.*\ntable: delta:lake/{topic}\n"
THREE = "table: delta:lake/{topic}\npipelines: [{topic: a}, {topic: b}, {topic: c}]\n"


class Rig:
    """A broker with the topics of the test, and runs that do what the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stop = folder, threading.Event()
        self.topics: list[str] = []
        self.looks = 0
        self.begun: list[str] = []
        self.notes: list[str] = []
        self.does: dict[str, Callable[[], RunResult]] = {}

    def at(self, bootstrap: str, options: object) -> Rig:
        return self

    def names(self) -> list[str]:
        self.looks += 1
        return list(self.topics)

    def run_one(self, job: Job, *_: Any, **how: Any) -> RunResult:
        name = job.definition.name
        self.begun.append(name)
        return self.does.get(name, self.until_stopped)()

    def until_stopped(self) -> RunResult:
        assert self.stop.wait(20)
        return DONE

    def run(self, text: str, **how: Any) -> list[Outcome]:
        file = PipelinesFile.parse(text, source="lake.yaml", folder=self.folder)
        return run_many(
            file,
            spark=no_spark(),
            note=self.notes.append,
            stop=self.stop,
            clients=cast("Clients", self),
            **how,
        )


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = Rig(tmp_path)
    monkeypatch.setattr(many, "run_one", made.run_one)
    monkeypatch.setattr(many, "LOOK", 0.05)
    return made


def broken() -> RunResult:
    raise PipelineError("b: is broken")


def test_a_run_waits_for_its_first_topic_and_begins_each_once(rig: Rig) -> None:
    results: list[Outcome] = []
    thread = threading.Thread(target=lambda: results.extend(rig.run(FOLLOWING)))
    thread.start()
    deadline = time.monotonic() + 20
    for topics in ([], ["shop.a"], ["shop.a", "other"], ["shop.b", "shop.a"]):
        rig.topics, looks = topics, rig.looks
        while rig.looks < looks + 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    rig.stop.set()
    thread.join(20)
    assert rig.begun == ["shop.a", "shop.b"]
    assert [(one.definition.topic, one.result) for one in results] == [("shop.a", DONE), ("shop.b", DONE)]


def test_one_that_fails_ends_alone_and_a_run_in_which_all_failed_ends(rig: Rig) -> None:
    rig.does = {"a": lambda: DONE, "b": broken, "c": lambda: DONE}
    outcomes = {one.definition.name: one for one in rig.run(THREE)}
    assert {name: str(one.error) for name, one in outcomes.items()} == {
        "a": "None",
        "b": "b: is broken",
        "c": "None",
    }
    assert rig.notes == ["b: is broken"]
    rig.topics, rig.does = ["shop.a"], {"shop.a": broken}
    (only,) = rig.run(FOLLOWING)
    assert str(only.error) == "b: is broken"


def test_a_defect_is_raised_when_the_others_have_ended(rig: Rig) -> None:
    def defective() -> RunResult:
        raise ZeroDivisionError("by zero")

    rig.does = {"a": defective, "b": lambda: DONE, "c": lambda: DONE}
    with pytest.raises(ZeroDivisionError):
        rig.run(THREE)
    assert sorted(rig.begun) == ["a", "b", "c"]
    assert rig.notes == ["a: failed: ZeroDivisionError('by zero')"]


def test_new_topics_whose_tables_would_be_one_are_told_once(rig: Rig) -> None:
    text = (
        "pipelines: [{topic: a, table: 'delta:lake/shop.a'}, {topics: shop.*, table: 'delta:lake/{topic}'}]"
    )

    def run() -> RunResult:
        rig.topics, looks = ["shop.a"], rig.looks
        while rig.looks < looks + 4:
            time.sleep(0.01)
        return DONE

    rig.does = {"a": run}
    (only,) = rig.run(text)
    assert only.result == DONE
    (told,) = rig.notes
    assert "table: the pipelines of a and shop.a have the same" in told


def test_a_run_to_the_ends_of_no_topics_is_refused(rig: Rig) -> None:
    with pytest.raises(PipelineError, match="no topic matches a pattern of the file"):
        rig.run(FOLLOWING, once=True)
    with pytest.raises(PipelineError, match="exclude each other"):
        rig.run(FOLLOWING, once=True, every="1s")
