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
INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for what reads few rows: Spark writes and compiles code for longer than it would run."""
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
    before: int = -(2**63)
    """The latest timestamp of earlier records of its key and partition, as far as it is known."""

    @property
    def time(self) -> int:
        """The timestamp by which it is compared with records of other partitions."""
        return max(self.timestamp, self.before)

    def raised(self, time: int) -> Record:
        """The same after an earlier record with that timestamp."""
        return self._replace(before=max(self.before, time))

    @property
    def is_raised(self) -> bool:
        return self.before > self.timestamp

    @property
    def by_itself(self) -> Record:
        """The same without earlier records."""
        return self._replace(before=self.timestamp)

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


_Of = TypeVar("_Of")


def later(one: Record, other: Record) -> bool:
    """Whether `one` is the later record of the two."""
    if one.partition == other.partition:
        return one.offset > other.offset
    return (one.time, one.partition) > (other.time, other.partition)


def last_within(records: Iterable[Record], key_of: Callable[[Record], object]) -> list[Record]:
    """The last record of each key and partition, after those before it."""
    last: dict[tuple[object, int], Record] = {}
    for one in records:
        place = key_of(one), one.partition
        other = last.get(place, one)
        newer, older = (one, other) if one.offset > other.offset else (other, one)
        last[place] = newer.raised(older.time)
    return list(last.values())


def last_among(records: Iterable[Record], key_of: Callable[[Record], _Of]) -> dict[_Of, Record]:
    """The last record of each key, of those of `last_within`."""
    last: dict[_Of, Record] = {}
    for one in records:
        key = key_of(one)
        if key not in last or later(one, last[key]):
            last[key] = one
    return last


def outlived(record: Record, deaths: Iterable[Record]) -> bool:
    """Whether one of these is later than the record."""
    return any(later(one, record) for one in deaths)


def survivors(
    records: Iterable[Record], deaths: Mapping[str | None, Collection[Record]], *, by_columns: bool
) -> tuple[list[Record], set[Record]]:
    """The records that no tombstone of their key follows, and those to be deleted.

    `deaths` are tombstones that were read before, by their key. By columns, a record before a tombstone of
    its record's key is to be deleted: it replaces the row of another record's key before.
    """
    alive, dead = [], set()
    for one in records:
        own = deaths.get(one.columns_key if by_columns else one.record_key, ())
        before = (d.time for d in own if d.partition == one.partition and d.offset <= one.offset)
        raised = one.raised(max(before, default=one.timestamp))
        if outlived(raised, own):
            continue
        alive.append(raised)
        if by_columns and outlived(one.by_itself, deaths.get(one.record_key, ())):
            dead.add(raised)
    return alive, dead


def oldest(records: Iterable[Record]) -> Places:
    """The least offset and the earliest timestamp in each partition."""
    return ends(((one.partition, Place(one.offset, one.timestamp)) for one in records), min)


def newest(records: Iterable[Record]) -> Places:
    """The largest offset and the latest time in each partition."""
    return ends(((one.partition, Place(one.offset, one.time)) for one in records), max)


def ends(places: Iterable[tuple[int, Place]], of: Callable[[int, int], int]) -> Places:
    """The least or the most of these in each partition."""
    found: dict[int, Place] = {}
    for partition, place in places:
        found[partition] = Place(*map(of, found.get(partition, place), place))
    return found


def time_of_each(records: Iterable[Record], partition: str) -> str:
    """The SQL expression of the time of a record of the batch, if it is one of these."""
    cases = (
        f"WHEN {partition} = {one.partition} AND _offset = {one.offset} THEN timestamp_micros({one.time})"
        for one in records
        if one.is_raised
    )
    listed = " ".join(cases)
    return f"CASE {listed} ELSE _timestamp END" if listed else "_timestamp"


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
