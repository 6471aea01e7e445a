"""JSON with columns that are inferred from the records.

The columns are stored in the state's schema.json. Each batch is scanned first (by Spark's own inference, in
the JVM), and new fields are added to the columns. Columns are never removed and keep their type:

- Types are BIGINT, DOUBLE, BOOLEAN, STRING, STRUCT, ARRAY. Integers beyond 64 bits are DECIMAL(38,0), and
  10.0 is DOUBLE. Dates remain STRING: if they were guessed, the next string that is not a date would not fit.
- A field that is null, [] or {} in all records so far has no column yet; it gets one with its first value.
- In the batch in which a field appears, BIGINT and DOUBLE together make DOUBLE, all other mixtures make
  STRING, which takes any later value as its JSON text. Of names that differ only by case, the one that most
  records have becomes the column.
- In later batches the column's type counts. A record becomes a dead letter if a value does not fit (10.5 or
  "ten" for a BIGINT, which neither Delta nor Iceberg can change to a DOUBLE), if a field differs from a
  column only by case, or if a field has a name that the table keeps for itself. An explicit schema avoids
  this.
- In a Delta table, so does a record with a field whose name has a space or one of ,;{}()=.
- A field with an empty name is ignored.
- If some values do not fit in the place of a known object, the batch is scanned again without these records:
  Spark infers STRING for the mixture, and thus hides the fields of the other records.

The schema is stored before the batch is written. A driver that was killed and runs the batch again gets the
same schema, since adding the same fields twice changes nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.json_columns import (
    by_frequency,
    hides_fields,
    json_path,
    merged_columns,
    spellings,
)
from kafkapy.pipeline.formats.spark_types import OWN_COLUMNS, SparkType, Struct, all_types, struct_of
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables.reserved_names import RESERVED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkapy.pipeline.formats.json_columns import Refused

_MOST_FIELDS: Final = 1_000
_MOST_REFUSED: Final = 100


class InferredJsonFormat(Format):
    def __init__(self, state: State, table_format: str, derived: Iterable[str] = ()) -> None:
        """`derived` are columns that the table makes of others, to be partitioned by them."""
        self._state = state
        self._forbidden = " ,;{}()=\n\t" if table_format == "delta" else ""
        self._taken = RESERVED[table_format].union(OWN_COLUMNS, (name.lower() for name in derived))

    def check(self) -> None:
        """Checks nothing: there is no schema file."""

    @property
    def columns(self) -> Struct | None:
        columns: Struct | None = self._state.schema
        # Another format may have read the topic before.
        return columns if columns and columns.get("type") == "struct" else None

    def parse(self, records: DataFrame) -> DataFrame:
        from kafkapy.pipeline.formats.json_parsing import parse_json

        known = self.columns or struct_of([])
        columns, refused = merged_columns(
            known, _found_in(records, known), taken=self._taken, forbidden=self._forbidden
        )
        if len(refused) > _MOST_REFUSED or sum(1 for _ in all_types(columns)) > _MOST_FIELDS:
            raise PipelineError(
                f"the records have more than {_MOST_FIELDS} different fields, or {_MOST_REFUSED} that cannot "
                "be columns: their names look like data; give a schema with MAP<STRING, ...> (format.schema)"
            )
        if columns != known:
            self._state.schema = columns
        return parse_json(records, columns, _refusal(refused))


def _found_in(records: DataFrame, known: Struct) -> Struct:
    """The fields of the records' JSON objects, as Spark infers them.

    Fields that have no type yet are left out.
    """
    from pyspark.sql import functions as f

    from kafkapy.pipeline.formats.json_parsing import (
        fits_columns,
        json_text,
        looks_like_an_object,
        parsed_json,
    )

    texts = json_text(records).where(looks_like_an_object(f.col("_text")))
    found = _inferred(texts)
    if hides_fields(known, found):
        found = _inferred(texts.withColumn("_parsed", parsed_json(known)).where(fits_columns()))
    return _ordered(texts, found) if isinstance(found, dict) else struct_of([])


def _ordered(texts: DataFrame, found: Struct) -> Struct:
    """The fields, where of those that differ only by case the most frequent one comes first.

    The records are counted only if there are such fields.
    """
    from pyspark.sql import functions as f

    paths = list(itertools.islice(spellings(found), _MOST_REFUSED))
    if not paths:
        return found
    have = [f.get_json_object("_text", json_path(path)).isNotNull() for path in paths]
    (counts,) = texts.agg(*(f.count_if(each) for each in have)).collect()
    return by_frequency(found, dict(zip(paths, counts, strict=True)))


def _inferred(texts: DataFrame) -> SparkType:
    """The type of `_text`: a struct, if there are no others."""
    from pyspark.sql import functions as f

    from kafkapy.pipeline.formats.json_parsing import READER_OPTIONS, wrapped
    from kafkapy.pipeline.java_classes import java_class

    options = {**READER_OPTIONS, "mode": "DROPMALFORMED", "dropFieldIfAllNull": "true"}
    # DataFrameReader.json(Dataset<String>). Python has it for RDDs, whose rows go through Python workers.
    spark = texts.sparkSession
    wrapped_texts = texts.select(wrapped(f.col("_text")))
    encoders = java_class(spark, "org.apache.spark.sql.Encoders")
    dataset = getattr(wrapped_texts._jdf, "as")(encoders.STRING())
    reader = spark.read.options(**options)._jreader
    with _case_sensitive(spark):
        outer = json.loads(reader.json(dataset).schema().json())
    rows = [one["type"] for one in outer["fields"] if one["name"] == "r"]
    inferred: SparkType = rows[0]["elementType"] if rows and isinstance(rows[0], dict) else struct_of([])
    return inferred


@contextlib.contextmanager
def _case_sensitive(spark: SparkSession) -> Iterator[None]:
    """Makes Spark distinguish names by case.

    Otherwise {"id": 1} and {"ID": 1} would lose one of the names.
    """
    name = "spark.sql.caseSensitive"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        yield
    finally:
        spark.conf.set(name, before)


def _refusal(refused: list[Refused]) -> Column | None:
    """The error of a record that has one of the refused fields, null for all others."""
    from pyspark.sql import functions as f

    text = f.col("_text")

    def may_have(name: str) -> Column:
        """Whether the text contains the name: much faster than parsing, for records without it."""
        return f.contains(text, f.lit(name)) | f.contains(text, f.lit("\\"))

    errors = [
        f.when(
            may_have(one.path[-1]) & f.get_json_object(text, json_path(one.path)).isNotNull(),
            f"has a field {one.name}, which {one.reason}",
        )
        for one in refused
    ]
    return f.coalesce(*errors) if errors else None
