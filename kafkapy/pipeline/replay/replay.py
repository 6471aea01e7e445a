"""Writes a table's rows back into a topic, as the original records.

    key, timestamp, headers    those of the record
    value                      raw: the same bytes; otherwise encoded from the columns (`values.py`)
    header kafkapy.source      `topic-partition-offset` of the record

The executors produce the records (`task.py`), in offset order within each source partition, at least once. A
replay that was stopped and started again writes its records again; readers can drop duplicates by
`kafkapy.source`. A missing target topic is created with as many partitions as the rows came from. It has no
time retention, which would delete old records within minutes, since they keep their timestamps. Its other
settings are the broker's defaults.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from kafkapy.pipeline.client_options import librdkafka_options
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.protobuf_format import descriptor_set
from kafkapy.pipeline.map_in_arrow import map_in_arrow
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.replay.plan import ReplayPlan, plan_replay
from kafkapy.pipeline.replay.protobuf import ProtobufEncoder
from kafkapy.pipeline.replay.task import ANSWER, COLUMNS, ReplayTask
from kafkapy.pipeline.replay.values import encoded
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.spark_failures import spark_failures
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import open_table
from kafkapy.pipeline.tables.sql import first_line
from kafkapy.pipeline.topics import Topics
from kafkapy.protocol.topic_names import why_invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]

_LOOK = 0.5  # seconds between looks at the target for the progress


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    topic: str
    records: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0


def replay(
    definition: PipelineDefinition | str,
    to: str,
    *,
    where: str | None = None,
    rate: float | None = None,
    force: bool = False,
    bootstrap: str | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Writes the rows for which the SQL condition `where` holds into the topic `to`.

    `rate` limits the records per second. `bootstrap` is the target's, by default the pipeline's. `progress`
    is called with the number of records written so far and in total. The pipeline's own topic is refused
    without `force`: the pipeline would read its rows again. Raises PipelineError, with the number of records
    written, if a delivery fails.
    """
    if isinstance(definition, str):
        definition = PipelineDefinition.load(definition)
    if reason := why_invalid(to):
        raise PipelineError(f"--to: {reason}")
    target = Topics(bootstrap or definition.bootstrap, definition.kafka_options)
    if to == definition.topic and bootstrap in (None, definition.bootstrap) and not force:
        raise PipelineError(
            f"--to: {to} is the topic of this table, and the pipeline would read the rows "
            "again; name another topic, or use --force"
        )
    if definition.format.changes is not None or definition.select:
        source = "values before select" if definition.select else "changes that they came from"
        raise PipelineError(f"{definition.table}: its rows cannot be written back as the {source}")
    if State.of(definition).incarnation is None:
        raise PipelineError(
            f"{definition.table}: its pipeline has not run yet, so there is nothing to replay"
        )
    exists = target.exists(to)
    with spark_for(definition, spark) as session, spark_failures(definition):
        rows = _rows(definition, session, where)
        records = encoded(definition, rows)
        found = records.groupBy("partition").agg(f.count(f.lit(1)), f.min("timestamp_ms")).collect()
        counts = {partition: count for partition, count, _ in found}
        if not counts:
            return ReplayResult(topic=to, records=0, seconds=0.0)
        if not exists:
            target.create(to, max(counts) + 1, {"retention.ms": "-1"})
        else:
            _warn_of_retention(target, to, [oldest for *_, oldest in found if oldest is not None])
        plan = plan_replay(counts, session.sparkContext.defaultParallelism, rate)
        task = ReplayTask(
            target=to,
            partitions=len(target.partitions(to)),
            client=librdkafka_options(target.bootstrap, definition.kafka_options),
            rates=plan.rates,
            encode=_encoder(definition),
        )
        total = sum(counts.values())
        with _watched(target, to, total, progress):
            return _produce(_in_tasks(records, plan), task, total)


def _warn_of_retention(target: Topics, topic: str, oldest: list[int]) -> None:
    with contextlib.suppress(
        PipelineError
    ):  # a client that may write may lack the permission to describe configs
        if oldest and target.expires(topic, min(oldest)):
            logger.warning(
                "%s will delete records older than its retention.ms: replayed records keep their timestamps",
                topic,
            )


def _rows(definition: PipelineDefinition, spark: SparkSession, where: str | None) -> DataFrame:
    from pyspark.errors import PySparkException

    table = open_table(spark, definition.table, partition_by=definition.partition_by)
    if not table.exists():
        raise PipelineError(f"{definition.table}: there is no table yet, so there is nothing to replay")
    rows = table.read()
    if where is None:
        return rows
    try:
        return rows.where(where)
    except PySparkException as error:
        raise PipelineError(f"--where: {first_line(error)}") from None


def _encoder(definition: PipelineDefinition) -> Callable[[Any], bytes] | None:
    if definition.format.kind != "protobuf":
        return None
    return ProtobufEncoder(descriptor_set(definition.format, definition.topic), definition.format.message)


def _produce(records: DataFrame, task: ReplayTask, total: int) -> ReplayResult:
    begun = time.monotonic()
    answers = map_in_arrow(records, task, ANSWER).collect()
    result = ReplayResult(
        topic=task.target,
        records=sum(answer["written"] for answer in answers),
        seconds=time.monotonic() - begun,
    )
    failed = [answer for answer in answers if answer["error"] is not None]
    if failed:
        raise PipelineError(
            f"replay into {task.target} stopped at {failed[0]['source']}: {failed[0]['error']}; "
            f"{result.records:,} of {total:,} records were written"
        )
    return result


def _in_tasks(records: DataFrame, plan: ReplayPlan) -> DataFrame:
    """Assigns each partition to its task, in offset order.

    Spark assigns rows to tasks by a hash, so a number is found for each task that hashes to it.
    """
    numbers = records.sparkSession.range(40 * plan.tasks).selectExpr("id", f"pmod(hash(id), {plan.tasks})")
    number_of = {task: number for number, task in numbers.collect()}
    cases = [
        f.lit(value) for partition, task in plan.task_of.items() for value in (partition, number_of[task])
    ]
    return (
        records.withColumn("task", f.create_map(*cases)[f.col("partition")])
        .repartition(plan.tasks, "task")
        .sortWithinPartitions("partition", "offset")
        .select(*COLUMNS)
    )


@contextlib.contextmanager
def _watched(topics: Topics, topic: str, total: int, progress: Progress | None) -> Iterator[None]:
    """Reports the number of records in the topic to `progress` at intervals.

    The executors report only at their end.
    """
    if progress is None:
        yield
        return
    before = sum(topics.end_offsets(topic, "read_uncommitted").values())
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK):
            with contextlib.suppress(PipelineError):
                now = sum(topics.end_offsets(topic, "read_uncommitted").values())
                progress(min(now - before, total), total)

    watcher = threading.Thread(target=watch, name="replay progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
