"""The lineage of a record: its batch and the table's version, or why it is no row.

A record is named by its place in the topic, or by its key in an upsert table: then it is the record of the
row, or the last of the key. Everything is asked for now: the topic, Spark's checkpoint (which has at least
the last hundred batches), the commits of the table, the dead letters. What all of them have forgotten is not
told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.audit.audit import check_comparable
from kafkapy.pipeline.dead_letters.reader import dead_letters, iso
from kafkapy.pipeline.dead_letters.replay import replayed_sources
from kafkapy.pipeline.dead_letters.source import Source
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.read_ranges import Range, with_present
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.spark_failures import spark_failures
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables.commit import Commit
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkapy.pipeline.lineage.keys import KeyHistory
    from kafkapy.pipeline.tables import Table


@dataclass(frozen=True, kw_only=True)
class BatchRange:
    """The batch that read a record, and its offsets [first, end) in the record's partition."""

    id: int
    first: int
    end: int
    incarnation: str


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """What is known of one record.

    `record` is what the topic has: timestamp, key and whether the value is null; None if it has none there.
    `rows` are the commits of the files that have the record's rows. `reason` is why there is no row, and
    `missing` means that there should be one. `dead_letter` is the error of the record.
    """

    table: str
    source: str
    record: Mapping[str, Any] | None
    batch: BatchRange | None
    version: str
    rows: tuple[Commit, ...]
    reason: str
    missing: bool = False
    dead_letter: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        count = len(self.rows)
        told = "1 row" if count == 1 else f"{count} rows" if count else f"no row, because {self.reason}"
        lines = [f"{self.source} in {self.table}: {told}"]
        if self.record is not None:
            of = "a tombstone, key" if self.record["tombstone"] else "key"
            lines.append(f"record   {self.record['timestamp']}, {of} {self.record['key']}")
        elif count:
            lines.append("record   not in the topic any more")
        if self.batch is not None:
            offsets = f"offsets {self.batch.first} to {self.batch.end - 1} of the partition"
            lines.append(f"batch    {self.batch.id} of incarnation {self.batch.incarnation}, {offsets}")
        elif count:
            lines.append("batch    not known any more")
        if self.version:
            lines.append(f"commit   {self.version}")
        for row in self.rows:
            by = " ".join(each for each in (row.version or "a version", row.operation) if each)
            when = f" at {row.written}" if row.written else ""
            lines.append(f"file     {row.file}, written by {by}{when}")
        if self.dead_letter is not None:
            lines.append(f"error    the record {self.dead_letter}")
        return "\n".join(lines)


def lineage(
    definition: PipelineDefinition,
    *,
    source: str | None = None,
    key: str | None = None,
    spark: SparkSession | None = None,
) -> Lineage:
    """The lineage of a record, or of a key of an upsert table.

    `source` is TOPIC-PARTITION-OFFSET, `key` is the record key as text, or `id=7` for columns. Raises
    PipelineError if there is no such place.
    """
    if (source is None) == (key is None):
        raise PipelineError("name one record: --source TOPIC-PARTITION-OFFSET, or --key KEY")
    state = State.of(definition)
    check_comparable(definition, state)
    with spark_for(definition, spark) as session, spark_failures(definition):
        from kafkapy.pipeline.lineage.keys import KeyHistory
        from kafkapy.pipeline.tables import open_table

        table = open_table(session, definition.table, partition_by=definition.partition_by)
        topics = Topics(definition.bootstrap, definition.kafka_options)
        keys = KeyHistory(definition, state, session, topics, table)
        place = _parsed(definition, topics, source) if source is not None else keys.place(key or "")
        return _Search(definition, state, topics, table, keys).of(place)


def _parsed(definition: PipelineDefinition, topics: Topics, text: str) -> Source:
    place = Source.parse(text)
    known = topics.partitions(definition.topic)
    if place is None or place.topic != definition.topic or place.partition not in known:
        raise PipelineError(
            f"--source: expected {definition.topic}-PARTITION-OFFSET with a partition from 0 to {known[-1]}, "
            f"not {text!r}"
        )
    return place


