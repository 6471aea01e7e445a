"""Finds the updates of Oracle GoldenGate that cannot be applied to a table exactly.

    {"table": "SHOP.ORDERS", "op_type": "U", "op_ts": ..., "pos": ..., "before": {...}, "after": {...}}

It follows what the source's log has, and so an update may lack the columns that it did not change, unless all
of them are logged. In JSON such a column is absent, or null beside `COLUMN_isMissing: true`; one that is null
is there. An update of a key column is one message, with the former key in `before`: the row of the former key
would have to go too. Both are errors. An insert has all columns, so one that it lacks is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.formats.changes.envelope import Envelope
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.spark_types import Struct, struct_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_UPDATE: Final = "U"
_IS_MISSING: Final = "_isMissing"


class WholeRowsFormat(Format):
    def __init__(self, inner: Format, envelope: Envelope, keys: Sequence[str]) -> None:
        """`inner` reads the envelopes; rows are matched by the columns `keys`."""
        self._inner, self._envelope = inner, envelope
        self._keys = [key.lower() for key in keys]

    def check(self) -> None:
        self._inner.check()

    @property
    def columns(self) -> Struct | None:
        return self._inner.columns

    def parse(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import json_text

        parsed = json_text(self._inner.parse(records))
        error = f.coalesce("_error", f.when(f.col("value").isNotNull(), self._error()))
        good = error.isNull()
        return parsed.withColumns({"_error": error, "_data": f.when(good, f.col("_data"))}).drop("_text")

    def _error(self) -> Column:
        """The error of a write that lacks columns or changes the key; null of all else."""
        from pyspark.sql import functions as f

        envelope, columns = self._envelope, self.columns
        assert columns is not None  # there is a schema
        fields = envelope.row_of(columns) or struct_of([])
        names = [one["name"] for one in fields["fields"]]
        operation, row = self._at(envelope.operation), self._at(envelope.row)
        updates = f.coalesce(operation == _UPDATE, f.lit(False))
        writes = f.coalesce(operation.isin(*envelope.writes), f.lit(False)) & row.isNotNull()
        # Only a null column may be missing: most rows need not be read once more.
        nulls = reduce(or_, [row.getField(name).isNull() for name in names], f.lit(False))
        written = f.from_json(f.get_json_object("_text", f"$.{envelope.row}"), "map<string, string>")

        def missing(name: str) -> Column:
            absent = updates & ~f.map_contains_key(written, name)
            marked = f.try_element_at(written, f.lit(f"{name}{_IS_MISSING}")) == "true"
            without = f"does not have the column {name}, which its source did not log"
            return f.when(row.getField(name).isNull() & (absent | f.coalesce(marked, f.lit(False))), without)

        def changed(name: str) -> Column:
            before = self._at(envelope.former).getField(name)
            differs = before.isNotNull() & ~before.eqNullSafe(row.getField(name))
            return f.when(differs, f"changes the key column {name}, which is not followed")

        lacking = f.when(writes & nulls, f.coalesce(*(missing(name) for name in names)))
        keys = [name for name in names if name.lower() in self._keys]
        return f.coalesce(lacking, f.when(updates & writes, f.coalesce(*(changed(name) for name in keys))))

    def _at(self, name: str) -> Column:
        from pyspark.sql import functions as f

        return f.col("_data").getField(name)
