"""The records of a small batch, compared on the driver.

Their places and keys are read once. Which of them count is decided here, without further jobs of Spark. The
rules are those of `upserts.py`. Keys are compared as texts that are surely exact: whole numbers and dates as
decimal numbers, texts and bytes as hexadecimal. A batch with other keys, or with one of more than 200 bytes,
is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from kafkapy.pipeline.tables.sql import ddl, quoted
from kafkapy.pipeline.tables.tombstones import Place, Places

FEW: Final = 1_000
"""The most records of a small batch."""
NOTHING: Final = "false"
_LONGEST: Final = 200
"""The most bytes of a key: all are in the text of a statement."""
_TOO_LONG: Final = "too long"  # which no note is

Key = tuple[str | None, ...]
"""The notes of a key's columns; None for null."""


class Record(NamedTuple):
    """A record, or a row of the table: its keys and its place.

    `timestamp` is in microseconds since 1970.
    """

    key: Key
    record_key: str | None
    partition: int
    offset: int
    timestamp: int
    deleted: bool = False
    columns_key: str | None = None
    """The key of the tombstone that a deletion with these columns would leave."""

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


_Of = TypeVar("_Of")


def later(one: Record, other: Record) -> bool:
    """Whether `one` is the later record of the two."""
    if one.partition == other.partition:
        return one.offset > other.offset
    return (one.timestamp, one.partition) > (other.timestamp, other.partition)


def last_of_each(records: Iterable[Record], key_of: Callable[[Record], _Of]) -> dict[_Of, Record]:
    """The last record of each key: of each partition by offset, then among these."""
    within: dict[tuple[_Of, int], Record] = {}
    for one in records:
        place = key_of(one), one.partition
        if place not in within or one.offset > within[place].offset:
            within[place] = one
    among: dict[_Of, Record] = {}
    for (key, _), one in within.items():
        if key not in among or later(one, among[key]):
            among[key] = one
    return among


def oldest(records: Iterable[Record]) -> Places:
    """The least offset and the earliest timestamp in each partition."""
    return _ends(records, min)


def newest(records: Iterable[Record]) -> Places:
    """The largest offset and the latest timestamp in each partition."""
    return _ends(records, max)


def _ends(records: Iterable[Record], of: Callable[[int, int], int]) -> Places:
    found: dict[int, Place] = {}
    for one in records:
        before = found.get(one.partition, Place(one.offset, one.timestamp))
        found[one.partition] = Place(of(before.offset, one.offset), of(before.timestamp, one.timestamp))
    return found


def at_places(records: Collection[Record], partition: str) -> str:
    """The SQL condition that a record of the batch is one of these; NOTHING without any."""
    offsets: dict[int, list[str]] = {}
    for number, offset in sorted({one.place for one in records}):
        offsets.setdefault(number, []).append(str(offset))
    parts = (f"({partition} = {one} AND _offset IN ({', '.join(listed)}))" for one, listed in offsets.items())
    return " OR ".join(parts) or NOTHING


class KeyNotes:
    """How the keys of a batch and a table are noted.

    `kinds` are the types of their columns by name.
    """

    def __init__(self, kinds: Mapping[str, DataType]) -> None:
        self._kinds = kinds

    @classmethod
    def of(cls, rows: DataFrame, keys: Sequence[str]) -> KeyNotes | None:
        """None if a column is of a type that has no exact note."""
        kinds = {key: rows.select(quoted(key)).schema[0].dataType for key in keys}
        return cls(kinds) if all(map(_has_note, kinds.values())) else None

    def columns(self) -> list[Column]:
        """The note of each column of the key."""
        return [f.expr(_note(quoted(key), kind)) for key, kind in self._kinds.items()]

    def among(self, records: Collection[Record], alias: str = "") -> str:
        """The SQL condition that all rows with the key of one of the records fulfil.

        Of several columns, each has one of the values.
        """
        conditions = []
        for place, (key, kind) in enumerate(self._kinds.items()):
            values = sorted({note for one in records if (note := one.key[place]) is not None})
            listed = ", ".join(_literal(value, kind) for value in values)
            conditions.append(f"{alias}{quoted(key)} IN ({listed})")
        return " AND ".join(conditions)


RECORD_KEY_NOTE: Final = (
    f"IF(octet_length(_key) <= {_LONGEST}, hex(_key), IF(_key IS NULL, NULL, '{_TOO_LONG}'))"
)


def among_record_keys(keys: Iterable[str | None], alias: str = "") -> str:
    """The SQL condition that the record's key is one of these notes."""
    listed = sorted({_literal(key, BinaryType()) for key in keys if key is not None})
    return f"{alias}_key IN ({', '.join(listed)})"


def collected(rows: DataFrame, notes: KeyNotes, partition: str, columns_key: Column) -> list[Record] | None:
    """The records of a batch with `_deleted`; None if a key is too long."""
    place = (f.col(partition), f.col("_offset"), f.unix_micros("_timestamp"), f.col("_deleted"))
    noted = notes.columns()
    found = rows.select(*noted, f.expr(RECORD_KEY_NOTE), *place, f.hex(columns_key)).collect()
    if any(_TOO_LONG in row[: len(noted) + 1] for row in found):
        return None
    return [Record(tuple(row[: len(noted)]), *row[len(noted) :]) for row in found]


def _has_note(kind: DataType) -> bool:
    whole = isinstance(kind, (ByteType, ShortType, IntegerType, LongType))
    return whole or isinstance(kind, (DateType, BinaryType)) or kind == StringType()  # without a collation


def _note(key: str, kind: DataType) -> str:
    """The SQL expression of the note of a value."""
    if isinstance(kind, DateType):
        return f"CAST(unix_date({key}) AS STRING)"
    if isinstance(kind, (BinaryType, StringType)):
        return f"IF(octet_length({key}) <= {_LONGEST}, hex({key}), IF({key} IS NULL, NULL, '{_TOO_LONG}'))"
    return f"CAST({key} AS STRING)"


def _literal(value: str, kind: DataType) -> str:
    if isinstance(kind, DateType):
        return f"date_from_unix_date({value})"
    if isinstance(kind, BinaryType):
        return f"X'{value}'"
    if isinstance(kind, StringType):
        return f"CAST(X'{value}' AS STRING)"
    return f"CAST({value} AS {ddl(kind)})"
