"""Schema evolution: rows of a later schema in a table of an earlier one.

A table gains columns, and loses none. A column, or a field of a struct at any depth, that the table lacks is
added as nullable. One that the rows lack is null. Names are compared without regard to case, as Spark does,
and the table's spelling is kept. A value of a narrower type (INT into BIGINT, FLOAT into DOUBLE, a smaller
DECIMAL) is converted. For a wider one the column's type changes, if that is wanted and the format can
(`widening.py`); any other change of type is refused. A column that has had only nulls has no type yet and is
not added.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StructField,
    StructType,
)

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.tables.sql import ddl, quoted
from kafkapy.pipeline.tables.widening import Widening, least_type


@dataclass(frozen=True)
class ChangedColumn:
    """A column that the table gains, or that gets another type.

    `path` has the form of ALTER TABLE ADD COLUMNS: `element` and `value` stand for the content of arrays and
    maps.
    """

    path: tuple[str, ...]
    kind: DataType


class Evolution:
    """The schema that a table of `stored` has with rows of `arriving`.

    `added` are the columns to add, `widened` those to give another type. Raises PipelineError with the
    column and both types if a type has changed otherwise.
    """

    def __init__(self, stored: StructType, arriving: StructType, table: str, widening: Widening) -> None:
        self._table, self._widening = table, widening
        self.added: list[ChangedColumn] = []
        self.widened: list[ChangedColumn] = []
        self.schema: StructType = self._struct((), stored, arriving)

    def _struct(self, path: tuple[str, ...], stored: StructType, arriving: StructType) -> StructType:
        sources = {field.name.lower(): field.dataType for field in arriving}
        fields = []
        for field in stored:
            source = sources.get(field.name.lower(), NullType())
            fields.append(StructField(field.name, self._merged((*path, field.name), field.dataType, source)))
        present = {field.name.lower() for field in stored}
        for field in arriving:
            kind = known(field.dataType)
            if field.name.lower() not in present and kind is not None:
                self.added.append(ChangedColumn((*path, field.name), kind))
                fields.append(StructField(field.name, kind))
        return StructType(fields)

    def _merged(self, path: tuple[str, ...], stored: DataType, arriving: DataType) -> DataType:
        if isinstance(stored, StructType) and isinstance(arriving, StructType):
            return self._struct(path, stored, arriving)
        if isinstance(stored, ArrayType) and isinstance(arriving, ArrayType):
            return ArrayType(self._merged((*path, "element"), stored.elementType, arriving.elementType))
        if isinstance(stored, MapType) and isinstance(arriving, MapType):
            return MapType(
                self._merged((*path, "key"), stored.keyType, arriving.keyType),
                self._merged((*path, "value"), stored.valueType, arriving.valueType),
            )
        if isinstance(arriving, NullType):
            return stored
        least = least_type(stored, arriving)
        if least is not None and ddl(least) == ddl(stored):
            return stored
        if (wider := self._widening.type_for(stored, arriving)) is not None:
            self.widened.append(ChangedColumn(path, wider))
            return wider
        raise PipelineError(
            f"{self._table}: the column {'.'.join(path)} is {_shown(stored)} in the table and "
            f"{_shown(arriving)} in the topic; {self._widening.remedy(stored, arriving)}"
            f"give the format a schema with {_shown(stored)}, or write to a new table"
        )


def as_stored(value: Column, arriving: DataType, stored: DataType) -> Column:
    """The value as the table stores it, in a type that holds all values of both types.

    It is left as it is if there is no such type.
    """
    column = [StructType([StructField("value", kind)]) for kind in (stored, arriving)]
    try:
        evolution = Evolution(column[0], column[1], "", Widening(""))
    except PipelineError:
        return value
    return _converted(value, arriving, evolution.schema[0].dataType)


def known(kind: DataType) -> DataType | None:
    """The type, with all parts nullable and without parts that had only nulls.

    None if nothing is left.
    """
    if isinstance(kind, NullType):
        return None
    if isinstance(kind, StructType):
        fields = [(field.name, known(field.dataType)) for field in kind]
        left = [StructField(name, part) for name, part in fields if part is not None]
        return StructType(left) if left else None
    if isinstance(kind, ArrayType):
        element = known(kind.elementType)
        return None if element is None else ArrayType(element)
    if isinstance(kind, MapType):
        key, value = known(kind.keyType), known(kind.valueType)
        return None if key is None or value is None else MapType(key, value)
    return kind


def _shown(kind: DataType) -> str:
    return ddl(kind).replace("`", "").upper()


def fitted(rows: DataFrame, stored: StructType) -> DataFrame:
    """`rows` with exactly the columns of the table.

    Columns with the right type are not changed.
    """
    arriving = {field.name.lower(): field for field in rows.schema}
    columns = []
    for field in stored:
        source = arriving.get(field.name.lower())
        if source is None:
            column = f.lit(None).cast(field.dataType)
        else:
            column = _converted(f.col(quoted(source.name)), source.dataType, field.dataType)
        columns.append(column.alias(field.name))
    return rows.select(*columns)


def _converted(value: Column, arriving: DataType, stored: DataType) -> Column:
    if ddl(arriving) == ddl(stored):
        return value
    if isinstance(arriving, StructType) and isinstance(stored, StructType):
        present = {field.name.lower(): field for field in arriving}
        parts = []
        for field in stored:
            source = present.get(field.name.lower())
            part = (
                f.lit(None).cast(field.dataType)
                if source is None
                else _converted(value.getField(source.name), source.dataType, field.dataType)
            )
            parts.append(part.alias(field.name))
        return f.when(value.isNotNull(), f.struct(*parts))
    if isinstance(arriving, ArrayType) and isinstance(stored, ArrayType):
        return f.transform(value, lambda one: _converted(one, arriving.elementType, stored.elementType))
    if isinstance(arriving, MapType) and isinstance(stored, MapType):
        keys = f.transform_keys(value, lambda key, _: _converted(key, arriving.keyType, stored.keyType))
        return f.transform_values(keys, lambda _, one: _converted(one, arriving.valueType, stored.valueType))
    return value.cast(stored)
