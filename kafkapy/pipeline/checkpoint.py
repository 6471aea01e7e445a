"""Where a pipeline stands, read from Spark's checkpoint without Spark.

    metadata      {"id": the query's id}
    sources/0/0   the starting offsets: "v1", then {"topic": {"0": 12, ...}}; a zero byte may precede them
    offsets/N     the plan of batch N, written before it runs: "v1", the query's settings, the same JSON
    commits/N     written when batch N is done: "v1", then JSON
    .N.crc        on a local disk beside each: "crc", a zero byte, the bytes of a chunk, each chunk's CRC-32

Source: Spark's HDFSMetadataLog, OffsetSeqLog, CommitLog and KafkaSourceInitialOffsetWriter; Hadoop's
ChecksumFs. An offset is the next one to read: the end of batch N is exclusive. Spark writes a file under
another name and renames it, so a file whose name has only digits is complete. Spark keeps at least the last
hundred batches. It plans a batch only after the one before is committed.

A disk may lose or damage such a file all the same. `damage` finds what Spark would stumble over, and what it
would silently take for a new pipeline. A reset then continues from the last position that can be read.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.pipeline.state import State


def initial_offsets(state: State) -> dict[int, int] | None:
    """The starting offset of each partition in this incarnation.

    None before its first batch is planned.
    """
    text = _text(state, "sources/0/0")
    return None if text is None else _offsets(state, "sources/0/0", text.lstrip("\0"), line=1)


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
        raise _damaged(state, f"offsets/{batch}", "is gone")
    # A partition that was added later is read from its beginning.
    ranges = {partition: (before.get(partition, 0), offset) for partition, offset in end.items()}
    return {partition: (first, offset) for partition, (first, offset) in ranges.items() if first != offset}


def batches(state: State) -> Iterator[tuple[int, dict[int, tuple[int, int]]]]:
    """The planned batches that the checkpoint still has, newest first, with their offsets."""
    for batch in sorted(_batches(state, "offsets"), reverse=True):
        with contextlib.suppress(PipelineError):  # The one before it may be deleted.
            yield batch, batch_offsets(state, batch)


def planned_times(state: State, most: int) -> list[tuple[int, dict[int, int]]]:
    """When each of the last batches was planned, with its end offsets.

    In milliseconds since 1970, oldest first. Batches that cannot be read are left out.
    """
    found = []
    for batch in sorted(_batches(state, "offsets"))[-most:]:
        with contextlib.suppress(PipelineError, ValueError, KeyError, IndexError):
            text, end = _text(state, f"offsets/{batch}"), _batch_offsets(state, batch)
            if text is not None and end is not None:
                found.append((int(json.loads(text.split("\n")[1])["batchTimestampMs"]), end))
    return found


def start(state: State) -> dict[int, int] | None:
    """The starting offsets, from the checkpoint or the last reset; None if neither tells them."""
    with contextlib.suppress(PipelineError):
        if (found := initial_offsets(state)) is not None:
            return found
    incarnation = state.incarnation
    if incarnation is None or incarnation.starting_offsets is None:
        return None
    return dict(incarnation.starting_offsets)


def position(state: State) -> dict[int, int] | None:
    """The next offset to read of each partition; None if nothing tells it.

    This is the end of the last batch that is done. Without one, it is the starting offset. In a damaged
    checkpoint, it is the end of the last batch that can be read. A damaged commit does not count: what
    damaged it may have taken the rows of its batch too.
    """
    committed, planned = committed_batch(state), planned_batch(state)
    if committed is not None:
        try:
            _check_commit(state, committed)
        except PipelineError:
            committed -= 1
    done = max(-1 if committed is None else committed, -1 if planned is None else planned - 1)
    for batch in sorted(_batches(state, "offsets"), reverse=True):
        if batch <= done:
            with contextlib.suppress(PipelineError):
                return _batch_offsets(state, batch)
    return start(state)


def damage(state: State) -> PipelineError | None:
    """The error if the checkpoint is damaged, with the command that mends it.

    Commits are looked at first: batches are planned and committed meanwhile, if the pipeline runs.
    """
    if (moved := _moved(state)) is not None:
        return moved
    try:
        _check(state)
    except PipelineError as error:
        if position(state) is None:
            return PipelineError(
                f"{error}; to read the topic again: {reset_command(state.location, 'earliest')}"
            )
        return PipelineError(
            f"{error}; to continue from the last position that can be read: "
            f"{reset_command(state.location, 'available')}"
        )
    return None


def _moved(state: State) -> PipelineError | None:
    """The error if the definition names another folder than the one of the checkpoint.

    A state that was opened by the table alone knows no definition.
    """
    present = state.incarnation
    if present is None or state.checkpoints is None or state.checkpoints == present.checkpoint:
        return None
    there = "beside the table" if present.checkpoint is None else f"in {present.checkpoint}"
    return PipelineError(
        f"{state.location}: checkpoint: the pipeline's checkpoint is {there}, not in {state.checkpoints}; "
        "correct the definition, or begin another checkpoint there at the same position, with its file and "
        "not by the table: kafkapy pipeline reset FILE --to available"
    )


def lost(state: State) -> PipelineError | None:
    """The error if a table was written, and nothing tells how far any more."""
    if state.incarnation is not None or state.definition is None:
        return None
    return PipelineError(
        f"{state.location}: {State.FOLDER}/incarnation.json is missing or damaged, and nothing else tells "
        "which records the table has; to read the topic again, in place of the rows that it still has: "
        f"{reset_command(state.location, 'earliest')}"
    )


def _check(state: State) -> None:
    incarnation = state.incarnation
    if incarnation is None:
        return
    committed, planned = committed_batch(state), planned_batch(state)
    if committed is None and planned is None:
        progress = state.progress
        if progress is not None and progress.incarnation == incarnation.id:
            raise _damaged(state, "offsets", "is gone")
        return
    if planned is None or (committed is not None and committed > planned):
        raise _damaged(state, f"offsets/{committed}", "is gone")
    for batch in range(max(planned - 1, 0), planned + 1):
        _batch_offsets(state, batch)
    if committed is not None:
        _check_commit(state, committed)
    if initial_offsets(state) is None:
        raise _damaged(state, "sources/0/0", "is gone")
    try:
        json.loads(_text(state, "metadata") or "")
    except ValueError:
        raise _damaged(state, "metadata", "is gone or damaged") from None


def _check_commit(state: State, batch: int) -> None:
    if not (_text(state, f"commits/{batch}") or "").startswith("v1"):
        raise _damaged(state, f"commits/{batch}", "is empty or damaged")


def _batches(state: State, folder: str) -> list[int]:
    return [int(one.name) for one in state.checkpoint_entries(folder) if one.name.isdecimal()]


def _batch_offsets(state: State, batch: int | None) -> dict[int, int] | None:
    if batch is None:
        return None
    name = f"offsets/{batch}"
    text = _text(state, name)
    if text is None:
        raise _damaged(state, name, "is gone")
    return _offsets(state, name, text, line=2)


def _text(state: State, name: str) -> str | None:
    """The text of a file of the checkpoint; None if it is not there."""
    content, sums = state.read_checkpoint(name)
    if content is None:
        return None
    if sums is not None and sums != _checksums(content, int.from_bytes(sums[4:8])):
        raise _damaged(state, name, "is not what was written: its checksum differs")
    return content.decode(errors="replace")


def _checksums(content: bytes, chunk: int) -> bytes:
    head = b"crc\0" + chunk.to_bytes(4)
    starts = range(0, len(content), chunk) if chunk else ()
    return head + b"".join(zlib.crc32(content[at : at + chunk]).to_bytes(4) for at in starts)


def _damaged(state: State, name: str, how: str) -> PipelineError:
    return PipelineError(f"{state.location}: the checkpoint is damaged: {name} {how}")


def _offsets(state: State, name: str, text: str, *, line: int) -> dict[int, int]:
    lines = text.split("\n")
    try:
        if lines[0] != "v1":
            raise ValueError(lines[0])
        (partitions,) = json.loads(lines[line]).values()
        return {int(partition): int(offset) for partition, offset in sorted(partitions.items())}
    except (ValueError, IndexError, AttributeError):
        raise _damaged(state, name, "has not the offsets of one topic") from None
