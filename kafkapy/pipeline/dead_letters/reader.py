"""Reads the dead letters of one pipeline, each once.

It does not need Spark. Dead letters of a former topic, which was deleted and recreated, are kept apart: the
present topic has other records at the same offsets.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.pipeline.dead_letters.dead_letters import (
    ERROR,
    PIPELINE,
    PREFIX,
    REPLAYED_FROM,
    SCHEMA_ID,
    TABLE_ID,
    TIMESTAMP,
)
from kafkapy.pipeline.dead_letters.source import Headers, Source, SourceSet
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import Incarnation, State
from kafkapy.pipeline.topics import Topics

# Matches the record's value after the column that it does not fit. Without it, the errors are the same.
_VALUE: Final = re.compile(r"(does not match the schema: .*? is not .*?) but .*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A record of the dead-letter topic.

    `timestamp` is that of the source record, `written` that of the dead letter, in milliseconds since 1970.
    `former` means that the source topic was deleted and recreated since.
    """

    source: Source
    former: bool
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
        """The error without the record's value."""
        match = _VALUE.fullmatch(self.error)
        return match[1] if match else self.error


def dead_letter_topic(definition: PipelineDefinition) -> str:
    if definition.dead_letter is None:
        raise PipelineError(
            f"{definition.name} has no dead-letter topic; name one in dead_letter: {definition.topic}.dlq"
        )
    return definition.dead_letter


def dead_letters(
    definition: PipelineDefinition,
    topics: Topics,
    repeats: Counter[Source] | None = None,
    *,
    start: Mapping[int, int] | None = None,
) -> Iterator[DeadLetter]:
    """The pipeline's dead letters in the order of writing, from the beginning or from `start`.

    Empty if the topic does not exist yet.

    A batch that was run again has written its dead letters again. Only the first of each is returned; the
    others are counted in `repeats`.
    """
    topic = dead_letter_topic(definition)
    if not topics.exists(topic):
        return
    incarnation = State.of(definition).incarnation or Incarnation(id="")
    seen = SourceSet()
    for message in topics.consume(topic, start=start):
        letter = _letter(message, definition.name, incarnation)
        if letter is None:
            continue
        if letter.source in seen:
            if repeats is not None:
                repeats[letter.source] += 1
            continue
        seen.add(letter.source)
        yield letter


def _letter(message: Any, pipeline: str, incarnation: Incarnation) -> DeadLetter | None:
    """Parses a record of the topic; None if another pipeline has written it."""
    headers: Headers = message.headers() or []
    told = texts(headers)
    source = Source.told(told)
    own = told[TABLE_ID] == incarnation.table_id if TABLE_ID in told else told.get(PIPELINE) == pipeline
    if source is None or not own:
        return None
    timestamp = told.get(TIMESTAMP, "")
    return DeadLetter(
        source=source,
        former=incarnation.of_former_topic(source.topic_id),
        error=told.get(ERROR, ""),
        timestamp=int(timestamp) if timestamp.isdigit() else None,
        written=message.timestamp()[1],
        schema_id=told.get(SCHEMA_ID),
        replayed_from=told.get(REPLAYED_FROM),
        key=message.key(),
        value=message.value(),
        headers=[(name, value) for name, value in headers if not name.startswith(PREFIX)],
    )


def texts(headers: Headers | None) -> dict[str, str]:
    return {name: (value or b"").decode(errors="replace") for name, value in headers or ()}


def iso(milliseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
