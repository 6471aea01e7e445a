"""A format turns values of records into rows, and says what is wrong with the others.

`parse` keeps the columns of the source (key, value, topic, partition, offset, timestamp, headers) and adds

    _data       struct of the parsed columns; null for a null value and where `_error` is set
    _error      string; completes "the record ..." with what is wrong; null for a good one
    _schema_id  bigint; the id of the writer's schema where the value carries one

Nothing of a record decides over another one: what cannot be read is one `_error`, never a failed batch. Only
what every record needs (a schema file, a registry that does not answer) fails as a PipelineError.

Values in the schema registry's framing begin with a zero byte and the schema's id, 4 bytes, big-endian
(Confluent's wire format).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kafkapy.pipeline.formats.spark_types import Struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Format(ABC):
    """How the values of one pipeline are read."""

    @abstractmethod
    def check(self) -> None:
        """Reads the schema files without Spark; a PipelineError names what is wrong in them."""

    @property
    @abstractmethod
    def columns(self) -> Struct | None:
        """The parsed columns, in Spark's JSON form of a struct.

        None until the first batch tells them.
        """

    @abstractmethod
    def parse(self, records: DataFrame) -> DataFrame:
        """Adds `_data`, `_error` and `_schema_id` to records.

        The records are those of one batch, or of any other read. Formats that learn their columns from the
        records look through `records` first, and write what they have found to the state before they return:
        a batch that is run again finds the same columns.
        """
