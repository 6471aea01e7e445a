"""A format turns the values of records into rows, or into errors.

`parse` keeps the columns of the source (key, value, topic, partition, offset, timestamp, headers) and adds

    _data       struct of the parsed columns; null for a null value and where `_error` is set
    _error      string; completes "the record ..." with what is wrong; null for a good one
    _schema_id  bigint; the id of the writer's schema where the value carries one

Some formats add more, whose meaning `outcomes.py` knows:

    _deleted    boolean; whether the record deletes the row of its key, though its value is not null
    _left_out   string; why the record becomes neither a row nor an error (`changes`, `where`), or null
    _undecided  boolean; of `reparse`: whether `where` may have left it out, by what another table had

Records do not affect one another: a value that cannot be read becomes an `_error` and never fails the batch.
Only a failure that affects every record (a schema file, a registry that does not answer) raises
PipelineError.

Values in the schema registry's framing begin with a zero byte and the schema's id, 4 bytes, big-endian
(Confluent's wire format).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kafkapy.pipeline.formats.spark_types import Struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Format(ABC):
    """How the values of one pipeline are read."""

    @abstractmethod
    def check(self) -> None:
        """Reads the schema files without Spark.

        Raises PipelineError for a mistake in them.
        """

    @property
    @abstractmethod
    def columns(self) -> Struct | None:
        """The parsed columns, in Spark's JSON form of a struct.

        None until the first batch determines them.
        """

    @abstractmethod
    def parse(self, records: DataFrame) -> DataFrame:
        """Adds `_data`, `_error` and `_schema_id` to records.

        `records` are those of one batch, or of any other read. A format that infers columns reads some of
        `records` first and stores the columns in the state before it returns, so that a batch that is run
        again gets the same columns.
        """

    def reparse(self, records: DataFrame) -> DataFrame:
        """Does what `parse` does with the columns known so far, and stores nothing.

        It is for comparisons.
        """
        return self.parse(records)

    def joined_columns(self, spark: SparkSession) -> set[str]:
        """The columns, in lower case, that do not depend on the record alone."""
        return set()

    def learn(self, parsed: DataFrame) -> bool:
        """Adds columns that parsed records lack; whether to parse the records again.

        Only a format that infers columns adds some.
        """
        return False
