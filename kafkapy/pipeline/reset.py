"""Going back, or ahead, to other offsets, so that the table still has each record once.

A reset begins a new incarnation of the checkpoint at the new offsets (see `state.py`). A table that is
appended to first loses the rows at or after them: they are read again, and rows that a killed driver wrote
but did not commit are known to the table by the old incarnation only. Upserts need no trimming: writing a
record again changes nothing.

Killed at any moment: the new incarnation says `trim` until the table is trimmed, and both a run and a
further reset do that first (`finish_reset`). Trimming again finds nothing to delete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.fields import shown, timestamp_ms
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import PartitionPosition, created_anew, positions
from kafkapy.pipeline.read_ranges import below, read_so_far
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class ResetPlan:
    """What a reset is to do.

    `before` is where the pipeline stands. `after` has the offset of each partition to which it is to go.
    `copied_from` are the ids of the topics whose records this one has at the same offsets. `other`: this
    topic has other records than the one that was read.
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
        """How many offsets are read once more."""
        return sum(max(one.position - self.after[one.partition], 0) for one in self.before)

    @property
    def skipped(self) -> int:
        """How many offsets, still there or expired, are never read."""
        return sum(max(self.after[one.partition] - one.position, 0) for one in self.before)

    def lines(self) -> list[str]:
        """What will happen, for a person."""
        moves = [
            f"partition {one.partition}: {one.position} -> {self.after[one.partition]} "
            f"(the topic has {one.start} to {one.end})"
            for one in self.before
        ]
        if self.again:
            moves.append(f"{self.again:,} offsets will be read again")
        if self.skipped:
            moves.append(f"{self.skipped:,} offsets will be skipped: the table will not have them")
        if self.mode == "append":
            moves.append(f"rows at or after these offsets will be deleted from {self.definition.table} first")
        return moves


def plan_reset(definition: PipelineDefinition, to: str) -> ResetPlan:
    """The plan of a reset to `to`.

    `to` is earliest, latest, available, a time (ISO or epoch milliseconds) or JSON offsets by partition. With
    available, each partition stays where it stands, or goes to its start where that has expired.
    """
    state = State(definition.table.location)
    incarnation = state.incarnation
    if incarnation is None:
        raise PipelineError(f"{definition.name} has not run yet: set start: instead of resetting it")
    topics = Topics(definition.bootstrap, definition.kafka_options)
    topic_id = topics.topic_id(definition.topic)
    before = positions(definition, state, topics)
    # The table is as it was written, though the topic's policy or the file may have been changed since.
    former = state.definition
    mode = (former and former.mode) or definition.mode_for(topics.cleanup_policy(definition.topic))
    anew = created_anew(definition, state, topics) is not None
    other = anew and to.strip() != "available"
    if mode == "upsert" and (other or any(one.position > one.end for one in before)):
        raise PipelineError(
            f"{definition.name}: the topic {definition.topic} was created anew, and the table would take its "
            "records for older ones; write to another table, or delete this one"
        )
    after = _target(definition, topics, before, to.strip())
    for one in before:
        if not one.start <= after[one.partition] <= one.end:
            raise PipelineError(
                f"--to: partition {one.partition} of {definition.topic} has the offsets {one.start} to "
                f"{one.end}, not {after[one.partition]}; give one of these, or --to earliest"
            )
    copied_from = () if other else incarnation.copied_from
    if anew and not other and incarnation.topic_id is not None:
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

    Refuses while the pipeline runs. Without `spark`, a session is made if the table is to be trimmed.
    """
    state = State(plan.definition.table.location)
    with state.lock():
        if plan.mode == "append":
            _reset_and_trim(plan, state, spark)
        else:
            _begin_anew(plan, state, trim=False)
        state.forget_old_checkpoints()


def _reset_and_trim(plan: ResetPlan, state: State, spark: SparkSession | None) -> None:
    from kafkapy.pipeline.driver_lock import driver_lock
    from kafkapy.pipeline.sessions import spark_for

    definition = plan.definition
    with spark_for(definition, spark) as session, driver_lock(definition, state, session):
        finish_reset(definition, state, session)
        _begin_anew(plan, state, trim=True)
        finish_reset(definition, state, session)


def _begin_anew(plan: ResetPlan, state: State, *, trim: bool) -> None:
    read = {} if plan.other else read_so_far(state)
    if plan.mode == "append":  # upserts are not undone by going back
        read = below(read, plan.after)
    state.begin_anew(plan.after, trim=trim, topic_id=plan.topic_id, copied_from=plan.copied_from, read=read)


def finish_reset(definition: PipelineDefinition, state: State, spark: SparkSession) -> None:
    """Trims the table if a reset has not done so yet.

    The holder of both locks calls it, before it reads on.
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
    if to == "earliest":
        return {one.partition: one.start for one in before}
    if to == "latest":
        return {one.partition: one.end for one in before}
    if to == "available":
        return {one.partition: max(one.position, one.start) for one in before}
    if to.startswith("{"):
        return {one.partition: one.position for one in before} | _given(definition, before, to)
    try:
        moment = timestamp_ms(to)
    except PipelineError:
        raise PipelineError(
            "--to: expected earliest, latest, available, a time or offsets like '{\"0\": 12}', "
            f"not {shown(to)}"
        ) from None
    return topics.offsets_at(definition.topic, moment)


def _given(definition: PipelineDefinition, before: list[PartitionPosition], to: str) -> dict[int, int]:
    """By partition, or in Spark's form with the topic around."""
    try:
        value = json.loads(to)
        value = value.get(definition.topic, value)
        offsets = {int(partition): offset for partition, offset in value.items()}
    except (ValueError, AttributeError):
        offsets = {-1: 0}
    unknown = offsets.keys() - {one.partition for one in before}
    if unknown or not all(type(offset) is int for offset in offsets.values()):
        last = before[-1].partition if before else 0
        raise PipelineError(
            f"--to: expected offsets by partition (0 to {last}) like '{{\"0\": 12}}', not {shown(to)}"
        )
    return offsets
