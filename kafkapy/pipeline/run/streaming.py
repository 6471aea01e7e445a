"""Starts, watches, restarts and stops the streaming query of a pipeline.

Spark's consumers and its admin client retry for a minute (`default.api.timeout.ms`), so a shorter absence of
the broker does no harm. But a local master runs each task only once, and any error of the source or of a
batch ends the query. If the error may pass, the query is started again from its checkpoint in the same
session, and the interrupted batch is run again. The run gives up when no batch was written for `PATIENCE`
seconds.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkapy.errors import UserError
from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError, PipelineError
from kafkapy.pipeline.positions import positions
from kafkapy.pipeline.run.batches import Batches
from kafkapy.pipeline.run.group_offsets import GroupOffsets
from kafkapy.pipeline.run.limits import Limits
from kafkapy.pipeline.run.progress import BatchReport, Progress
from kafkapy.pipeline.run.stopping import Stopping
from kafkapy.pipeline.state import State
from kafkapy.pipeline.stream_failures import Failure, explain
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

Begin = Callable[[Callable[["DataFrame", int], None]], "StreamingQuery"]

PATIENCE: Final = 300.0  # seconds
_GRACE: Final = 25.0  # seconds for the last batch; many schedulers send SIGKILL thirty seconds after SIGTERM
_LOOK: Final = 0.2
LAG_EVERY: Final = 10.0  # seconds; each time asks the broker for the offsets of the topic


class Streaming:
    """Runs batches until everything is read or the run is stopped, and counts what was written."""

    def __init__(
        self,
        definition: PipelineDefinition,
        state: State,
        topics: Topics,
        batches: Batches,
        limits: Limits,
        progress: Progress,
        stopping: Stopping,
    ) -> None:
        self._definition, self._state, self._topics = definition, state, topics
        self._batches, self._limits = batches, limits
        self._progress, self._stopping = progress, stopping
        self._told = -1
        self._lag = 0
        self._group = GroupOffsets(definition, topics, progress.note)
        self._watches_lag = progress.watches_lag or definition.max_lag is not None
        self._lag_due = 0.0
        self.batches = self.rows = self.dead_letters = self.left_out = 0

    def run(self, begin: Begin) -> None:
        """Runs the query until everything is read or the run is stopped.

        Raises PipelineError. `begin` checks the topic and starts the query with the function for its batches.
        It is called for each start.
        """
        self._publish()
        failing_since: float | None = None
        pause = 1.0
        while not self._stopping.asked.is_set():
            before = self.batches
            failure = self._one_query(begin)
            if failure is None:
                self._publish()
                return
            if self.batches > before:
                failing_since, pause = None, 1.0
            if failing_since is None:
                failing_since = time.monotonic()
            if not failure.passing or time.monotonic() - failing_since > PATIENCE:
                raise failure.error
            self._progress.note(f"{failure.error}; trying again")
            self._stopping.asked.wait(pause)
            pause = min(2 * pause, 15.0)

    def _one_query(self, begin: Begin) -> Failure | None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        self._batches.failure = None
        try:
            query = begin(self._batches)
            try:
                while not self._stopping.asked.is_set():
                    ended = query.awaitTermination(_LOOK)
                    self._look(query)
                    self._watch()
                    if ended:
                        break
            finally:
                self._stop(query)
            self._look(query)
        except LimitError:
            raise
        except (UserError, PySparkException, Py4JError, OSError) as error:
            return self._successor() or explain(self._batches.failure or error, self._definition)
        finally:
            self._tell(last=self._batches.last)
        return None

    def _successor(self) -> Failure | None:
        """Why another driver may have taken over, which then explains every other failure."""
        from py4j.protocol import Py4JError

        try:
            self._state.check_lock()
        except PipelineError as error:
            return Failure(error)
        except (Py4JError, OSError):  # the JVM has ended, or the store does not answer
            pass
        return None

    def _stop(self, query: StreamingQuery) -> None:
        if not query.isActive:
            return
        deadline = time.monotonic() + _GRACE
        while not self._batches.close(_LOOK):
            if self._stopping.abandon.is_set() or time.monotonic() >= deadline:
                break
        else:
            self._await_commit(query)
        # Spark's stop has no time limit, and a batch may be in a call that cannot be interrupted.
        stopper = threading.Thread(target=query.stop, name="stop-query", daemon=True)
        stopper.start()
        stopper.join(_GRACE)

    def _await_commit(self, query: StreamingQuery) -> None:
        """Waits until Spark has committed the last batch, a moment after it was written.

        Otherwise Spark would run it again at the next start.
        """
        deadline = time.monotonic() + 5
        while query.isActive and time.monotonic() < deadline:
            committed = checkpoint.committed_batch(self._state)
            if self._batches.last <= (-1 if committed is None else committed):
                return
            time.sleep(0.02)

    def _look(self, query: StreamingQuery) -> None:
        """Updates the offsets from the progress that Spark reports after each batch."""
        self._group.renew()
        if self._batches.last == self._told:
            return  # Spark has reported every batch.
        # `query.lastProgress` makes an object of each field, with a hundred calls of Java.
        told = query._jsq.lastProgress()
        if told is None:
            return
        report = json.loads(told.json())
        (source,) = report["sources"]
        # While there is nothing to read, Spark reports the number of the next batch. A batch that has only
        # aborted records has no rows either, but it moves the position.
        idle = report["numInputRows"] == 0 and source.get("startOffset") == source.get("endOffset")
        if report["batchId"] == self._told or idle:
            return
        self._told = report["batchId"]
        end = _offsets(source.get("endOffset")) or checkpoint.position(self._state) or {}
        latest = _offsets(source.get("latestOffset")) or self._ends()
        self._lag = sum(max(offset - end.get(partition, 0), 0) for partition, offset in latest.items())
        self._tell(last=self._told)
        self._group.publish(end)

    def _watch(self) -> None:
        """Tells the lag to who wants to know it, and compares lag and batch with the limits.

        Raises LimitError.
        """
        self._limits.check_batch(*(self._batches.present or (self._batches.last, 0.0)))
        if not self._watches_lag or time.monotonic() < self._lag_due:
            return
        self._lag_due = time.monotonic() + LAG_EVERY
        try:
            found = positions(self._definition, self._state, self._topics)
        except PipelineError:
            return  # the broker is away, which ends the query if it lasts
        partitions = {one.partition: one.lag for one in found}
        self._progress.lag(partitions)
        self._limits.check_lag(partitions)

    def _ends(self) -> dict[int, int]:
        """The end offsets of the topic.

        Spark does not report them for a batch that is run again.
        """
        try:
            return self._topics.end_offsets(self._definition.topic)
        except PipelineError:
            return {}

    def _tell(self, *, last: int) -> None:
        while self._batches.written and self._batches.written[0].id <= last:
            written = self._batches.written.popleft()
            self.batches += 1
            self.rows += written.counts.rows
            self.dead_letters += written.counts.dead_letters
            self.left_out += written.counts.left_out
            self._progress.batch(
                BatchReport(
                    batch=written.id,
                    rows=written.counts.rows,
                    dead_letters=written.counts.dead_letters,
                    seconds=written.seconds,
                    left_out=written.counts.left_out,
                    read=self.rows + self.dead_letters + self.left_out,
                    lag=self._lag,
                    reasons=written.counts.reasons,
                    maintained=written.maintained,
                )
            )

    def _publish(self) -> None:
        """Publishes the position of the checkpoint.

        At the start the table may be ahead of the group, which a killed run or another one left. At the end,
        a batch that had only aborted records has moved the position.
        """
        if self._definition.group is not None:
            self._group.publish(checkpoint.position(self._state) or {})


def _offsets(value: object) -> dict[int, int]:
    """The offset of each partition from the Kafka source's `{"topic": {"0": 12}}`.

    For a batch that is run again, Spark omits some offsets.
    """
    topics = value.values() if isinstance(value, dict) else ()
    return {int(partition): offset for one in topics for partition, offset in one.items()}