class _Search:
    def __init__(
        self,
        definition: PipelineDefinition,
        state: State,
        topics: Topics,
        table: Table,
        keys: KeyHistory,
    ) -> None:
        self._definition, self._state, self._topics = definition, state, topics
        self._table, self._keys = table, keys

    def of(self, place: Source) -> Lineage:
        partition, offset = place.partition, place.offset
        rows: tuple[Commit, ...] = ()
        version, batch = "", self._planned(place)
        if self._table.exists():
            where = f"_topic = '{place.topic}' AND _partition = {partition} AND _offset = {offset}"
            rows = tuple(self._table.commits_with(where))
            if (appended := self._table.batch_with(partition, offset)) is not None:
                version = appended.version
                first, end = (appended.offsets or {})[partition]
                incarnation = appended.app_id.rpartition("-")[2]
                batch = BatchRange(id=appended.id, first=first, end=end, incarnation=incarnation)
        found = Lineage(
            table=str(self._definition.table),
            source=str(place),
            record=self._record(place),
            batch=batch,
            version=version,
            rows=rows,
            reason="",
        )
        return found if rows else self._why_absent(found, place)

    def _record(self, place: Source) -> dict[str, Any] | None:
        from kafkapy.pipeline.audit.upsert import shown_key

        ends, starts = self._topics.end_offsets(place.topic), self._topics.start_offsets(place.topic)
        if not starts[place.partition] <= place.offset < ends[place.partition]:
            return None
        start = {**ends, place.partition: place.offset}
        end = {**ends, place.partition: place.offset + 1}
        for message in self._topics.consume(place.topic, start=start, end=end):
            return {
                "timestamp": iso(message.timestamp()[1]),
                "key": shown_key(message.key()),
                "tombstone": message.value() is None,
            }
        return None

    def _planned(self, place: Source) -> BatchRange | None:
        """The batch of the present incarnation that has the record, by Spark's checkpoint."""
        incarnation = self._state.incarnation
        for batch, offsets in checkpoint.batches(self._state):
            first, end = offsets.get(place.partition, (0, 0))
            if first <= place.offset < end:
                name = "" if incarnation is None else incarnation.id
                return BatchRange(id=batch, first=first, end=end, incarnation=name)
        return None

    def _why_absent(self, found: Lineage, place: Source) -> Lineage:
        letter = self._dead_letter(place)
        if letter is not None:
            return replace(found, reason="it is a dead letter" + letter[1], dead_letter=letter[0])
        for reason in self._reasons(found, place):
            return replace(found, reason=reason)
        return replace(found, reason="it is missing: the pipeline has read it; audit the table", missing=True)

    def _reasons(self, found: Lineage, place: Source) -> Iterator[str]:
        partition, offset = place.partition, place.offset
        log_start = self._topics.start_offsets(place.topic)[partition]
        end = self._topics.end_offsets(place.topic)[partition]
        ranges, position = self._read(partition)
        read = any(first <= offset < until for first, until in ranges)
        if offset >= end:
            yield f"the topic ends at {end}"
        elif found.record is None and offset >= log_start:
            yield "the topic has no record there: a transaction marker, aborted, or compacted away"
        if offset >= position:
            yield f"it has not been read yet: the position is {position}"
        elif not read and offset < log_start:
            yield f"it expired before it was read: the topic starts at {log_start}"
        elif not read:
            began = min((first for first, _ in ranges), default=position)
            yield "it is before the start of the pipeline" if offset < began else "a reset skipped it"
        if found.record is None:
            yield f"it has expired (the topic starts at {log_start}), and nothing tells what it was"
        elif (reason := self._keys.why_left_out(place)) is not None:
            yield reason
        elif self._keys.upserts:
            yield from self._keys.why_replaced(place, tombstone=found.record["tombstone"])

    def _read(self, partition: int) -> tuple[tuple[Range, ...], int]:
        """What the pipeline has read of the partition, and its position."""
        start = checkpoint.initial_offsets(self._state) or {}
        committed = checkpoint.committed_offsets(self._state) or start
        incarnation = self._state.incarnation
        read = with_present({} if incarnation is None else incarnation.read, start, committed)
        return read.get(partition, ()), committed.get(partition, 0)

    def _dead_letter(self, place: Source) -> tuple[str, str] | None:
        """The error of the dead letter, and what became of it."""
        if self._definition.dead_letter is None:
            return None
        for letter in dead_letters(self._definition, self._topics):
            if letter.source[:3] == place[:3] and not letter.former:
                replayed = letter.source in replayed_sources(self._definition)
                return letter.error, ", which was replayed into the topic" if replayed else ""
        return None
