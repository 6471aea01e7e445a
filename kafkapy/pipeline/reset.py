"""Resets a pipeline to other offsets, and keeps each record in the table once.

A reset begins a new incarnation of the checkpoint at the new offsets (see `state.py`). An append table is
first trimmed: rows at or after the new offsets are deleted, since their records are read again. This includes
rows of batches that a killed driver left uncommitted, which the table knows by the old incarnation only. An
upsert table is not trimmed: writing a record again changes nothing.

A reset may be killed at any moment. The new incarnation has `trim` set until the table is trimmed, and both a
run and a further reset trim it first (`finish_reset`). Trimming twice does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.named_offsets import named_offsets
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import PartitionPosition, created_anew, positions
from kafkapy.pipeline.read_ranges import below, read_so_far
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class ResetPlan:
    """The effect of a reset.

    `before` are the present positions. `after` maps each partition to its new offset. `copied_from` are the
    ids of topics whose records this topic has at the same offsets. `other` is true if this topic has other
    records than the one that was read.
    """

    definition: PipelineDefinition
    mode: str
    before: list[PartitionPosition]
    after: Mapping[int, int]
    topic_id: str | None = None
    copied_from: tuple[str, ...] = ()
    other: bool = False

    @property
    def again(self) -> int:
        """The number of offsets that are read again."""
        return sum(max(one.position - self.after[one.partition], 0) for one in self.before)

    @property
    def skipped(self) -> int:
        """The number of offsets, expired or not, that are never read."""
        return sum(max(self.after[one.partition] - one.position, 0) for one in self.before)

    def lines(self) -> list[str]:
        """The plan as lines of text."""
        moves = [
            f"partition {one.partition}: {one.position} -> {self.after[one.partition]} "
            f"(the topic has {one.start} to {one.end})"
            for one in self.before
        ]
        if self.again:
            moves.append(f"{self.again:,} offsets will be read again")
        if self.skipped:
            moves.append(f"{self.skipped:,} offsets will be skipped and will be missing from the table")
        if self.mode == "append":
            moves.append(f"rows at or after these offsets will be deleted from {self.definition.table} first")
        return moves


def plan_reset(definition: PipelineDefinition, to: str) -> ResetPlan:
    """The plan of a reset to `to`.

    `to` is earliest, latest, available, a time (ISO or epoch milliseconds) or JSON offsets by partition.
    `available` keeps the position of each partition, or moves it to the log start offset if it has expired.
    """
    state = State.of(definition)
    incarnation = state.incarnation
    if incarnation is None:
        if state.definition is None:
            raise PipelineError(f"{definition.name} has not run yet: set start: instead of resetting it")
        if to.strip() == "available":
            raise PipelineError(
                f"{definition.name}: nothing tells its position any more; to read the topic again: "
                f"{reset_command(definition.table.folder, 'earliest')}"
            )
    topics = Topics(definition.bootstrap, definition.kafka_options)
    topic_id = topics.topic_id(definition.topic)
    before = positions(definition, state, topics)
    # What counts is how the table was written: the topic's policy or the file may have changed since.
    former = state.definition
    mode = (former and former.mode) or definition.mode_for(topics.cleanup_policy(definition.topic))
    anew = created_anew(definition, state, topics) is not None
    other = anew and to.strip() != "available"
    if mode == "upsert" and (other or any(one.position > one.end for one in before)):
        raise PipelineError(
            f"{definition.name}: the topic {definition.topic} was recreated, and the table would treat its "
            "records as older ones; write to another table, or delete this one"
        )
    after = _target(definition, topics, before, to.strip())
    for one in before:
        if not one.start <= after[one.partition] <= one.end:
            raise PipelineError(
                f"--to: partition {one.partition} of {definition.topic} has the offsets {one.start} to "
                f"{one.end}, not {after[one.partition]}; name one of these, or use --to earliest"
            )
    copied_from = () if other or incarnation is None else incarnation.copied_from
    if anew and not other and incarnation is not None and incarnation.topic_id is not None:
        copied_from += (incarnation.topic_id,)
    return ResetPlan(
        definition=definition,
        mode=mode,
        before=before,
        after=after,
        topic_id=topic_id,
        copied_from=copied_from,
        other=other,
    )


def reset(plan: ResetPlan, *, spark: SparkSession | None = None) -> None:
    """Carries out the plan.

    Raises PipelineError while the pipeline runs. Without `spark`, a session is created if the table must be
    trimmed.
    """
    state = State.of(plan.definition)
    if plan.mode == "append":
        _reset_and_trim(plan, state, spark)
        return
    with state.lock():
        _begin_anew(plan, state, trim=False)
        state.forget_old_checkpoints()


def _reset_and_trim(plan: ResetPlan, state: State, spark: SparkSession | None) -> None:
    from kafkapy.pipeline.driver_lock import driver

    definition = plan.definition
    with driver(definition, state, partial(spark_for, definition, spark)) as session:
        finish_reset(definition, state, session)
        _begin_anew(plan, state, trim=True)
        finish_reset(definition, state, session)
        state.forget_old_checkpoints()


def _begin_anew(plan: ResetPlan, state: State, *, trim: bool) -> None:
    earliest = plan.definition.start == "earliest"
    read = {} if plan.other else read_so_far(state, from_earliest=earliest)
    if plan.mode == "append":  # an upsert table is not trimmed
        read = below(read, plan.after)
    state.begin_anew(plan.after, trim=trim, topic_id=plan.topic_id, copied_from=plan.copied_from, read=read)


def finish_reset(definition: PipelineDefinition, state: State, spark: SparkSession) -> None:
    """Trims the table if a reset was interrupted before it did so.

    The caller holds both locks, and has not begun to read.
    """
    incarnation = state.incarnation
    if incarnation is None or not incarnation.trim:
        return
    from kafkapy.pipeline.tables import open_table

    table = open_table(spark, definition.table, partition_by=definition.partition_by)
    if table.exists():
        table.trim(dict(incarnation.starting_offsets or {}))
    state.trimmed()


def _target(
    definition: PipelineDefinition, topics: Topics, before: list[PartitionPosition], to: str
) -> dict[int, int]:
    words = {
        "earliest": {one.partition: one.start for one in before},
        "latest": {one.partition: one.end for one in before},
        "available": {one.partition: max(one.position, one.start) for one in before},
    }
    present = {one.partition: one.position for one in before}
    return named_offsets(
        to, option="--to", topics=topics, topic=definition.topic, words=words, others=present
    )
