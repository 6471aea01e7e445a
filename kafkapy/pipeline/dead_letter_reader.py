"""Dead letters as they are read back: those of one pipeline, each once. Without Spark."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkapy.pipeline.dead_letters import (
    ERROR,
    PIPELINE,
    PREFIX,
    REPLAYED_FROM,
    SCHEMA_ID,
    SOURCE,
    TIMESTAMP,
)
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.topics import Topics

_SOURCE: Final = re.compile(r"(.+)-(\d+)-(\d+)")
# The value that a record had, behind the column that it does not fit: the same error in all of them.
_VALUE: Final = re.compile(r"(does not match the schema: .*? is not .*?) but .*", re.DOTALL)

Headers = list[tuple[str, bytes | None]]


class Source(NamedTuple):
    """Where a record was that became a dead letter."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Source | None:
        match = _SOURCE.fullmatch(text)
        return None if match is None else cls(match[1], int(match[2]), int(match[3]))


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """`timestamp` is the record's own, `written` when it became a dead letter; milliseconds since 1970."""

    source: Source
    error: str
    timestamp: int | None
    written: int
    schema_id: str | None
    replayed_from: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def kind(self) -> str:
        """The error without the value that this record had."""
        match = _VALUE.fullmatch(self.error)
        return match[1] if match else self.error


def dead_letter_topic(definition: PipelineDefinition) -> str:
    if definition.dead_letter is None:
        raise PipelineError(
            f"{definition.name} has no topic for dead letters; name one in dead_letter: "
            f"{definition.topic}.dlq"
        )
    return definition.dead_letter


def dead_letters(
    definition: PipelineDefinition, topics: Topics, repeats: Counter[Source] | None = None
) -> Iterator[DeadLetter]:
    """The pipeline's dead letters in the order of writing; none when there is no topic yet.

    A batch that was run again has written them again: the first counts, the others are counted in `repeats`.
    """
    topic = dead_letter_topic(definition)
    if not topics.exists(topic):
        return
    seen: set[Source] = set()
    for message in topics.consume(topic):
        letter = _letter(message, definition.name)
        if letter is None:
            continue
        if letter.source in seen:
            if repeats is not None:
                repeats[letter.source] += 1
            continue
        seen.add(letter.source)
        yield letter


def _letter(message: Any, pipeline: str) -> DeadLetter | None:
    """None for records that no pipeline of this name has written."""
    headers: Headers = message.headers() or []
    told = {name: (value or b"").decode(errors="replace") for name, value in headers}
    source = Source.parse(told.get(SOURCE, ""))
    if source is None or told.get(PIPELINE) != pipeline:
        return None
    timestamp = told.get(TIMESTAMP, "")
    return DeadLetter(
        source=source,
        error=told.get(ERROR, ""),
        timestamp=int(timestamp) if timestamp.isdigit() else None,
        written=message.timestamp()[1],
        schema_id=told.get(SCHEMA_ID),
        replayed_from=told.get(REPLAYED_FROM),
        key=message.key(),
        value=message.value(),
        headers=[(name, value) for name, value in headers if not name.startswith(PREFIX)],
    )


def iso(milliseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
