"""The position of a pipeline in its topic: lag, expired offsets."""

from __future__ import annotations

from dataclasses import dataclass

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics


@dataclass(frozen=True, kw_only=True)
class PartitionPosition:
    """The position of a pipeline in one partition.

    `position` is the next offset to read. A read_committed reader can read the offsets [start, end).
    """

    partition: int
    start: int
    position: int
    end: int

    @property
    def lag(self) -> int:
        return max(self.end - max(self.position, self.start), 0)

    @property
    def expired(self) -> int:
        """How many offsets were deleted before they were read."""
        return max(self.start - self.position, 0)


def positions(definition: PipelineDefinition, state: State, topics: Topics) -> list[PartitionPosition]:
    """The position in each partition.

    A partition that was added later begins at its start, as in Spark.
    """
    starts, ends = topics.start_offsets(definition.topic), topics.end_offsets(definition.topic)
    known = checkpoint.position(state)
    if known is None:
        known = _first(definition, topics, ends)
    return [
        PartitionPosition(
            partition=partition,
            start=starts[partition],
            position=known.get(partition, starts[partition]),
            end=ends.get(partition, starts[partition]),
        )
        for partition in sorted(starts)
    ]


def _first(definition: PipelineDefinition, topics: Topics, ends: dict[int, int]) -> dict[int, int]:
    if definition.start == "latest":
        return ends
    if (moment := definition.start_ms) is not None:
        return topics.offsets_at(definition.topic, moment)
    return {}


def expired(definition: PipelineDefinition, state: State, topics: Topics) -> PipelineError | None:
    """The error if the topic no longer holds the next offsets of the pipeline.

    None if it holds them. It is checked before a start. Spark checks it too (failOnDataLoss), but later and
    with a long message.
    """
    if (problem := created_anew(definition, state, topics)) is not None:
        return problem
    known = checkpoint.position(state)
    if known is None:
        return None
    found = positions(definition, state, topics)
    where = f"{definition.name}: the topic {definition.topic}"
    if lost := [one for one in found if one.expired]:
        gaps = ", ".join(f"partition {one.partition} {one.position} to {one.start - 1}" for one in lost)
        return PipelineError(
            f"{where} deleted records before they were read: {gaps} "
            f"({sum(one.expired for one in lost):,} offsets); to continue without them: "
            f"{reset_command(definition.table.folder, 'available')}"
        )
    ends = topics.end_offsets(definition.topic, "read_uncommitted")
    beyond = {partition: offset for partition, offset in known.items() if offset > ends.get(partition, 0)}
    if beyond:
        gaps = ", ".join(
            f"partition {one} at {offset} of {ends.get(one, 0)}" for one, offset in beyond.items()
        )
        return PipelineError(
            f"{where} ends before the position of the pipeline ({gaps}): it was recreated; "
            f"{_remedy(definition, state)}"
        )
    return None


def planned_without(definition: PipelineDefinition, state: State, topics: Topics) -> PipelineError | None:
    """The error if a batch was planned before partitions were added, and is not done yet.

    Spark refuses such a batch in a run to the end of the topic (SPARK-53560).
    """
    planned, committed = checkpoint.planned_batch(state), checkpoint.committed_batch(state)
    if planned is None or planned == committed:
        return None
    added = sorted(set(topics.partitions(definition.topic)) - set(checkpoint.planned_offsets(state) or ()))
    if not added:
        return None
    return PipelineError(
        f"{definition.name}: batch {planned} was interrupted, and planned before {definition.topic} got the "
        f"partition {added[0]}: Spark cannot finish it in a run that ends (SPARK-53560); run without --once, "
        f"or plan it again: {reset_command(definition.table.folder, 'available')}"
    )


def created_anew(definition: PipelineDefinition, state: State, topics: Topics) -> PipelineError | None:
    """The error if the topic was recreated since the position was stored.

    The offsets then mean other records. None if it is the same topic, or if a topic id is unknown.
    """
    incarnation = state.incarnation
    known = None if incarnation is None else incarnation.topic_id
    present = None if known is None else topics.topic_id(definition.topic)
    if known == present or present is None:
        return None
    return PipelineError(
        f"{definition.name}: the topic {definition.topic} was recreated since the table was written; "
        f"{_remedy(definition, state)}; if it was copied with its offsets, continue with: "
        f"{reset_command(definition.table.folder, 'available')}"
    )


def _remedy(definition: PipelineDefinition, state: State) -> str:
    """The remedy for a recreated topic.

    Upserted rows cannot be replaced: the new topic's records have lower offsets and would count as older.
    """
    former = state.definition
    if (definition if former is None else former).mode == "upsert":
        return "write to another table, or delete this one"
    return (
        "write to another table, or replace these rows by its records: "
        f"{reset_command(definition.table.folder, 'earliest')}"
    )
