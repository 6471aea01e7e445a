"""Unwraps the changes of a source table, so that upserts make the same table.

    created, updated, read by a snapshot    the row as it is now
    deleted                                 `_deleted`; the row of the key goes, with or without a tombstone
    a null value (tombstone)                by the record's key, it deletes as ever; by columns, which it does
                                            not have, it is left out, since the delete before it said it
    a mark, such as a snapshot's begin      left out
    a truncation, any other operation       an error: what it does to the source is not done to the table

Changes of a row are in one partition, in their order, as long as the record's key is that of the row. A
change of the key itself comes as a delete of the former key and a create of the new one, which may be in
different partitions, and touch different rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from kafkapy.pipeline.formats.changes.envelope import Envelope
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.spark_types import Struct, checked_columns, nullable
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ChangeFormat(Format):
    def __init__(
        self, inner: Format, envelope: Envelope, taken: Collection[str], *, by_columns: bool
    ) -> None:
        """`inner` reads the envelopes.

        `taken` are the names, in lower case, that the table has for itself. `by_columns` says that rows are
        matched by columns, which a delete must have too.
        """
        self._inner, self._envelope, self._taken = inner, envelope, taken
        self._by_columns = by_columns

    def check(self) -> None:
        self._inner.check()
        self.columns  # noqa: B018 - finds the row in the envelope

    @property
    def columns(self) -> Struct | None:
        columns = self._inner.columns
        return None if columns is None else self._row_of(columns)

    def _row_of(self, columns: Struct) -> Struct:
        row = self._envelope.row_of(columns)
        if row is None:
            raise PipelineError(
                f"format.changes: the values have no {self._envelope.operation} beside a record "
                f"{self._envelope.row}, so they are no changes as {self._envelope.name} writes them"
            )
        return checked_columns(row, self._taken)

    def learn(self, parsed: DataFrame) -> bool:
        return self._inner.learn(parsed)

    def parse(self, records: DataFrame) -> DataFrame:
        return self._unwrapped(self._inner.parse(records))

    def reparse(self, records: DataFrame) -> DataFrame:
        return self._unwrapped(self._inner.reparse(records))

    def _unwrapped(self, parsed: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        from kafkapy.pipeline.formats.outcomes import CHANGES

        columns: Struct = json.loads(parsed.schema["_data"].dataType.json())
        if not columns["fields"]:  # no value was valid so far
            ignored = f.col("value").isNull() & f.lit(self._by_columns)
            return parsed.withColumns({"_deleted": f.lit(False), "_left_out": f.when(ignored, CHANGES)})
        envelope = self._envelope
        row = StructType.fromJson(nullable(self._row_of(columns)))

        def of(name: str, kind: StructType | str) -> Column:
            found = []
            for path, form in envelope.forms_of(columns):
                if any(one["name"] == name for one in form["fields"]):
                    value = f.col("_data")
                    for step in (*path, name):
                        value = value.getField(step)
                    found.append(value.cast(kind))
            return f.coalesce(*found, f.lit(None).cast(kind))

        opened = parsed.withColumns(
            {
                "_operation": of(envelope.operation, "string"),
                "_row": of(envelope.row, row),
                "_former": of(envelope.former, row),
            }
        )
        is_value, good = f.col("value").isNotNull(), f.col("_error").isNull()
        deletes, marks = self._is_one_of(envelope.deletes), self._is_one_of(envelope.marks)
        left_out = marks & is_value
        if self._by_columns:
            left_out |= ~is_value
        wanted = f.when(~deletes, f.col("_row"))
        if self._by_columns:
            wanted = wanted.otherwise(f.col("_former"))
        error = f.coalesce("_error", f.when(is_value, f.coalesce(self._error(), *self._missing())))
        opened = opened.withColumn("_error", error)
        return opened.withColumns(
            {
                "_data": f.when(is_value & good & ~marks, wanted),
                "_deleted": is_value & good & deletes,
                "_left_out": f.when(good & left_out, CHANGES),
            }
        ).drop("_operation", "_row", "_former")

    def _missing(self) -> list[Column]:
        """An error for each field of a row that is null and may not be.

        A delete may have its key alone.
        """
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import missing_fields

        columns, name = self.columns, self._envelope.row
        missing = [] if columns is None else missing_fields(columns, f.col("_row"), f"{name}.")
        return [f.when(self._is_one_of(self._envelope.writes), one) for one in missing]

    def _is_one_of(self, operations: tuple[str, ...]) -> Column:
        from pyspark.sql import functions as f

        return f.coalesce(f.col("_operation").isin(*operations), f.lit(False))

    def _error(self) -> Column:
        """The error of a value that is no change of a row; null if it is one."""
        from pyspark.sql import functions as f

        envelope, operation = self._envelope, f.col("_operation")
        error = f.when(operation.isNull(), f"is no change: it has no {envelope.operation}")
        for one, does in envelope.refused.items():
            error = error.when(
                operation == one, f"{does} ({envelope.operation} {one}), which is not followed"
            )
        known = (*envelope.writes, *envelope.deletes, *envelope.marks)
        unknown = f.concat(f.lit(f"has an unknown {envelope.operation}: "), f.left(operation, f.lit(40)))
        error = error.when(~operation.isin(*known), unknown)
        without = "is a change without a row: {} is missing"
        error = error.when(
            self._is_one_of(envelope.writes) & f.col("_row").isNull(), without.format(envelope.row)
        )
        if self._by_columns:
            missing = self._is_one_of(envelope.deletes) & f.col("_former").isNull()
            error = error.when(missing, without.format(envelope.former))
        return error
