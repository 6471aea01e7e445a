"""The sides of an audit as data frames: the table's rows, the topic's records.

They have these columns:

    rows          topic, partition, offset; for upsert tables timestamp, key (of the record) and identity
    records       partition, offset, left_out, undecided; for upsert tables timestamp, key, identity, deleted,
                  gone and unparsed
    dead letters  partition, offset

`identity` is what the pipeline matches rows by: the record key, or a struct of columns of the value. A deep
audit adds `digest`, a hash of the content, to rows and records. It parses values with the present schema, so
older rows may differ after a change of the schema without being wrong. Columns that are computed from other
tables are no part of it. `deleted` is a record that deletes the rows of its record key, `gone` one that
deletes the row of its columns, `undecided` one that `where` may have left out by what another table had then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kafkapy.pipeline.audit.report import Bounds
from kafkapy.pipeline.dead_letters.dead_letters import PIPELINE, SOURCE, TABLE_ID, TOPIC_ID
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.formats.outcomes import UNDECIDED, is_deleting, is_ignored, is_left_out, is_undecided
from kafkapy.pipeline.state import Incarnation, State
from kafkapy.pipeline.tables import open_table
from kafkapy.pipeline.tables.evolution import as_stored
from kafkapy.pipeline.tables.sql import quoted
from kafkapy.pipeline.tables.table import RECORD_COLUMNS, Table
from kafkapy.pipeline.topics import Topics
from kafkapy.spark import read_topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


class AuditSides:
    def __init__(
        self,
        definition: PipelineDefinition,
        spark: SparkSession,
        topics: Topics,
        *,
        upsert: bool,
        deep: bool,
    ) -> None:
        self._definition, self._spark, self._topics = definition, spark, topics
        self._upsert, self._deep = upsert, deep

    @property
    def place_of_a_row(self) -> tuple[str, ...]:
        """The columns that tell the rows of all records apart."""
        several = self._definition.format.has_several_rows
        return ("partition", "offset", *(("identity",) if several else ()))

    def files_to_rewrite(self) -> tuple[str, ...]:
        """The table's files whose timestamps many readers misread."""
        table = self._table()
        return tuple(table.files_to_rewrite()) if table.exists() else ()

    def rows(self) -> DataFrame:
        table = self._table()
        if not table.exists() or not self._has_key_columns(table.schema()):
            # The first valid record gives the table its columns. Until then: the same types, and no rows.
            return self._parsed((), {})[0].limit(0).withColumn("topic", f.lit(None).cast("string"))
        content = table.read()
        columns = [f.col(f"_{name}").alias(name) for name in ("topic", "partition", "offset")]
        if self._upsert:
            columns += [f.col(f"_{name}").alias(name) for name in ("timestamp", "key")]
            columns.append(self._identity("_key", "{}").alias("identity"))
        if self._deep:
            columns.append(
                _digest(
                    "_key",
                    "_timestamp",
                    {
                        name: f.col(quoted(name))
                        for name in content.columns
                        if name not in RECORD_COLUMNS.names and name.lower() not in self._joined
                    },
                )
            )
        return content.select(*columns)

    def records(self, bounds: Sequence[Bounds], earliest: Mapping[int, int]) -> DataFrame:
        """The records from the first that can be compared to the end of the planned batch.

        The window may begin later and end earlier. They begin at `earliest` if that is lower. For upserts
        they extend to the end of the topic.
        """
        found, costly = self._parsed(bounds, earliest)
        if costly:
            # Spark would copy what parses a value, twice, into each condition, and plan for many minutes.
            found = found.localCheckpoint(eager=False)
        return found.where("NOT ignored").drop("ignored") if self._upsert else found

    def _parsed(self, bounds: Sequence[Bounds], earliest: Mapping[int, int]) -> tuple[DataFrame, bool]:
        """The records, for upserts also those that are `ignored`, and whether to keep them."""
        first = {
            b.partition: min(
                max(b.log_start, b.starting, min(b.start, earliest.get(b.partition, b.start))), b.end
            )
            for b in bounds
        }
        last = {
            b.partition: max(first[b.partition], b.end if self._upsert else b.until(min(b.planned, b.end)))
            for b in bounds
        }
        records = self._read(self._definition.topic, starting=first, ending=last)
        by_columns = self._upsert and bool(self._definition.key)
        definition = self._definition
        computed = bool(definition.format.changes or definition.select or definition.where)
        parsed = by_columns or self._deep or (computed and (self._upsert or definition.where is not None))
        if parsed:
            # Not `parse`, which would infer more columns and store them in the state.
            records = open_format(definition, State.of(definition)).reparse(records)
        columns: list[Column | str] = [
            "partition",
            "offset",
            is_left_out(records, upsert=self._upsert).alias("left_out"),
            is_undecided(records).alias("undecided"),
        ]
        if self._upsert:
            known = self._has_key_columns(records.schema["_data"].dataType) if by_columns else True
            identity = self._identity("key", "_data.{}") if known else f.lit(None).cast("string")
            unparsed = f.col("_error").isNotNull() if parsed else f.lit(False)
            deleting, gone = is_deleting(records), f.lit(False)
            if by_columns and computed:
                deleting, gone = f.col("value").isNull(), deleting & f.col("value").isNotNull()
            columns += [
                "timestamp",
                "key",
                identity.alias("identity"),
                deleting.alias("deleted"),
                gone.alias("gone"),
                is_ignored(records, upsert=True, keys=definition.key if known else ()).alias("ignored"),
                unparsed.alias("unparsed"),
            ]
        if self._deep:
            stored = self._as_stored(records.schema["_data"].dataType)
            compared = {name: one for name, one in stored.items() if name.lower() not in self._joined}
            columns.append(_digest("key", "timestamp", compared))
        return records.select(*columns), parsed and (computed or definition.format.rescued is not None)

    def why_left_out(self, partition: int, offset: int) -> str | None:
        """Why the record there became neither a row nor a delete, or None (`outcomes.py`)."""
        definition = self._definition
        if definition.where is None and definition.format.changes is None:
            return None
        ends = self._topics.end_offsets(definition.topic)
        starting, ending = {**ends, partition: offset}, {**ends, partition: offset + 1}
        record = self._read(definition.topic, starting=starting, ending=ending)
        parsed = open_format(definition, State.of(definition)).reparse(record)
        why = f.when(is_left_out(parsed, upsert=self._upsert), f.col("_left_out"))
        why = why.when(is_undecided(parsed), UNDECIDED)
        found = parsed.select(why.alias("why")).head()
        return None if found is None else found.why

    def dead_letters(self) -> DataFrame:
        """The dead letters of this pipeline.

        Other pipelines of the topic may parse other values.
        """
        definition, state = self._definition, State.of(self._definition)
        places, incarnation = set(state.dead_letter_places), state.begin()
        if definition.dead_letter is not None:
            places.add((definition.dead_letter, definition.name))
        found = self._spark.sql("SELECT int(0) AS partition, bigint(0) AS offset WHERE false")
        for topic in sorted({topic for topic, _ in places}):
            if self._topics.exists(topic):
                names = [name for one, name in places if one == topic]
                found = found.union(self._dead_letters_in(topic, names, incarnation))
        return found.distinct()

    def _dead_letters_in(self, topic: str, names: Sequence[str], incarnation: Incarnation) -> DataFrame:
        """The pipeline's dead letters in a topic, found by headers as in `dead_letters/reader.py`."""
        place = r"^(.+)-(\d+)-(\d+)$"
        source, table_id, topic_id = _header(SOURCE), _header(TABLE_ID), _header(TOPIC_ID)
        own = f.when(table_id.isNull(), _header(PIPELINE).isin(*names)).otherwise(
            table_id == f.lit(incarnation.table_id)
        )
        if incarnation.topic_id is not None:
            own &= topic_id.isNull() | topic_id.isin(incarnation.topic_id, *incarnation.copied_from)
        return (
            self._read(topic)
            .where(own)
            .where(f.regexp_extract(source, place, 1) == self._definition.topic)
            .select(
                f.regexp_extract(source, place, 2).cast("int").alias("partition"),
                f.regexp_extract(source, place, 3).cast("bigint").alias("offset"),
            )
        )

    @cached_property
    def _joined(self) -> set[str]:
        """The columns, in lower case, that are computed from tables which may have changed."""
        return open_format(self._definition, State.of(self._definition)).joined_columns(self._spark)

    def _table(self) -> Table:
        return open_table(self._spark, self._definition.table, partition_by=self._definition.partition_by)

    def _read(
        self,
        topic: str,
        *,
        starting: str | dict[int, int] = "earliest",
        ending: str | dict[int, int] = "latest",
    ) -> DataFrame:
        return read_topic(
            self._spark,
            topic,
            bootstrap=self._definition.bootstrap,
            starting=starting,
            ending=ending,
            options={f"kafka.{name}": value for name, value in self._definition.kafka_options.items()},
        )

    def _as_stored(self, parsed: StructType) -> dict[str, Column]:
        """The columns of a parsed value, with the names and the types that they have in the table."""
        table = self._table()
        stored = {one.name.lower(): one for one in table.schema()} if table.exists() else {}
        columns = {}
        for field in parsed:
            own = stored.get(field.name.lower(), field)
            value = f.col(f"_data.{quoted(field.name)}")
            columns[own.name] = as_stored(value, field.dataType, own.dataType)
        return columns

    def _has_key_columns(self, schema: StructType) -> bool:
        present = [name.lower() for name in schema.names]
        return all(key.lower() in present for key in self._definition.key)

    def _identity(self, key: str, column: str) -> Column:
        if not self._definition.key:
            return f.col(key)
        return f.struct(*[f.col(column.format(f"`{name}`")).alias(name) for name in self._definition.key])


def _header(name: str) -> Column:
    return f.expr(f"string(get(filter(headers, each -> each.key = '{name}'), 0).value)")


def _digest(key: str, timestamp: str, columns: Mapping[str, Column]) -> Column:
    """The hash of a row as JSON.

    JSON omits nulls, so a column that was added later changes nothing.
    """
    content = [f.col(key).alias("_key"), f.col(timestamp).alias("_timestamp")]
    content += [columns[name].alias(name) for name in sorted(columns)]
    return f.md5(f.to_json(f.struct(*content))).alias("digest")
