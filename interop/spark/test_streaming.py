"""How a run takes what ends its query, without a Spark that is started.

It tries again, for some time, or prints one line at once.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
from collections import deque
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.run import streaming
from kafkapy.pipeline.run.batches import WrittenBatch
from kafkapy.pipeline.run.limits import Limits
from kafkapy.pipeline.run.progress import BatchReport, Progress
from kafkapy.pipeline.run.reasons import OTHER, Counts
from kafkapy.pipeline.run.stopping import Stopping
from kafkapy.pipeline.run.streaming import Streaming
from kafkapy.pipeline.state import State
from kafkapy.pipeline.stream_failures import explain
from kafkapy.pipeline.topics import Topics

DEFINITION = Pipeline("orders").to_delta("/lake/orders").definition
AWAY = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"


class NoBatches:
    """Of a run whose queries fail before, or after, they write one."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.written: deque[WrittenBatch] = deque()
        self.last = -1
        self.present: tuple[int, float] | None = None


class Notes(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.batches: list[BatchReport] = []

    def note(self, line: str) -> None:
        self.lines.append(line)

    def batch(self, report: BatchReport) -> None:
        self.batches.append(report)


class Query:
    """It writes a batch at the third look, reports it at the fifth, and ends at the eighth."""

    isActive = False  # noqa: N815
    idle_until = 0
    """Until this look, Spark's last word is that there was nothing to read for this batch."""

    def __init__(self, batches: NoBatches, rows: int = 7) -> None:
        self._batches, self._rows = batches, rows
        self._looks = self.asked = 0
        self._jsq = self  # PySpark's own object, and Spark's

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        self._looks += 1
        if self._looks == 3:
            self._batches.last = 0
            self._batches.written.append(WrittenBatch(0, Counts(self._rows), 0.1))
        return self._looks == 8

    def lastProgress(self) -> Any:  # noqa: N802
        self.asked += 1
        return self if self._looks >= 5 else None

    def json(self) -> str:
        if self._looks < self.idle_until:
            offsets = {key: {"orders": {"0": 0}} for key in ("startOffset", "endOffset", "latestOffset")}
            return json.dumps({"batchId": 0, "numInputRows": 0, "sources": [offsets]})
        offsets = {
            "startOffset": {"orders": {"0": 0}},
            "endOffset": {"orders": {"0": 7}},
            "latestOffset": {"orders": {"0": 9, "1": 3}},
        }
        return json.dumps({"batchId": 0, "numInputRows": self._rows, "sources": [offsets]})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Streaming, Any, Notes, Stopping]:
    stopping, batches, notes = Stopping(threading.Event()), NoBatches(), Notes()
    monkeypatch.setattr(stopping.asked, "wait", lambda seconds: False)
    topics, writer = Topics(DEFINITION.bootstrap), cast("Any", batches)
    limits = Limits(DEFINITION, notes.note)
    made: Any = Streaming(DEFINITION, State(tmp_path), topics, writer, limits, notes, stopping)
    return made, batches, notes, stopping


