"""Where a pipeline stands, read from Spark's checkpoint without Spark.

    sources/0/0   the starting offsets: "v1", then {"topic": {"0": 12, ...}}; a zero byte may precede them
    offsets/N     the plan of batch N, written before it runs: "v1", the query's settings, the same JSON
    commits/N     written when batch N is done

Source: Spark's HDFSMetadataLog, OffsetSeqLog, CommitLog and KafkaSourceInitialOffsetWriter. An offset is the
next one to read: the end of batch N is exclusive. Spark writes a file under another name and renames it, so a
file whose name has only digits is complete. Spark keeps at least the last hundred batches.
"""

from __future__ import annotations

import json

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State


def initial_offsets(state: State) -> dict[int, int] | None:
    """The starting offset of each partition in this incarnation.

    None before its first batch is planned.
    """
    path = _path(state, "sources/0/0")
    text = path and state.read_path(path)
    if not path or not text:
        return None
    return _offsets(path, text.lstrip("\0"), line=1)


def committed_batch(state: State) -> int | None:
    return max(_batches(state, "commits"), default=None)


def planned_batch(state: State) -> int | None:
    return max(_batches(state, "offsets"), default=None)


def committed_offsets(state: State) -> dict[int, int] | None:
    """The next offset to read of each partition; None before the first batch is committed."""
    return _batch_offsets(state, committed_batch(state))


def planned_offsets(state: State) -> dict[int, int] | None:
    """The end offset of each partition in the latest planned batch.

    None before the first batch.
    """
    return _batch_offsets(state, planned_batch(state))


def batch_offsets(state: State, batch: int) -> dict[int, tuple[int, int]]:
    """The planned offsets [first, end) of a batch, for each partition that has any."""
    before = _batch_offsets(state, batch - 1) if batch else initial_offsets(state)
    end = _batch_offsets(state, batch)
    if before is None or end is None:
        raise _damaged(state, batch)
    # A partition that was added later is read from its beginning.
    ranges = {partition: (before.get(partition, 0), offset) for partition, offset in end.items()}
    return {partition: (first, offset) for partition, (first, offset) in ranges.items() if first != offset}


def position(state: State) -> dict[int, int] | None:
    """The next offset to read of each partition.

    This is the end of the last committed batch. Without one, it is the starting offset.
    """
    found = committed_offsets(state)
    if found is None:
        found = initial_offsets(state)
    if found is None and (incarnation := state.incarnation) and incarnation.starting_offsets is not None:
        found = dict(incarnation.starting_offsets)
    return found


def _path(state: State, name: str) -> str | None:
    checkpoint = state.checkpoint_path
    return None if checkpoint is None else f"{checkpoint}/{name}"


def _batches(state: State, folder: str) -> list[int]:
    path = _path(state, folder)
    return [int(name) for name in state.names_in(path) if name.isdecimal()] if path else []


def _batch_offsets(state: State, batch: int | None) -> dict[int, int] | None:
    if batch is None:
        return None
    path = _path(state, f"offsets/{batch}")
    text = path and state.read_path(path)
    if not path or not text:
        raise _damaged(state, batch)
    return _offsets(path, text, line=2)


def _damaged(state: State, batch: int) -> PipelineError:
    return PipelineError(
        f"{state.location}: the checkpoint has batch {batch} but not its offsets; it is damaged: "
        "kafkapy pipeline reset --to earliest reads the topic again"
    )


def _offsets(path: str, text: str, *, line: int) -> dict[int, int]:
    lines = text.split("\n")
    try:
        if lines[0] != "v1":
            raise ValueError(lines[0])
        (partitions,) = json.loads(lines[line]).values()
        return {int(partition): int(offset) for partition, offset in sorted(partitions.items())}
    except (ValueError, IndexError, AttributeError):
        raise PipelineError(
            f"{path}: not a Spark checkpoint of one topic; it is damaged: "
            "kafkapy pipeline reset --to earliest reads the topic again"
        ) from None
