"""Runs a pipeline: checks what can be checked before Spark starts, then streams.

    check     format, table location and partitioning; Java, connector; broker, topic, cleanup.policy; the
              lock; whether the position has expired
    session   starts Spark, or uses the caller's session
    table     checks its columns; finishes a reset that was killed
    stream    writes batches (`batches.py`); watches and restarts the query (`streaming.py`)

Spark's checkpoint holds the position (`State.checkpoint`). A new checkpoint starts where the last reset or
the definition says.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.checkpoint import damage, lost
from kafkapy.pipeline.dead_letters.dead_letters import make_topic
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.driver_lock import driver
from kafkapy.pipeline.fields import seconds, within
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.formats.spark_types import OWN_COLUMNS
from kafkapy.pipeline.former import check_former
from kafkapy.pipeline.named_columns import column_problem, key_problem
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import expired, planned_without
from kafkapy.pipeline.reset import finish_reset
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.pipeline.run.limits import Limits
from kafkapy.pipeline.run.maintenance import Maintenance
from kafkapy.pipeline.run.metrics import Measured, serving
from kafkapy.pipeline.run.progress import Progress
from kafkapy.pipeline.run.stopping import Stopping
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.spark_failures import spark_failures
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import Partitioning, check_location
from kafkapy.pipeline.topics import Topics
from kafkapy.spark import check_setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kafkapy.pipeline.run.batches import Batches

# A killed batch is run again from its start, and larger batches are hardly faster.
DEFAULT_MAX_OFFSETS: Final = 1_000_000
# How often a continuous run looks for new records. Each batch creates files and a commit.
DEFAULT_EVERY: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run.

    `stopped` is true if it was asked to stop before it had read everything.
    """

    batches: int
    rows: int
    dead_letters: int
    stopped: bool
    left_out: int = 0


def run(
    definition: PipelineDefinition,
    *,
    once: bool = False,
    every: str | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
    metrics: str | None = None,
    stop: threading.Event | None = None,
) -> RunResult:
    """Runs to the present end of the topic (`once`), or until SIGINT, SIGTERM or `stop`.

    `metrics` is the `[HOST:]PORT` at which Prometheus scrapes meanwhile.

    Raises PipelineError or SparkSetupError, both UserErrors; LimitError if a limit of the definition ends it.
    Without `spark`, a session is created, and stopped at the end. Signals are handled in the main thread
    only.
    """
    check_times(once, every)
    with contextlib.ExitStack() as stack:
        stopping = stack.enter_context(Stopping(stop))
        told = progress or Progress()
        if metrics is not None:
            told = Measured(definition, stack.enter_context(serving(metrics)), told)

        @contextlib.contextmanager
        def session() -> Iterator[SparkSession]:
            if spark is None:
                told.note("Starting Spark")
            with spark_for(definition, spark) as found:
                stopping.take_signals()
                yield found

        topics = Topics(definition.bootstrap, definition.kafka_options)
        return run_one(
            Job(definition, topics, once, every, told.note), session, told, stopping, with_setup=spark is None
        )


def check_times(once: bool, every: str | None) -> None:
    """Raises PipelineError if these make no sense."""
    if once and every:
        raise PipelineError("once and every exclude each other: once ends with what the topic has now")
    if every:
        within("--every", seconds, every)


def run_one(
    job: Job,
    session: Callable[[], contextlib.AbstractContextManager[SparkSession]],
    progress: Progress,
    stopping: Stopping,
    *,
    with_setup: bool,
) -> RunResult:
    """Runs one pipeline, in a session that is made after what needs no Spark is checked.

    `with_setup` says that this machine must be able to start Spark.
    """
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(progress)
        job.check(with_setup=with_setup)
        spark = stack.enter_context(driver(job.definition, job.state, session, locked=job.check_position))
        from kafkapy.pipeline.run.streaming import Streaming

        stack.enter_context(spark_failures(job.definition))
        limits = Limits(job.definition, told.note)
        batches = job.batches(spark, limits)
        streaming = Streaming(job.definition, job.state, job.topics, batches, limits, told, stopping)
        streaming.run(lambda write: job.begin(spark, write))
        return RunResult(
            batches=streaming.batches,
            rows=streaming.rows,
            dead_letters=streaming.dead_letters,
            left_out=streaming.left_out,
            stopped=stopping.asked.is_set(),
        )


