"""The Avro schemas that records were written with, by the id that their framing carries.

They come from the files of `format.schemas`, else from the registry. Those of the registry are kept in the
state's schema.json, in the order in which they were met:

    {"avro": [{"id": 7, "schema": "..."}, ...]}

It is written before the batch in which they were met first: run again, the batch meets the same schemas in
the same order, and with them the same columns. What was asked once is never asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.pipeline.formats.avro_columns import avro_columns
from kafkapy.pipeline.formats.avro_schema import AvroSchema
from kafkapy.pipeline.formats.registry import Registry
from kafkapy.pipeline.formats.schema_text import schema_text
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

# Registries count in Java's ints; a greater one is that of no schema, and a registry may call it a mistake.
_LAST_ID: Final = 2**31 - 1


class WriterSchemas:
    def __init__(self, files: Mapping[int, str], registry: str | None, state: State) -> None:
        self._files = files
        self._registry = None if registry is None else Registry(registry)
        self._state = state
        self._schemas: dict[int, AvroSchema] | None = None
        #: of ids that cannot be used: completes "has the schema id 7, "
        self.problems: dict[int, str] = {}

    @property
    def open_ended(self) -> bool:
        """Whether there may be more than are known."""
        return self._registry is not None

    def check(self) -> None:
        self.known()
        if self._registry is not None:
            self._registry.check()

    def known(self) -> dict[int, AvroSchema]:
        """By id, in the order in which they were met; files first, by id."""
        if self._schemas is None:
            schemas = {number: read_schema(self._files[number]) for number in sorted(self._files)}
            for one in (self._state.schema or {}).get("avro", ()):
                schemas.setdefault(one["id"], AvroSchema.parse(one["schema"]))
            self._schemas = schemas
        return self._schemas

    def learn(self, ids: Iterable[int]) -> None:
        """Asks the registry for those of the ids that are not known.

        Writes down what it answers.
        """
        known = self.known()
        learnt = False
        for number in ids:
            if number in known:
                continue
            self.problems.pop(number, None)
            schema = self._ask(number)
            if isinstance(schema, str):
                self.problems[number] = schema
            else:
                known[number] = schema
                learnt = True
        if learnt:
            entries = [
                {"id": number, "schema": schema.text()}
                for number, schema in known.items()
                if number not in self._files
            ]
            self._state.schema = {"avro": entries}

    def _ask(self, number: int) -> AvroSchema | str:
        assert self._registry is not None
        if number > _LAST_ID:
            return f"which no registry gives: ids are at most {_LAST_ID}"
        registered = self._registry.schema(number)
        if registered is None:
            return f"which the registry {self._registry.url} does not know"
        if registered.kind != "AVRO":
            return f"which is one of {registered.kind}, not Avro"
        try:
            schema = AvroSchema.parse(registered.text, registered.references)
            avro_columns(schema)
        except PipelineError as error:
            return f"which cannot be columns: {error}"
        return schema


def read_schema(schema: str) -> AvroSchema:
    """Of a file, or the schema itself; checked to be columns."""
    text, source = schema_text(schema)
    try:
        parsed = AvroSchema.parse(text)
        avro_columns(parsed)
    except PipelineError as error:
        raise PipelineError(f"{source}: {error}") from None
    return parsed
