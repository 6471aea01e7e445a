"""Encodes rows as Avro values: the reverse of avro_columns.py.

A table may have the columns of several writers' schemas, and no single schema may fit every row: the newest
may have dropped a field or a symbol, or have an int where the table has a BIGINT. Each row is written with
the newest schema that fits it completely, so that no column with a value is left out. If none does, it is
written with the newest schema that can represent the row at all. Fields are matched by name, at every depth:

    a field that the table lacks        null or the default; a schema with neither cannot be used
    a column that the schema lacks      left out
    null where the schema has no null   the field's default, if it is of a primitive type
    another number type                 converted, if the value stays the same

A union of several types besides null cannot be written: Spark's to_avro cannot select the branch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from kafkapy.pipeline.formats.avro_columns import avro_columns, is_record
from kafkapy.pipeline.formats.avro_schema import PRIMITIVES, AvroSchema, branches, is_optional
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.tables.sql import ddl, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBERS: Final = (IntegerType, LongType, FloatType, DoubleType)


class AvroRows:
    """Encodes the columns `parsed` of `rows` as Avro values.

    `schemas` has the oldest first, each with the id that its values carry, or None for bare values. Raises
    PipelineError, with the column's name, for a schema or a row that cannot be written.
    """

    def __init__(
        self, rows: DataFrame, parsed: Sequence[str], schemas: Sequence[tuple[int | None, AvroSchema]]
    ) -> None:
        self._rows, self._parsed = rows, parsed
        usable, problems = [], []
        for number, schema in reversed(schemas):
            try:
                usable.append((number, schema, self._cell(schema)))
            except PipelineError as problem:
                problems.append(problem)
        if not usable:
            raise problems[0]
        self._usable = usable

    def value(self) -> Column:
        self._check()
        complete = [
            (cell.problem.isNull() & cell.complete, _encoded(number, schema, cell))
            for number, schema, cell in self._usable
        ]
        partly = [
            (cell.problem.isNull(), _encoded(number, schema, cell)) for number, schema, cell in self._usable
        ]
        (first, value), *others = [*complete, *partly]
        chosen = f.when(first, value)
        for condition, value in others:
            chosen = chosen.when(condition, value)
        return chosen.otherwise(f.raise_error("a row fits no schema").cast("binary"))

    def _check(self) -> None:
        """Raises PipelineError for a row that cannot be written, before anything is written."""
        problems = [cell.problem for *_, cell in self._usable]
        present = f.greatest(*[f.col(quoted(name)).isNotNull() for name in self._parsed], f.lit(False))
        bad = self._rows.where(present)
        for problem in problems:
            bad = bad.where(problem.isNotNull())
        for row in bad.select("_topic", "_partition", "_offset", problems[0].alias("column")).take(1):
            raise PipelineError(
                f"the row of {row['_topic']}-{row['_partition']}-{row['_offset']} has a value in the column "
                f"{row['column']} that no Avro schema of the topic can hold; leave such rows out with --where"
            )

    def _cell(self, schema: AvroSchema) -> _Cell:
        """The row encoded with one schema."""
        have = self._rows.select(*[f.col(quoted(name)) for name in self._parsed]).schema
        want = StructType.fromJson(avro_columns(schema))
        making = _Making(schema)
        row = f.struct(*[f.col(quoted(name)) for name in self._parsed])
        if is_record(schema):
            (root,) = branches(schema.root)
            return making.record(row, have, want, schema.named[root], "")
        if "value" not in have.names:
            raise PipelineError("the table has no column value, which the Avro schema requires")
        return making.cell(
            row.getField("value"), have["value"].dataType, want[0].dataType, schema.root, "value"
        )


def _encoded(number: int | None, schema: AvroSchema, cell: _Cell) -> Column:
    payload = to_avro(cell.value, schema.text())
    return payload if number is None else f.concat(f.lit(b"\0" + struct.pack(">I", number)), payload)


@dataclass(frozen=True)
class _Cell:
    """A value as `to_avro` takes it.

    `problem` is the path of a part that cannot be written, or null. `complete` is true if nothing is left
    out.
    """

    value: Column
    problem: Column
    complete: Column


class _Making:
    """Builds the cells of one schema.

    `have` is the type in the table, `want` the column type of the Avro schema `kind`.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self._named = schema.named

    def cell(self, value: Column, have: DataType, want: DataType, kind: Any, path: str) -> _Cell:
        real = branches(kind)
        if len(real) != 1:
            raise PipelineError(
                f"the column {path} is a union of several types in the Avro schema, which cannot be written"
            )
        present = self._present(value, have, want, real[0], path)
        missing = None if is_optional(kind) else path
        return _Cell(
            present.value,
            f.when(value.isNull(), f.lit(missing)).otherwise(present.problem),
            value.isNull() | present.complete,
        )

    def record(
        self, value: Column, have: StructType, want: StructType, definition: dict[str, Any], path: str
    ) -> _Cell:
        """The cell of a record that is not null."""
        further = {one.name.lower(): one for one in have}
        cells = []
        for one in definition["fields"]:
            where = f"{path}.{one['name']}".removeprefix(".")
            wanted = want[one["name"]].dataType
            default = f.lit(one["default"] if "default" in one and one["type"] in PRIMITIVES else None)
            source = further.pop(one["name"].lower(), None)
            if source is not None:
                given = f.coalesce(value.getField(source.name), default.cast(source.dataType))
                made = self.cell(given, source.dataType, wanted, one["type"], where)
            elif is_optional(one["type"]) or ("default" in one and one["type"] in PRIMITIVES):
                made = self.cell(default.cast(wanted), wanted, wanted, one["type"], where)
            else:
                raise PipelineError(f"the table has no column {where}, which the Avro schema requires")
            cells.append((one["name"], made))
        complete = f.lit(True)
        for condition in (
            *(made.complete for _, made in cells),
            *(value.getField(one.name).isNull() for one in further.values()),
        ):
            complete = complete & condition
        return _Cell(
            f.struct(*[made.value.alias(name) for name, made in cells]),
            f.coalesce(*[made.problem for _, made in cells], f.lit(None).cast("string")),
            complete,
        )

    def _present(self, value: Column, have: DataType, want: DataType, kind: Any, path: str) -> _Cell:
        definition = kind if isinstance(kind, dict) else self._named.get(kind, {"type": kind})
        if isinstance(have, StructType) and isinstance(want, StructType):
            made = self.record(value, have, want, definition, path)
            return _Cell(f.when(value.isNotNull(), made.value), made.problem, made.complete)
        if isinstance(have, ArrayType) and isinstance(want, ArrayType):
            return self._array(value, have, want, definition["items"], f"{path}[]")
        if isinstance(have, MapType) and isinstance(want, MapType):
            return self._map(value, have, want, definition["values"], f"{path}{{}}")
        return _scalar(value, have, want, definition, path)

    def _array(self, value: Column, have: ArrayType, want: ArrayType, kind: Any, path: str) -> _Cell:
        def made(one: Column) -> _Cell:
            return self.cell(one, have.elementType, want.elementType, kind, path)

        return _Cell(
            f.transform(value, lambda one: made(one).value),
            f.when(f.exists(value, lambda one: made(one).problem.isNotNull()), path),
            f.forall(value, lambda one: made(one).complete),
        )

    def _map(self, value: Column, have: MapType, want: MapType, kind: Any, path: str) -> _Cell:
        def made(one: Column) -> _Cell:
            return self.cell(one, have.valueType, want.valueType, kind, path)

        values = f.map_values(value)
        return _Cell(
            f.transform_values(value, lambda _, one: made(one).value),
            f.when(f.exists(values, lambda one: made(one).problem.isNotNull()), path),
            f.forall(values, lambda one: made(one).complete),
        )


def _scalar(value: Column, have: DataType, want: DataType, definition: dict[str, Any], path: str) -> _Cell:
    fits = complete = f.lit(True)
    if ddl(have) == ddl(want):
        made = value
        if definition["type"] == "enum":
            fits = value.isin(definition["symbols"])
        elif definition["type"] == "fixed" and isinstance(want, BinaryType):
            fits = f.length(value) == definition["size"]
        elif str(definition.get("logicalType")).endswith("timestamp-millis"):
            complete = f.date_format(value, "SSSSSS").endswith("000")
    elif _is_number(have, want):
        made = value.try_cast(want)
        fits = made.try_cast(have).eqNullSafe(value)
    elif isinstance(have, StringType) and isinstance(want, BinaryType) and definition["type"] == "bytes":
        made = value.cast(want)
    else:
        kinds = f"{ddl(have).upper()} in the table and {ddl(want).upper()} in the Avro schema"
        raise PipelineError(f"the column {path} is {kinds}")
    return _Cell(made, f.when(~fits, path), complete)


def _is_number(have: DataType, want: DataType) -> bool:
    if isinstance(have, DecimalType) and isinstance(want, DecimalType):
        return True
    return isinstance(have, _NUMBERS) and isinstance(want, _NUMBERS)