class Job:
    """One run of a definition."""

    def __init__(
        self,
        definition: PipelineDefinition,
        topics: Topics,
        once: bool,
        every: str | None,
        note: Callable[[str], None],
    ) -> None:
        self.definition, self.topics, self._once = definition, topics, once
        self._every = seconds(every) if every else definition.every_seconds or DEFAULT_EVERY
        self.state = State.of(definition)
        self._note = note
        self._format = open_format(definition, self.state, note)
        self._mode = ""

    def check(self, *, with_setup: bool) -> None:
        """Checks what can be checked without Spark and without the lock."""
        definition = self.definition
        self._format.check()
        Partitioning.parse(definition.partition_by)
        check_location(definition.table, self.state.store)
        if with_setup:
            check_setup(definition.lakes, store=definition.table.scheme)
        self.topics.partitions(definition.topic)  # raises if there is no such topic
        self._mode = definition.mode_for(self.topics.cleanup_policy(definition.topic))
        check_former(definition, self.state, self._mode)
        self._check_columns()
        if definition.dead_letter is not None:
            make_topic(self.topics, definition)

    def _check_columns(self) -> None:
        """Checks key and partition columns, if the format cannot add columns later."""
        kind, columns = self.definition.format, self._format.columns
        if columns is None or (kind.schema is None and kind.kind != "raw"):
            return
        definition = self.definition
        data = [field["name"] for field in columns["fields"]]
        divided = [field.column for field in Partitioning.parse(definition.partition_by).fields]
        present = [*data, *(name for name in OWN_COLUMNS if name != "_deleted")]
        problem = column_problem("partition_by", divided, present) or key_problem(definition.key, columns)
        if problem is not None:
            raise PipelineError(f"{definition.name}: {problem}")

    def check_position(self) -> None:
        """Checks that the checkpoint is whole, and that the topic still has the next offsets.

        The caller holds the lock.
        """
        problem = damage(self.state) or expired(self.definition, self.state, self.topics)
        if problem is None and self._once:
            problem = planned_without(self.definition, self.state, self.topics)
        if problem is not None:
            raise problem

    def batches(self, spark: SparkSession, limits: Limits) -> Batches:
        """Opens and checks the table, and returns the writer of its batches."""
        from pyspark.sql.types import StructType

        from kafkapy.pipeline.run.batches import Batches
        from kafkapy.pipeline.tables import open_table

        definition, state = self.definition, self.state
        finish_reset(definition, state, spark)
        table = open_table(
            spark,
            definition.table,
            partition_by=definition.partition_by,
            widen_types=definition.widen_types,
        )
        known = self._format.columns
        columns = None if known is None else StructType.fromJson(known)
        table.check_shape(columns)
        if self._mode == "upsert":
            if columns is not None:
                table.check_upserts(columns)
            table.set_merge_mode(definition.merge_mode)
        if state.incarnation is None and table.exists() and not table.read().isEmpty():
            raise lost(state) or PipelineError(
                f"{definition.table}: the table has rows, but the state of its pipeline ({State.FOLDER}/) "
                "is missing, and every record would be written again; write to another table or delete it"
            )
        if definition.table.in_catalog and not table.exists() and _has_written(state):
            raise PipelineError(
                f"{definition.table}: the table is gone, and the state of its pipeline in "
                f"{definition.table.folder} continues after the rows that it had; to read the topic again: "
                f"{reset_command(definition.table.folder, 'earliest')}"
            )
        state.begin_with(self.topics.topic_id(definition.topic))
        for one in (state.definition, definition):
            if one is not None and one.dead_letter is not None:
                state.note_dead_letters(one.dead_letter, one.name)
        state.definition = dataclasses.replace(definition, mode=self._mode)
        maintenance = Maintenance(definition, state, table, self._note)
        return Batches(definition, self._mode, state, self.topics, self._format, table, maintenance, limits)

    def begin(self, spark: SparkSession, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Starts the query.

        Raises PipelineError if the topic lacks the next offsets. Spark would report that later, and with a
        long message.
        """
        from kafkapy.spark import read_topic

        self.check_position()
        definition = self.definition
        most = definition.max_offsets_per_trigger or DEFAULT_MAX_OFFSETS
        options = {f"kafka.{name}": value for name, value in definition.kafka_options.items()}
        # Splits a large batch of few partitions, so that all cores are busy.
        tasks = spark.sparkContext.defaultParallelism
        options["maxRecordsPerPartition"] = str(max(most // tasks, 100_000))
        records = read_topic(
            spark,
            definition.topic,
            bootstrap=definition.bootstrap,
            stream=True,
            starting=self._starting(),
            max_offsets_per_trigger=most,
            options=options,
        )
        # Spark refuses two queries of one name, and two tables of one topic would have the same.
        writer = records.writeStream.queryName(self.state.app_id(definition.name)).foreachBatch(write)
        writer = writer.option("checkpointLocation", self.state.checkpoint)
        if self._once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{int(self._every * 1000)} milliseconds").start()

    def _starting(self) -> str | int | dict[int, int]:
        """The starting offsets without a checkpoint.

        Spark requires an offset for each partition, or none.
        """
        offsets = self.state.begin().starting_offsets
        if offsets is None:
            moment = self.definition.start_ms
            return self.definition.start if moment is None else moment
        # -2 is the earliest offset: for partitions that were added after the reset
        return {number: offsets.get(number, -2) for number in self.topics.partitions(self.definition.topic)}


def _has_written(state: State) -> bool:
    """Whether the present incarnation has written rows."""
    progress, incarnation = state.progress, state.incarnation
    if progress is None or incarnation is None:
        return False
    return progress.incarnation == incarnation.id and progress.total_rows > 0
