"""Runs many pipelines in one Spark.

Each pipeline has a thread, which runs it as if it were alone (`run_one`), with a session of its own: SQL
settings of one do not reach another. Their jobs take turns on Spark's cores (`sessions.py`).

A pipeline that fails is told, and ends alone. While the run continues, the broker is asked every `LOOK`
seconds for topics of the file's patterns, and each new one gets a thread. With `once`, no more than
`AT_ONCE` pipelines per core run at a time: the batch of each takes memory.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkapy.errors import UserError
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError, PipelineError
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.run.metrics import Measured, Metrics, serving
from kafkapy.pipeline.run.progress import Lines, Progress
from kafkapy.pipeline.run.run import Job, RunResult, check_times, run_one
from kafkapy.pipeline.run.stopping import Stopping
from kafkapy.pipeline.sessions import own_session, spark_for, spark_for_all, store_of
from kafkapy.pipeline.spark_failures import silent
from kafkapy.pipeline.topics import Clients
from kafkapy.spark import check_setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK: Final = 10.0
AT_ONCE: Final = 2
_ENDLESS: Final = 10_000  # pipelines that continue: each has its thread
_PAUSE: Final = 0.2


@dataclass(frozen=True)
class Outcome:
    """How the run of one pipeline ended: with a result, or with an error."""

    definition: PipelineDefinition
    result: RunResult | None
    error: UserError | None = None

    @property
    def by_limit(self) -> bool:
        return isinstance(self.error, LimitError)


def run_many(
    file: PipelinesFile,
    *,
    once: bool = False,
    every: str | None = None,
    spark: SparkSession | None = None,
    note: Callable[[str], None] | None = None,
    metrics: str | None = None,
    stop: threading.Event | None = None,
    clients: Clients | None = None,
) -> list[Outcome]:
    """Runs all pipelines of a file, to the ends of their topics or until it is stopped.

    It also ends when all pipelines have failed. `note` gets a line for each batch and event. `clients` are
    those that find the topics. For the rest see `run`. Raises PipelineError or SparkSetupError if none of
    them can run.
    """
    check_times(once, every)
    with contextlib.ExitStack() as stack:
        stopping = stack.enter_context(Stopping(stop))
        served = None if metrics is None else stack.enter_context(serving(metrics))
        clients = clients or Clients()
        found = _definitions(file, clients)
        if once and not found:
            raise PipelineError("no topic matches a pattern of the file; see kafkapy topics list")
        of_all = (*found, *file.samples)
        if spark is None:
            lakes = sorted({lake for one in of_all for lake in one.lakes})
            check_setup(lakes, store=store_of(of_all))
            if note is not None:
                note("Starting Spark")
        session = stack.enter_context(spark_for_all(of_all, spark))
        stopping.take_signals()
        stack.enter_context(silent())
        run = _Run(session, clients, stopping, once=once, every=every, note=note, metrics=served)
        try:
            run.add(found)
            run.follow(file)
        except BaseException:
            stopping.asked.set()
            raise
        finally:
            run.wait()
        return run.outcomes()


class _Run:
    """The pipelines of a run, each in a thread."""

    def __init__(
        self,
        spark: SparkSession,
        clients: Clients,
        stopping: Stopping,
        *,
        once: bool,
        every: str | None,
        note: Callable[[str], None] | None,
        metrics: Metrics | None,
    ) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        # Threads that start it at the same time would start several.
        ensure_callback_server_started(spark.sparkContext._gateway)
        self._spark, self._clients, self._stopping = spark, clients, stopping
        self._once, self._every, self._metrics = once, every, metrics
        self._note = note or (lambda line: None)
        most = max(AT_ONCE * spark.sparkContext.defaultParallelism, 2) if once else _ENDLESS
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="pipeline")
        self._runs: dict[str, Future[Outcome]] = {}

    def add(self, definitions: Iterable[PipelineDefinition]) -> None:
        """Starts those that have not been started yet."""
        for one in definitions:
            if one.name not in self._runs:
                self._runs[one.name] = self._threads.submit(self._one, one)

    def follow(self, file: PipelinesFile) -> None:
        """Waits for the pipelines to end, and meanwhile starts those of new topics."""
        looking = file.has_patterns and not self._once
        due, told = time.monotonic() + LOOK, ""
        # Waits for short times: only between them does Python call the handlers of signals.
        while not all(run.done() for run in self._runs.values()) or (looking and not self._runs):
            if self._stopping.asked.is_set():
                looking = False
                wait(self._runs.values(), timeout=_PAUSE)
            else:
                self._stopping.asked.wait(_PAUSE)
            if looking and time.monotonic() >= due:
                due = time.monotonic() + LOOK
                try:
                    self.add(_definitions(file, self._clients))
                except PipelineError as error:
                    if str(error) != told:
                        self._note(str(error))
                    told = str(error)

    def wait(self) -> None:
        """Waits for the pipelines to end: none may use Spark after it is stopped."""
        self._threads.shutdown()

    def outcomes(self) -> list[Outcome]:
        return [run.result() for run in self._runs.values()]

    def _one(self, definition: PipelineDefinition) -> Outcome:
        progress: Progress = Lines(definition.name, self._note)
        if self._metrics is not None:
            progress = Measured(definition, self._metrics, progress)
        if self._stopping.asked.is_set():
            return Outcome(definition, RunResult(batches=0, rows=0, dead_letters=0, stopped=True))
        try:
            topics = self._clients.at(definition.bootstrap, definition.kafka_options)
            job = Job(definition, topics, self._once, self._every, progress.note)
            result = run_one(
                job, lambda: self._session(definition), progress, self._stopping, with_setup=False
            )
        except UserError as error:
            progress.note(str(error))
            return Outcome(definition, None, error)
        except Exception as error:  # a defect: raised when the others have ended, too
            progress.note(f"failed: {error!r}")
            raise
        return Outcome(definition, result)

    def _session(self, definition: PipelineDefinition) -> contextlib.AbstractContextManager[SparkSession]:
        return spark_for(definition, own_session(self._spark, definition.name))


def _definitions(file: PipelinesFile, clients: Clients) -> list[PipelineDefinition]:
    return file.definitions(lambda one: clients.at(one.bootstrap, one.kafka_options).names())