def test_a_lost_lease_explains_every_other_failure(
    run: tuple[Streaming, Any, Notes, Stopping], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _, _, _ = run

    def lost() -> None:
        raise PipelineError("this driver was silent for more than 60 seconds")

    def begin(write: Any) -> Any:
        raise Py4JError(AWAY)

    monkeypatch.setattr(cast("Any", stream)._state, "check_lock", lost)
    with pytest.raises(PipelineError, match="this driver was silent"):
        stream.run(begin)


def test_what_may_pass_is_tried_again_until_patience_ends(
    run: tuple[Streaming, Any, Notes, Stopping], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _, notes, _ = run
    clock = itertools.count(0, 100)
    monkeypatch.setattr("kafkapy.pipeline.run.streaming.time.monotonic", lambda: float(next(clock)))

    def begin(write: Any) -> Any:
        raise Py4JError(AWAY)

    with pytest.raises(PipelineError, match="does not respond properly"):
        stream.run(begin)
    assert len(notes.lines) == streaming.PATIENCE / 100
    assert all(line.endswith("; trying again") for line in notes.lines)


def test_a_batch_that_was_written_renews_patience(
    run: tuple[Streaming, Any, Notes, Stopping], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, batches, notes, stopping = run
    clock = itertools.count(0, 100)
    monkeypatch.setattr("kafkapy.pipeline.run.streaming.time.monotonic", lambda: float(next(clock)))

    def begin(write: Any) -> Any:
        batches.last += 1
        batches.written.append(WrittenBatch(batches.last, Counts(5, {OTHER: 1}), 0.1))
        if batches.last == 50:
            stopping.asked.set()
        raise Py4JError(AWAY)

    stream.run(begin)
    assert len(notes.lines) == 51
    assert (stream.batches, stream.rows, stream.dead_letters) == (51, 255, 51)


def test_spark_is_asked_for_its_progress_only_after_a_batch(
    run: tuple[Streaming, Any, Notes, Stopping],
) -> None:
    stream, batches, notes, _ = run
    query = Query(batches)
    stream.run(lambda write: query)
    assert query.asked == 3
    assert [(each.batch, each.lag) for each in notes.batches] == [(0, 2 + 3)]


def test_a_batch_of_aborted_records_moves_the_group_too(
    run: tuple[Streaming, Any, Notes, Stopping], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, batches, notes, _ = run
    published: list[Any] = []
    monkeypatch.setattr(stream._group, "publish", published.append)
    stream.run(lambda write: Query(batches, rows=0))
    assert {0: 7} in published
    assert [(each.rows, each.lag) for each in notes.batches] == [(0, 5)]


def test_what_spark_told_before_a_batch_is_not_taken_for_its_end(
    run: tuple[Streaming, Any, Notes, Stopping], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for records, Spark reports the number of the batch that will have them."""
    stream, batches, notes, _ = run
    published: list[Any] = []
    monkeypatch.setattr(stream._group, "publish", published.append)
    query = Query(batches)
    query.idle_until = 7
    stream.run(lambda write: query)
    assert published == [{0: 7}]
    assert [(each.rows, each.lag) for each in notes.batches] == [(7, 5)]


def test_a_limit_ends_the_run_with_its_own_error(run: tuple[Streaming, Any, Notes, Stopping]) -> None:
    """Schedulers tell it from a failure, so it must not become another error on its way."""
    stream, batches, _, _ = run
    limited = dataclasses.replace(DEFINITION, max_batch_time="1m")
    stream._limits = Limits(limited, pytest.fail)
    batches.present = 4, 61.0
    with pytest.raises(LimitError, match="batch 4 has taken more than 1m"):
        stream.run(lambda write: Query(batches))


def test_what_a_batch_refuses_ends_the_run_at_once(run: tuple[Streaming, Any, Notes, Stopping]) -> None:
    stream, batches, notes, _ = run

    def begin(write: Any) -> Any:
        batches.failure = PipelineError("orders: the record orders-0-1 is not valid JSON")
        raise Py4JError("[STREAM_FAILED] a page of traces")

    with pytest.raises(PipelineError, match="the record orders-0-1 is not valid JSON"):
        stream.run(begin)
    assert notes.lines == []


@pytest.mark.parametrize(
    ("error", "told", "passing"),
    [
        (PipelineError("cannot reach a Kafka broker at x:1; start it"), "cannot reach a Kafka broker", True),
        (PipelineError("the schema registry http://x cannot be reached: refused"), "cannot be reached", True),
        (PipelineError("the schema registry http://x answered 401 Unauthorized"), "answered 401", False),
        (
            PipelineError("asking for offsets failed: Broker: Not leader for partition"),
            "Not",
            True,
        ),
        (PipelineError("there is no topic 'orders'"), "there is no topic 'orders'", False),
        (Py4JError("java.io.IOException: No space left on device"), "the disk is full", False),
        (Py4JError("java.lang.OutOfMemoryError: Java heap space"), "spark.driver.memory: 4g", False),
        (Py4JError("[KAFKA_DATA_LOSS.START_OFFSET_RESET] ..."), "reset /lake/orders --to available", True),
        (Py4JError("io.delta.exceptions.ConcurrentAppendException: ..."), "changed the table", True),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's JVM has ended", False),
        (ConnectionRefusedError(111, "Connection refused"), "Spark's JVM has ended", False),
        (
            Py4JError("[NONSENSE] first line\nat java.lang.Thread"),
            "Spark failed: Py4JError: [NONSENSE]",
            False,
        ),
    ],
)
def test_failures_are_one_line_and_may_pass_or_not(error: Exception, told: str, passing: bool) -> None:
    failure = explain(error, DEFINITION)
    assert told in str(failure.error)
    assert "\n" not in str(failure.error)
    assert failure.passing is passing


def test_the_cause_of_an_error_is_looked_at() -> None:
    error = Py4JError("An error occurred while calling o897.parquet")
    error.__context__ = OSError(28, "No space left on device")
    assert "the disk is full" in str(explain(error, DEFINITION).error)
