"""Unwraps the messages of Canal, each of which has the rows that one statement changed.

    {"type": "UPDATE", "isDdl": false, "data": [{...}, ...], "old": [{...}, ...], "pkNames": [...], ...}

`data` are whole rows, for a deletion those that were deleted. `old` has, of each updated row, the former
values of the columns that changed. All values are texts (`text_values.py`), so a schema gives their types.

    INSERT, UPDATE          the rows; an update of a key column also deletes the row of the former key
    DELETE                  deletes the rows
    other statements        change no row: left out
    TRUNCATE, ERASE         an error: what it does to the source is not done to the table

Of several changes of one key in a message, the last one counts, since all of them have the place of the
record. So each is of another row. Rows are matched by columns: records of Canal have no keys. An error in one
row is that of the whole record.
"""

from __future__ import annotations

from functools import cached_property
from operator import or_
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.formats.balanced import balanced
from kafkapy.pipeline.formats.changes.text_values import KINDS, value_of
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.json_format import JsonFormat
from kafkapy.pipeline.formats.spark_types import (
    Struct,
    all_types,
    array,
    checked_columns,
    kind_of,
    map_of,
    nullable,
    sql_name,
    struct,
)
from kafkapy.pipeline.named_columns import key_problem
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame

_ROWS: Final = array(map_of("string", "string"))
_MESSAGE: Final = struct({"type": "string", "isDdl": "boolean", "data": _ROWS, "old": _ROWS})
_WRITES: Final = ("INSERT", "UPDATE")
_DELETE: Final = "DELETE"
# Statements, and what else Canal and TiDB write into a topic.
_MARKS: Final = (
    *("CREATE", "ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY", "GTID"),
    *("XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "TIDB_WATERMARK"),
)
REFUSED: Final = {"TRUNCATE": "truncates the source table", "ERASE": "drops the source table"}


class CanalFormat(Format):
    def __init__(self, rows: JsonFormat, keys: Sequence[str], taken: Collection[str]) -> None:
        """`rows` has the schema of the rows, which are matched by the columns `keys`.

        `taken` are the names, in lower case, that the table has for itself.
        """
        self._rows, self._keys, self._taken = rows, keys, taken

    def check(self) -> None:
        self._rows.check()
        self.columns  # noqa: B018 - checks it

    @cached_property
    def columns(self) -> Struct:
        columns = checked_columns(self._rows.columns, self._taken)
        for path, kind in all_types(columns):
            if kind_of(kind) not in KINDS:
                raise PipelineError(
                    f"format.schema: {path} is {sql_name(kind)}, which canal writes as a text; use STRING"
                )
        if problem := key_problem(self._keys, columns):
            raise PipelineError(problem)
        return columns

    @property
    def _key_columns(self) -> list[tuple[str, str]]:
        """The names and types."""
        wanted = [key.lower() for key in self._keys]
        return [(one["name"], one["type"]) for one in self.columns["fields"] if one["name"].lower() in wanted]

    def parse(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import parse_json
        from kafkapy.pipeline.formats.outcomes import CHANGES

        parsed = parse_json(records, _MESSAGE)
        is_value, good = f.col("value").isNotNull(), f.col("_error").isNull()
        mark = f.coalesce(f.col("_data.isDdl"), f.lit(False)) | _is_one_of(*_MARKS)
        mark &= ~_is_one_of(*REFUSED)
        parsed = parsed.withColumns(
            {
                "_error": f.coalesce("_error", f.when(is_value & ~mark, self._error())),
                "_left_out": f.when(good & (mark | ~is_value), CHANGES),
            }
        )
        changes = f.col("_error").isNull() & f.col("_left_out").isNull()
        parsed = parsed.withColumn("_changed", f.when(changes, self._changed_rows()))
        parsed = parsed.withColumn("_changes", f.array_sort(self._changes(f.col("_changed"))))
        exploded = parsed.withColumn("_change", f.explode_outer(_last_of_each_key(f.col("_changes"))))
        deleted = f.coalesce(f.col("_change.deleted"), f.lit(False))
        return exploded.withColumns({"_data": f.col("_change.row"), "_deleted": deleted}).drop(
            "_changed", "_changes", "_change"
        )

    def _changed_rows(self) -> Column:
        """The rows of `data` with the types of the columns."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import ArrayType, StructType

        def row(texts: Column) -> Column:
            return f.struct(
                *(
                    value_of(one["type"], _text(texts, one["name"])).alias(one["name"])
                    for one in self.columns["fields"]
                )
            )

        kind = StructType.fromJson(nullable(self.columns))
        return f.transform("_data.data", row).cast(ArrayType(kind))

    def _changes(self, rows: Column) -> Column:
        """Each change as a struct of `key`, `number`, `deleted` and `row`."""
        from pyspark.sql import functions as f

        def change(row: Column, number: Column, deleted: Column) -> Column:
            key = f.struct(*(row.getField(name).alias(name) for name, _ in self._key_columns))
            names = ("key", "number", "deleted", "row")
            columns = zip((key, number, deleted, row), names, strict=True)
            return f.struct(*(column.alias(name) for column, name in columns))

        def former(row: Column, number: Column) -> Column:
            old = f.get("_data.old", number)
            before, differs = row, []
            for name, kind in self._key_columns:
                value = value_of(kind, _text(old, name))
                differs.append(f.coalesce(value != row.getField(name), f.lit(False)))
                before = before.withField(f"`{name}`", f.coalesce(value, row.getField(name)))
            return f.when(balanced(or_, differs), change(before, number * 2, f.lit(True)))

        deletes = _is_one_of(_DELETE)
        present = f.transform(rows, lambda row, number: change(row, number * 2 + 1, deletes))
        formers = f.array_compact(f.transform(rows, former))
        return f.when(_is_one_of("UPDATE"), f.concat(formers, present)).otherwise(present)

    def _error(self) -> Column:
        """The error of a message that cannot be followed.

        Null if it can.
        """
        from pyspark.sql import functions as f

        operation, rows = f.col("_data.type"), f.col("_data.data")
        error = f.when(operation.isNull(), "is no change: it has no type")
        for one, does in REFUSED.items():
            error = error.when(operation == one, f"{does} (type {one}), which is not followed")
        unknown = f.concat(f.lit("has an unknown type: "), f.left(operation, f.lit(40)))
        error = error.when(~_is_one_of(*_WRITES, _DELETE), unknown)
        none = rows.isNull() | (f.size(rows) == 0) | f.exists(rows, lambda row: row.isNull())
        error = error.when(none, "is a change without a row: data is missing")
        found = f.filter(f.transform(rows, self._error_of), lambda one: one.isNotNull())
        return error.otherwise(f.get(found, f.lit(0)))

    def _error_of(self, texts: Column) -> Column:
        """The error of a row; a deleted one may have its key alone."""
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import MISFIT

        keys, errors = [name for name, _ in self._key_columns], []
        for one in self.columns["fields"]:
            name, kind = one["name"], one["type"]
            text = _text(texts, name)
            told = f"{MISFIT}data.{name} is not {sql_name(kind)} but "
            wrong = f.concat(f.lit(told), f.left(text, f.lit(60)))
            errors.append(f.when(text.isNotNull() & value_of(kind, text).isNull(), wrong))
            if name in keys:
                errors.append(f.when(text.isNull(), f"has no value in the key column {name}"))
            elif not one["nullable"]:
                missing = text.isNull() & ~_is_one_of(_DELETE)
                errors.append(f.when(missing, f"{MISFIT}data.{name} is missing"))
        return f.coalesce(*errors, f.lit(None).cast("string"))


def _last_of_each_key(changes: Column) -> Column:
    """The last change of each key.

    `changes` are in the order of their keys and numbers.
    """
    from pyspark.sql import functions as f

    following = f.slice(changes, f.lit(2), f.size(changes))
    last = f.zip_with(
        changes, following, lambda one, other: f.when(other.isNull() | (one["key"] != other["key"]), one)
    )
    return f.array_compact(last)


def _is_one_of(*operations: str) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.col("_data.type").isin(*operations), f.lit(False))


def _text(texts: Column, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.try_element_at(texts, f.lit(name))
