"""Offsets of a topic as options name them: a word, a time, or JSON by partition."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kafkapy.pipeline.fields import shown, timestamp_ms
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.topics import Topics

Offsets = Mapping[int, int]


def named_offsets(
    text: str, *, option: str, topics: Topics, topic: str, words: Mapping[str, Offsets], others: Offsets
) -> dict[int, int]:
    """The offsets that `text` names, by partition.

    `words` has the offsets of each word that is allowed. Partitions that JSON leaves out are those of
    `others`.
    """
    text = text.strip()
    if text in words:
        return dict(words[text])
    if text.startswith("{"):
        return {**others, **_by_partition(text, option, topics, topic)}
    try:
        moment = timestamp_ms(text)
    except PipelineError:
        raise PipelineError(
            f"{option}: expected {', '.join(words)}, a time or offsets like '{{\"0\": 12}}', "
            f"not {shown(text)}"
        ) from None
    return topics.offsets_at(topic, moment)


def _by_partition(text: str, option: str, topics: Topics, topic: str) -> dict[int, int]:
    """Parses JSON offsets by partition, or in Spark's form: the same within the topic's name."""
    try:
        value = json.loads(text)
        value = value.get(topic, value)
        offsets = {int(partition): offset for partition, offset in value.items()}
    except (ValueError, AttributeError):
        offsets = {-1: 0}
    known = topics.partitions(topic)
    if not offsets.keys() <= set(known) or not all(type(offset) is int for offset in offsets.values()):
        raise PipelineError(
            f"{option}: expected offsets by partition (0 to {known[-1]}) like '{{\"0\": 12}}', "
            f"not {shown(text)}"
        )
    return offsets
