"""The records of one key of an upsert table, as the topic and the table have them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, StructType

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.audit.report import Bounds
from kafkapy.pipeline.audit.sides import AuditSides
from kafkapy.pipeline.dead_letters.source import Source
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.outcomes import CHANGES, UNDECIDED, WHERE
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import Table
from kafkapy.pipeline.tables.sql import ddl, quoted, text
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIGITS: Final = Context(prec=38)
"""The most that a DECIMAL has."""
_LEFT_OUT: Final = {
    WHERE: "`where` leaves it out",
    CHANGES: "it changes no row of the source table",
    UNDECIDED: "`where` may have left it out, by what a joined table had then",
}


class KeyHistory:
    def __init__(
        self,
        definition: PipelineDefinition,
        state: State,
        spark: SparkSession,
        topics: Topics,
        table: Table,
    ) -> None:
        self._definition, self._state = definition, state
        self._topics, self._table = topics, table
        former = state.definition
        mode = (former and former.mode) or definition.mode_for(topics.cleanup_policy(definition.topic))
        self.upserts = mode == "upsert"
        self._sides = AuditSides(definition, spark, topics, upsert=self.upserts, deep=False)

    def place(self, key: str) -> Source:
        """The record of the key's row, or the key's last record.

        Raises PipelineError if neither table nor topic has the key.
        """
        if not self.upserts:
            raise PipelineError(
                f"--key: {self._definition.table} has a row for each record; name one: --source "
                f"{self._definition.topic}-PARTITION-OFFSET"
            )
        topic = self._definition.topic
        if self._table.exists():
            place = ["_topic", "_partition", "_offset"]
            row = self._of_key(self._table.read(), key, "_key", "{}").select(*place).head()
            if row is not None:
                return Source(*row)
        of_key = self._of_key(self._records(), key, "key", "identity.{}")
        keys = [each.key for each in of_key.select("key").distinct().collect()]
        row = self._last(of_key, self._with_keys(keys).where("deleted"))
        if row is None:
            raise PipelineError(f"--key: neither {self._definition.table} nor {topic} has the key {key!r}")
        return Source(topic, row.partition, row.offset)

    def why_replaced(self, place: Source, *, tombstone: bool) -> Iterator[str]:
        """Why a record that was read is not the row of its key."""
        if tombstone:
            yield "it is a tombstone, which deletes the row of its key"
        records = self._records(read=True)
        own = records.where(f"partition = {place.partition} AND offset = {place.offset}")
        wanted = own.select(f.col("identity").alias("wanted"))
        same = records.join(wanted, f.expr("identity <=> wanted"), "left_semi")
        keys = [row.key for row in own.select("key").collect()]
        last = self._last(same, self._with_keys(keys, read=True).where("deleted"))
        if last is None:
            return
        if (last.partition, last.offset) != (place.partition, place.offset):
            name = f"{place.topic}-{last.partition}-{last.offset}"
            why = "deletes its key" if last.deleted else "is a later record of its key"
            yield f"{name} {why}"
        elif last.deleted:
            yield "it deletes the row of its key"

    def why_left_out(self, place: Source) -> str | None:
        """Why a record became neither a row nor a delete; None if it did, or is an error."""
        reason = self._sides.why_left_out(place.partition, place.offset)
        return None if reason is None else _LEFT_OUT[reason]

    def _records(self, *, read: bool = False) -> DataFrame:
        """The records that the topic has, or that the pipeline has read of them."""
        starts = self._topics.start_offsets(self._definition.topic)
        ends = self._topics.end_offsets(self._definition.topic)
        if read:
            ends |= checkpoint.committed_offsets(self._state) or {}
        bounds = [Bounds(one, start, ends[one], ends[one], start, ends[one]) for one, start in starts.items()]
        records = self._sides.records(bounds, {}).where("NOT unparsed")
        return records.withColumn("deleted", f.expr("deleted OR gone"))

    def _with_keys(self, keys: list[bytes | None], *, read: bool = False) -> DataFrame:
        known = [f.lit(bytes(key)) for key in keys if key is not None]
        return self._records(read=read).where(f.col("key").isin(*known) if known else f.lit(False))

    def _last(self, *several: DataFrame) -> Any:
        """The last of the records, by the order of `tables/upserts.py`."""
        found = [row for records in several for row in records.drop("identity").collect()]
        last: dict[int, Any] = {}
        for row in found:
            if row.partition not in last or row.offset > last[row.partition].offset:
                last[row.partition] = row
        return max(last.values(), key=lambda row: (row.timestamp, row.partition), default=None)

    def _of_key(self, rows: DataFrame, key: str, record_key: str, column: str) -> DataFrame:
        """The rows or records that have the key."""
        columns = self._definition.key
        if not columns:
            return rows.where(f"{record_key} = X'{_bytes_of(key).hex()}'")
        given = dict(part.strip().split("=", 1) for part in key.split(",") if "=" in part)
        if set(given) != set(columns):
            expected = ",".join(f"{name}=VALUE" for name in columns)
            raise PipelineError(f"--key: expected {expected}, not {key!r}")
        kind = rows.schema if column == "{}" else rows.schema["identity"].dataType
        present = [one.lower() for one in kind.names] if isinstance(kind, StructType) else []
        if any(name.lower() not in present for name in columns):  # no value was valid so far
            return rows.where(f.lit(False))
        for name, value in given.items():
            place = column.format(quoted(name))
            kind = rows.select(place).schema[0].dataType
            rows = rows.where(f"CAST({place} AS STRING) = {_cast_to_text(value, kind)}")
        return rows


def _cast_to_text(value: str, kind: DataType) -> str:
    """The SQL for the text of a value of a type that is written as `value`.

    For example, 2 is 2.00 in a DECIMAL(4,2).
    """
    if isinstance(kind, DecimalType):
        with contextlib.suppress(InvalidOperation):
            number = Decimal(value)
            if (exact := number.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)) == number:
                return text(f"{exact:f}")
    if isinstance(kind, (DoubleType, FloatType)):
        return f"coalesce(CAST(try_cast({text(value)} AS {ddl(kind)}) AS STRING), '')"
    return text(value)


def _bytes_of(key: str) -> bytes:
    """The bytes of a key, which may be in hexadecimal: `0x0a`."""
    if key.startswith("0x"):
        with contextlib.suppress(ValueError):
            return bytes.fromhex(key[2:])
    return key.encode()
