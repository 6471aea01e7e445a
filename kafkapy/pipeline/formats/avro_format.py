"""Avro: bare values of one schema, or framed values with their writer's schema id.

The framing is the schema registry's (`framing.py`). With `schemas` or a registry, values are framed, and
`schema`, if given, is the reader's: its fields are the columns. Without it the columns follow the writers
(avro_evolution.py). With `schema` alone, values are bare and were written with it.

Spark's `from_avro` returns a struct of nulls for a value that it cannot decode, and ignores bytes that are
left over after a value. So eight known bytes are appended to every value, which is decoded as the first field
of a record whose second field is these bytes. The value matches its schema if and only if they are read back.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.avro_columns import avro_columns, is_record
from kafkapy.pipeline.formats.avro_evolution import evolved, logical_conflict, widened
from kafkapy.pipeline.formats.avro_schema import AvroSchema
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.registry import registry_of
from kafkapy.pipeline.formats.spark_types import OWN_COLUMNS, Struct, kind_of, nullable, struct_of
from kafkapy.pipeline.formats.writer_schemas import WriterSchemas, read_schema
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_END: Final = b"\xf0kafkapy"
# Limits the requests to the registry per batch: bare values may look framed by chance.
_MOST_LOOKUPS: Final = 100
# Used before a writer's schema is known: no record can be valid then.
_NO_COLUMNS: Final = AvroSchema({"type": "map", "values": "null"}, {})


class AvroFormat(Format):
    def __init__(
        self, definition: FormatDefinition, state: State, taken: Collection[str] = OWN_COLUMNS
    ) -> None:
        """`taken` are the names, in lower case, that the table has for itself."""
        self._definition = definition
        self.writers: WriterSchemas | None = None
        if definition.registry or definition.schemas:
            # A reader's schema leaves out what it does not name, also fields with a name that is taken.
            names = taken if definition.schema is None else ()
            self.writers = WriterSchemas(definition.schemas, registry_of(definition), state, names)

    def check(self) -> None:
        self._given  # noqa: B018 - reads and checks it
        if self.writers is not None:
            self.writers.check()

    @functools.cached_property
    def _given(self) -> AvroSchema | None:
        schema = self._definition.schema
        return None if schema is None else read_schema(schema)

    def _reader(self) -> AvroSchema | None:
        """None before a writer's schema is known."""
        if self._given is not None:
            return self._given
        assert self.writers is not None
        reader: AvroSchema | None = None
        for writer in self.writers.known().values():
            reader = widened(writer) if reader is None else evolved(reader, writer)
        return reader

    @property
    def columns(self) -> Struct | None:
        reader = self._reader()
        return None if reader is None else avro_columns(reader)

    def parse(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if self.writers is None:
            assert self._given is not None
            decoded = _decoded(f.col("value"), self._given, self._given)
            return _told(records, self._given, decoded, f.lit(None), f.lit(None))
        if self.writers.open_ended:
            self.writers.learn(_ids_in(records))
        return self._parse_framed(records, self.writers)

    def _parse_framed(self, records: DataFrame, writers: WriterSchemas) -> DataFrame:
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.framing import framed_id, is_framed, unframed

        reader = self._reader() or _NO_COLUMNS
        schema_id = f.when(is_framed("value"), framed_id("value"))
        problems, by_id = dict(writers.problems), []
        for number, writer in writers.known().items():
            if conflict := logical_conflict(writer, reader):
                problems[number] = f"in which {conflict}"
            else:
                payload = _decoded(unframed("value"), writer, reader)
                by_id.append(f.when(schema_id == number, payload))
        decoded = f.coalesce(*by_id) if by_id else f.lit(None).cast("struct<value: string, end: binary>")
        error = f.when(schema_id.isNull(), "has no schema id (a zero byte, then the id in 4 bytes)")
        has = f.concat(f.lit("has the schema id "), schema_id, f.lit(", "))
        for number, problem in problems.items():
            error = error.when(schema_id == number, f.concat(has, f.lit(problem)))
        usable = [number for number in writers.known() if number not in problems]
        error = error.when(~schema_id.isin(usable), f.concat(has, f.lit("which is not known")))
        return _told(records, reader, decoded, error, schema_id)


def _ids_in(records: DataFrame) -> list[int]:
    """The schema ids of a batch, those of most records first."""
    from pyspark.sql import functions as f

    from kafkapy.pipeline.formats.framing import framed_id, is_framed

    ids = records.where(is_framed("value")).groupBy(framed_id("value").alias("id")).count()
    frequent = ids.orderBy(f.desc("count"), "id").limit(_MOST_LOOKUPS)
    return sorted(row["id"] for row in frequent.collect())


def _decoded(payload: Column, writer: AvroSchema, reader: AvroSchema) -> Column:
    """A struct of `value`, in the reader's schema, and `end`, the appended bytes."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    options = {
        "mode": "PERMISSIVE",
        "enableStableIdentifiersForUnionType": "true",
        "avroSchema": _with_end(reader),
    }
    return from_avro(f.concat(payload, f.lit(_END)), _with_end(writer), options)


def _with_end(schema: AvroSchema) -> str:
    defined: set[str] = set()
    end = {"type": "fixed", "name": "kafkapy.End", "size": len(_END)}
    fields = [
        {"name": "value", "type": schema.expanded(schema.root, defined)},
        {"name": "end", "type": end},
    ]
    return json.dumps({"type": "record", "name": "kafkapy.Whole", "fields": fields})


def _told(
    records: DataFrame, reader: AvroSchema, decoded: Column, error: Column, schema_id: Column
) -> DataFrame:
    """Adds the columns of the result.

    `error` is null for a value that had to be decoded.
    """
    from pyspark.sql import functions as f

    whole = f.coalesce(f.col("_decoded.end") == f.lit(_END), f.lit(False))
    of_schema = f.concat(
        f.lit("is not Avro of the schema"), f.coalesce(f.concat(f.lit(" "), schema_id), f.lit(""))
    )
    errors = f.when(f.col("value").isNotNull(), f.coalesce(error, f.when(~whole, of_schema)))
    good = f.col("_error").isNull() & f.col("value").isNotNull()
    return (
        records.withColumns({"_decoded": decoded, "_schema_id": schema_id.cast("bigint")})
        .withColumn("_error", errors)
        .withColumn("_data", f.when(good, _row(reader)))
        .select(*records.columns, "_data", "_error", "_schema_id")
    )


def _row(reader: AvroSchema) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    value = f.col("_decoded.value")
    if reader is _NO_COLUMNS:
        return f.struct()
    columns = []
    for one in avro_columns(reader)["fields"]:
        column = value.getField(one["name"]) if is_record(reader) else value
        if kind_of(one["type"]) in ("struct", "array", "map"):
            # A required field is one of the record; the row may be a tombstone's.
            wrapped = nullable(struct_of([one]))
            column = column.cast(StructType.fromJson(wrapped)[0].dataType)
        columns.append(column.alias(one["name"]))
    return f.struct(*columns)
