"""What a pipeline has done lately: lag and speed over time, and dead letters by reason.

Spark's checkpoint has the last batches with their offsets and the time at which each was planned. How far the
topic reached at that time is asked of the broker, which knows it by the records' timestamps. So nothing is
recorded for this, and what a topic without sensible timestamps shows is not the truth.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Final

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.dead_letters.reader import dead_letters
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics

_BATCHES: Final = 60  # each asks the broker once
_LETTERS: Final = 10_000  # of each partition of a topic that may have many more


@dataclass(frozen=True, kw_only=True)
class Recent:
    """The last batches, oldest first, and the last dead letters.

    `lag` and `speed` are (milliseconds since 1970, offsets or offsets a second). `reasons` counts dead
    letters by their errors. `all_letters` is false if there are older ones than those that were counted.
    """

    lag: tuple[tuple[float, float], ...] = ()
    speed: tuple[tuple[float, float], ...] = ()
    reasons: tuple[tuple[str, int], ...] = ()
    all_letters: bool = True


def recent(definition: PipelineDefinition, state: State, topics: Topics) -> Recent:
    """Reads the checkpoint, and asks the broker; raises PipelineError."""
    lag, speed = [], []
    planned = checkpoint.planned_times(state, _BATCHES)
    for (before, position), (time, end) in itertools.pairwise(planned):
        ends = topics.offsets_at(definition.topic, time)
        lag.append((float(time), float(sum(max(ends[one] - position.get(one, 0), 0) for one in ends))))
        read = sum(max(end[one] - position.get(one, 0), 0) for one in end)
        speed.append((float(time), read / max((time - before) / 1000, 0.001)))
    reasons, complete = _reasons(definition, topics)
    return Recent(lag=tuple(lag), speed=tuple(speed), reasons=reasons, all_letters=complete)


def _reasons(definition: PipelineDefinition, topics: Topics) -> tuple[tuple[tuple[str, int], ...], bool]:
    topic = definition.dead_letter
    if topic is None or not topics.exists(topic):
        return (), True
    starts, ends = topics.start_offsets(topic), topics.end_offsets(topic)
    first = {one: max(starts[one], ends.get(one, 0) - _LETTERS) for one in starts}
    counted = Counter(one.kind for one in dead_letters(definition, topics, start=first) if not one.former)
    return tuple(counted.most_common()), first == starts
