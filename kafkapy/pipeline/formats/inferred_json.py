"""JSON with columns that are inferred from the records.

The columns are stored in the state's schema.json. They are inferred from a sample of the first batch, spread
over its tasks, whose values are counted (`json_sample.py`). Then values are parsed as with a given schema. A
record that has a field without a column gets an error (`unnamed_fields.py`). From these records, `learn` adds
columns, and the batch is parsed once more. So no field is lost, and few batches are read more than once.
Columns are never removed, and keep their type but for the third rule:

- Types are BIGINT, DOUBLE, BOOLEAN, STRING, STRUCT, ARRAY. Integers beyond 64 bits are DECIMAL(38,0), and
  10.0 is DOUBLE. Dates remain STRING: if they were guessed, the next string that is not a date would not fit.
- A field that is null, [] or {} in all records so far has no column yet; it gets one with its first value.
- Of names that differ only by case, the one that most records of the sample have becomes the column.
- With a column of rescued data, what makes a record a dead letter by the following rules is kept there
  instead (`rescue.py`).
- With `widen_types`, a BIGINT becomes a DECIMAL if more than one in a hundred of a batch's numbers needs it.
- A record becomes a dead letter if a value does not fit (10.5 or "ten" in a BIGINT, which neither Delta nor
  Iceberg can change to a DOUBLE), if a field differs from a column only by case, or if it has a name that
  the table keeps for itself. An explicit schema avoids this.
- In a Delta table, so does a record with a field whose name has a space or one of ,;{}()=.
- A field with an empty name is ignored.

The schema is stored before the batch is written. A driver that was killed and runs the batch again gets the
same schema, since adding the same fields twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.formats.changes.envelope import Envelope
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.json_columns import merged_columns
from kafkapy.pipeline.formats.json_sample import Sample
from kafkapy.pipeline.formats.spark_types import (
    OWN_COLUMNS,
    Struct,
    all_types,
    sql_name,
    struct_of,
    with_rescued,
)
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_FIELDS: Final = 1_000
_MOST_REFUSED: Final = 100
_MOST_RECORDS: Final = 10_000
_MOST_BYTES: Final = 32 * 1024 * 1024
_LONGER: Final = 16
"""So many times as long as the others may a text of the sample be, since it goes to the driver."""


class InferredJsonFormat(Format):
    def __init__(
        self,
        state: State,
        table_format: str,
        taken: Collection[str] = OWN_COLUMNS,
        note: Callable[[str], None] = lambda _: None,
        rescued: str | None = None,
        keys: Sequence[str] = (),
        *,
        widen_types: bool = False,
        envelope: Envelope | None = None,
    ) -> None:
        """`taken` are the names, in lower case, that the table has for itself.

        `note` is called with what was inferred, in a sentence. `rescued` is the column of rescued data, and
        `keys` are the columns whose values are never rescued. The columns are those within `envelope`, and an
        envelope around them.
        """
        self._envelope = envelope
        self._rescued, self._keys, self._widen_types = rescued, tuple(keys), widen_types
        taken = {*taken, rescued.lower()} if rescued else taken
        self._state, self._taken, self._note = state, taken, note
        self._forbidden = " ,;{}()=\n\t" if table_format == "delta" else ""

    def check(self) -> None:
        """Checks nothing: there is no schema file."""

    @property
    def columns(self) -> Struct | None:
        known = self._known
        return None if known is None else with_rescued(known, self._rescued)

    @property
    def _known(self) -> Struct | None:
        columns: Struct | None = self._state.schema
        # Another format may have read the topic before.
        return columns if columns and columns.get("type") == "struct" else None

    def parse(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import json_text, looks_like_an_object
        from kafkapy.pipeline.formats.json_rescue import parsed_records
        from kafkapy.pipeline.formats.unnamed_fields import unnamed_field

        if self._known is None:
            self._infer(json_text(records).where(looks_like_an_object(f.col("_text"))))
        columns = self._known or struct_of([])
        unnamed = unnamed_field(
            columns, taken=self._taken, forbidden=self._forbidden, envelope=self._envelope
        )
        return parsed_records(records, columns, self._rescued, self._keys, unnamed)

    def reparse(self, records: DataFrame) -> DataFrame:
        from kafkapy.pipeline.formats.json_rescue import parsed_records

        return parsed_records(records, self._known or struct_of([]), self._rescued, self._keys)

    def learn(self, parsed: DataFrame) -> bool:
        return self._learn_names(parsed) or (self._widen_types and self._learn_types(parsed))

    def _learn_names(self, parsed: DataFrame) -> bool:
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import json_text
        from kafkapy.pipeline.formats.unnamed_fields import WITHOUT_COLUMN

        unnamed = parsed.where(f.endswith(f.col("_error"), f.lit(WITHOUT_COLUMN)))
        return not unnamed.isEmpty() and self._infer(json_text(unnamed))

    def _learn_types(self, parsed: DataFrame) -> bool:
        """Gives columns the wider types that these records need; False if there are none."""
        from pyspark.sql import functions as f

        from kafkapy.pipeline.formats.json_parsing import MISFIT, json_text, looks_like_an_object

        known = self._known
        if known is None or parsed.where(f.startswith(f.col("_error"), f.lit(MISFIT))).isEmpty():
            return False
        texts = json_text(parsed).where(looks_like_an_object(f.col("_text")))
        sample = Sample(_some(texts.select("_text")))
        columns = sample.widened(known)
        if columns == known:
            return False
        self._state.schema = columns
        before = dict(all_types(known))
        self._note(
            f"Types widened as {len(sample):,} records need it: "
            + ", ".join(
                f"{path} from {sql_name(before[path])} to {sql_name(kind)}"
                for path, kind in all_types(columns)
                if isinstance(kind, str) and kind != before[path]
            )
        )
        return True

    def _infer(self, texts: DataFrame) -> bool:
        """Adds columns for the fields of a sample of these; False if there are no new ones."""
        known = self._known or struct_of([])
        sample = Sample(_some(texts.select("_text")))
        found = sample.found(known)
        rows: tuple[str, ...] = ("",)
        if self._envelope is not None:
            found, rows = self._envelope.narrowed(found, known), self._envelope.row_paths
        columns, refused = merged_columns(
            known, found, taken=self._taken, forbidden=self._forbidden, rows=rows
        )
        if len(refused) > _MOST_REFUSED or sum(1 for _ in all_types(columns)) > _MOST_FIELDS:
            raise PipelineError(
                f"the records have more than {_MOST_FIELDS} different fields, or {_MOST_REFUSED} that cannot "
                "be columns: their names look like data; give a schema with MAP<STRING, ...> (format.schema)"
            )
        if columns == known:
            return False
        self._state.schema = columns
        of = " with new fields" if known["fields"] else ""
        self._note(
            f"Columns inferred from {len(sample):,} records{of}, of which {sample.fitting(columns):,} fit: "
            f"{sql_name(self._within(columns)).removeprefix('STRUCT<')[:-1]}"
        )
        return True

    def _within(self, columns: Struct) -> Struct:
        """The columns of the rows."""
        return (self._envelope and self._envelope.row_of(columns)) or columns


def _some(texts: DataFrame) -> list[str]:
    """The first texts of each task, of at most _MOST_RECORDS and about _MOST_BYTES together.

    One job of Spark's finds them if none is long.
    """
    from pyspark.sql import functions as f

    tasks = texts._jdf.queryExecution().toRdd().getNumPartitions()
    length, short = f.length("_text"), _MOST_BYTES // _MOST_RECORDS
    found = texts.select(f.when(length <= short, f.col("_text")).alias("_text"), length.alias("length"))
    first = _first_of_each_task(found, max(_MOST_RECORDS // tasks, 1)).toArrow()
    some: list[str] = first["_text"].to_pylist()
    if not first["_text"].null_count:
        return some
    size = sum(first["length"].to_pylist()) // len(some) + 1
    texts = texts.where(length <= _LONGER * size)
    most = max(min(_MOST_RECORDS, _MOST_BYTES // size) // tasks, 1)
    return [text for (text,) in _first_of_each_task(texts, most).collect()]


def _first_of_each_task(frame: DataFrame, most: int) -> DataFrame:
    """At most so many rows of each task, which then reads no more.

    DataFrame.limit is two steps of Spark's: such a limit for each task, and another one for them together.
    """
    from pyspark.sql import DataFrame

    from kafkapy.pipeline.java_classes import java_class

    spark = frame.sparkSession
    for_each_task = frame.limit(most)._jdf.queryExecution().analyzed().child()
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, for_each_task), spark)
