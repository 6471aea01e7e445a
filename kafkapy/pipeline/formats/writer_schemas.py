"""The Avro schemas that records were written with, by the id that their framing carries.

They come from the files of `format.schemas`, or from the registry. Those of the registry are stored in the
state's schema.json, in the order in which they were met:

    {"avro": [{"id": 7, "schema": "..."}, ...]}

The file is written before the batch in which a schema was first met. So a batch that is run again has the
same schemas in the same order, and the same columns. The registry is asked once for each id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafkapy.pipeline.formats.avro_columns import avro_columns
from kafkapy.pipeline.formats.avro_schema import AvroSchema
from kafkapy.pipeline.formats.registry import Registry
from kafkapy.pipeline.formats.schema_text import schema_text
from kafkapy.pipeline.formats.spark_types import OWN_COLUMNS
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

# Registries count in Java's ints. A registry may answer a greater id with an error.
_LAST_ID: Final = 2**31 - 1


class WriterSchemas:
    def __init__(
        self,
        files: Mapping[int, str],
        registry: Registry | None,
        state: State,
        taken: Collection[str] = OWN_COLUMNS,
    ) -> None:
        """`taken` are the names, in lower case, that the table has for itself."""
        self._files = files
        self._registry = registry
        self._state, self._taken = state, taken
        self._schemas: dict[int, AvroSchema] | None = None
        #: Why an id cannot be used; completes "has the schema id 7, ".
        self.problems: dict[int, str] = {}

    @property
    def open_ended(self) -> bool:
        """Whether a registry may have more schemas than are known."""
        return self._registry is not None

    def check(self) -> None:
        self.known()
        if self._registry is not None:
            self._registry.check()

    def known(self) -> dict[int, AvroSchema]:
        """The schemas by id: files first, sorted by id, then in the order in which they were met."""
        if self._schemas is None:
            schemas = {number: read_schema(self._files[number]) for number in sorted(self._files)}
            for one in (self._state.schema or {}).get("avro", ()):
                schema = AvroSchema.parse(one["schema"])
                # Of earlier versions, a run stored a schema with a name that is taken, and ended.
                if self._problem(schema) is None:
                    schemas.setdefault(one["id"], schema)
            self._schemas = schemas
        return self._schemas

    def learn(self, ids: Iterable[int]) -> None:
        """Asks the registry for the unknown ones of the ids, and stores the answers."""
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
            return f"which no registry assigns: ids are at most {_LAST_ID}"
        registered = self._registry.schema(number)
        if registered is None:
            return f"which the registry {self._registry.url} does not know"
        if registered.kind != "AVRO":
            return f"which is a schema of {registered.kind}, not Avro"
        try:
            schema = AvroSchema.parse(registered.text, list(registered.references.values()))
        except PipelineError as error:
            return f"which cannot become columns: {error}"
        return self._problem(schema) or schema

    def _problem(self, schema: AvroSchema) -> str | None:
        """Why a schema cannot be used."""
        try:
            avro_columns(schema, self._taken)
        except PipelineError as error:
            return f"which cannot become columns: {error}"
        return None


def read_schema(schema: str) -> AvroSchema:
    """Reads and checks a schema, given as a file's path or as text."""
    text, source = schema_text(schema)
    try:
        parsed = AvroSchema.parse(text)
        avro_columns(parsed)
    except PipelineError as error:
        raise PipelineError(f"{source}: {error}") from None
    return parsed
