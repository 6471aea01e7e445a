"""What Spark does with a topic: reads in three ways, pipelines into Delta and back, audits.

The topic has JSON records of about 100 bytes, the same in every server. Their keys are the accounts' numbers:
each account has ten records, all in one partition. Reads go into Spark's `noop` sink, which takes every
column and writes nothing. Pipelines are run as `kafkapy pipeline run --once` runs them. One warm session
serves all. Loads of the name `plain-...` are by Spark alone (`plain_spark.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import lit

from interop.support.waiting import wait_until
from kafkapy.log.places import open_files
from kafkapy.log.plan import plan_batch
from kafkapy.log.read_options import ReadOptions
from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.replay.replay import replay
from kafkapy.spark import read_topic
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.orders import PARTITIONS, SCHEMA, new_session, order, stopwatch
from scripts.benchmarks.plain_spark import PlainSpark
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer
from scripts.benchmarks.table import medians

_ROWS: Final = 2_000_000
_AT_A_TIME: Final = 10_000
_RECORDS_PER_KEY: Final = 10
_SMALL: Final = 100  # keys of a small upsert
_SMALL_UPSERTS: Final = 5
_QUERIES: Final = 7


@dataclass(frozen=True)
class Topic:
    """So many rows on a server."""

    target: Target
    name: str
    rows: int

    @property
    def pipeline(self) -> Pipeline:
        """From it, not yet into a table."""
        return Pipeline(self.name, bootstrap=self.target.bootstrap_servers).json(SCHEMA)

    def plain(self, table: Path) -> PlainSpark:
        """The same by Spark alone."""
        return PlainSpark(_spark(), self.target.bootstrap_servers, self.name, SCHEMA, table)


WithTable = Callable[[Topic, Path], None]
"""What is done with a topic and the folder of a table."""


def reading(read: Callable[[Topic], DataFrame]) -> Callable[[Target, float], Figures]:
    """Load: read all rows."""

    def work(topic: Topic) -> None:
        read(topic).write.format("noop").mode("overwrite").save()

    return lambda target, scale: _measured(target, scale, work)


def from_kafka(topic: Topic, **options: str) -> DataFrame:
    """The topic, with these options of its consumers."""
    return read_topic(
        _spark(),
        topic.name,
        bootstrap=topic.target.bootstrap_servers,
        options={f"kafka.{name.replace('_', '.')}": value for name, value in options.items()},
    )


def from_log(topic: Topic) -> DataFrame:
    """The topic, from the segments in the server's data directory."""
    source = _spark().read.format("kafkapy-log").option("path", str(topic.target.server.data))
    return source.option("topics", topic.name).load()


def reading_log(target: Target, scale: float) -> Figures:
    """Load: read all rows from the server's data directory."""

    def work(topic: Topic) -> None:
        from_log(topic).write.format("noop").mode("overwrite").save()

    return _measured(target, scale, work, _readable)


def _readable(topic: Topic) -> None:
    """Wait until the data directory shows all records as committed.

    Apache Kafka writes its high watermarks there every five seconds.
    """
    options = ReadOptions(paths=(str(topic.target.server.data),), topics=(topic.name,))
    files = open_files(options)

    def shown() -> bool:
        return sum(one.end - one.start for one in plan_batch(files, options)) == topic.rows

    wait_until(shown)


def finding(column: str) -> Callable[[Target, float], Figures]:
    """Load: find the records that are like one of all in a column, the median of some queries.

    With `offset`, its partition is given too. Each query is for another record.
    """
    return lambda target, scale: _queries(target, scale, column)


def _queries(target: Target, scale: float, column: str) -> Figures:
    topic = _filled(target, _rows(scale))
    _readable(topic)
    found = []
    for query in range(1, _QUERIES + 1):
        offset = topic.rows // PARTITIONS * query // (_QUERIES + 1)
        (one,) = _like(topic, {"partition": query % PARTITIONS, "offset": offset})
        wanted = (
            {"partition": one.partition, "offset": offset} if column == "offset" else {column: one[column]}
        )
        spark = stopwatch(_spark())
        rows = _like(topic, wanted)
        computing = spark.cost()
        if one not in rows:
            raise RuntimeError(f"{column} {one[column]} is not among {len(rows)} records")
        found.append({"seconds": computing.seconds, "Spark CPU s": computing.cpu_seconds})
    target.delete_topic(topic.name)
    return medians(found)


def _like(topic: Topic, wanted: Mapping[str, object]) -> list[Row]:
    found = from_log(topic)
    for name, value in wanted.items():
        found = found.where(found[name] == lit(value))
    return list(found.collect())


def appending(target: Target, scale: float) -> Figures:
    """Load: append all rows to a table."""
    return _into_a_table(target, scale, _append, records_per_row=1)


def inferred_appending(target: Target, scale: float) -> Figures:
    """Load: the same with columns that are inferred from the records."""

    def append(topic: Topic, table: Path) -> None:
        topic.pipeline.json().append().to_delta(table).run(once=True, spark=_spark())

    return _into_a_table(target, scale, append, records_per_row=1)


def plain_appending(target: Target, scale: float) -> Figures:
    """Load: the same by Spark alone."""
    return _into_a_table(target, scale, lambda topic, table: topic.plain(table).append(), records_per_row=1)


def upserting(target: Target, scale: float) -> Figures:
    """Load: upsert all rows in four batches.

    The first fills the table, the others merge into it.
    """

    def upsert(topic: Topic, table: Path) -> None:
        pipeline = topic.pipeline.upsert().max_offsets_per_trigger(topic.rows // 4)
        pipeline.to_delta(table).run(once=True, spark=_spark())

    return _into_a_table(target, scale, upsert, records_per_row=_RECORDS_PER_KEY)


def plain_upserting(target: Target, scale: float) -> Figures:
    """Load: the same by Spark alone, with a MERGE for each batch."""

    def upsert(topic: Topic, table: Path) -> None:
        topic.plain(table).upsert(topic.rows // 4)

    return _into_a_table(target, scale, upsert, records_per_row=_RECORDS_PER_KEY)


def small_upserting(merge_mode: str) -> Callable[[Target, float], Figures]:
    """Load: upserts of 100 keys into a table that has all rows."""

    def upsert(topic: Topic, table: Path) -> None:
        pipeline = topic.pipeline.upsert(merge_mode=merge_mode)
        pipeline.to_delta(table).run(once=True, spark=_spark())

    return lambda target, scale: _small_upserts(target, scale, upsert)


def plain_small_upserting(target: Target, scale: float) -> Figures:
    """Load: the same by Spark alone."""
    return _small_upserts(target, scale, lambda topic, table: topic.plain(table).upsert(None))


def auditing(target: Target, scale: float) -> Figures:
    """Load: audit a table that has all rows."""

    def audit(topic: Topic, table: Path) -> None:
        report = topic.pipeline.append().to_delta(table).audit(spark=_spark())
        if not report.ok or report.count("matching") != topic.rows:
            raise RuntimeError(str(report))

    return _from_a_table(target, scale, audit)


def replaying(target: Target, scale: float) -> Figures:
    """Load: write all rows of a table into another topic."""

    def back(topic: Topic, table: Path) -> None:
        definition = topic.pipeline.append().to_delta(table).definition
        other = target.new_topic(PARTITIONS)
        written = replay(definition, other, spark=_spark()).records
        target.delete_topic(other)
        if written != topic.rows:
            raise RuntimeError(f"{written} records in the topic, not {topic.rows}")

    return _from_a_table(target, scale, back)


def _append(topic: Topic, table: Path) -> None:
    topic.pipeline.append().to_delta(table).run(once=True, spark=_spark())


def _into_a_table(target: Target, scale: float, write: WithTable, *, records_per_row: int) -> Figures:
    """Raises RuntimeError if the table does not hold what it must."""
    with _table() as table:
        figures = _measured(target, scale, lambda topic: write(topic, table))
        found = _spark().read.format("delta").load(str(table)).count()
    rows = _rows(scale) // records_per_row
    if found != rows:
        raise RuntimeError(f"{found} rows in the table, not {rows}")
    return figures


def _from_a_table(target: Target, scale: float, work: WithTable) -> Figures:
    """What is done with a table that an append has made."""
    with _table() as table:
        return _measured(target, scale, lambda topic: work(topic, table), lambda topic: _append(topic, table))


def _small_upserts(target: Target, scale: float, write: WithTable) -> Figures:
    """The median of some upserts of 100 keys from all over a table."""
    topic = _filled(target, _rows(scale))
    producer = row_producer(target.bootstrap_servers, linger_ms=20)
    accounts = topic.rows // _RECORDS_PER_KEY
    found = []
    with _table() as table:
        write(topic, table)
        for number in range(_SMALL_UPSERTS):
            chosen = range(number, accounts, max(accounts // _SMALL, 1))[:_SMALL]
            for partition in range(PARTITIONS):
                produce_rows(producer, topic.name, partition, list(_records(chosen, partition, accounts)))
            flush_rows(producer)
            before, spark, server = _bytes_below(table), stopwatch(_spark()), target.stopwatch()
            write(topic, table)
            computing, serving = spark.cost(), server.cost()
            found.append(
                {
                    "seconds": computing.seconds,
                    "Spark CPU s": computing.cpu_seconds,
                    "server CPU s": serving.cpu_seconds,
                    "MB written": (_bytes_below(table) - before) / 1e6,
                }
            )
        rows = _spark().read.format("delta").load(str(table)).count()
    target.delete_topic(topic.name)
    if rows != accounts:
        raise RuntimeError(f"{rows} rows in the table, not {accounts}")
    return medians(found)


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def _table() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield Path(folder, "table")


def _rows(scale: float) -> int:
    return max(int(_ROWS * scale), 1)


def _measured(
    target: Target,
    scale: float,
    work: Callable[[Topic], None],
    prepare: Callable[[Topic], None] = lambda _: None,
) -> Figures:
    """One run, on a topic of its own."""
    topic = _filled(target, _rows(scale))
    prepare(topic)
    spark, server = stopwatch(_spark()), target.stopwatch()
    work(topic)
    computing, serving = spark.cost(), server.cost()
    target.delete_topic(topic.name)
    millions = topic.rows / 1e6
    return {
        "rows/s": topic.rows / computing.seconds,
        "Spark CPU s / million rows": computing.cpu_seconds / millions,
        "server CPU s / million rows": serving.cpu_seconds / millions,
    }


def _filled(target: Target, rows: int) -> Topic:
    """A new topic with so many records."""
    topic = Topic(target, target.new_topic(PARTITIONS), rows)
    producer = row_producer(target.bootstrap_servers, linger_ms=20)
    for first in range(0, rows, _AT_A_TIME):
        numbers = range(first, min(first + _AT_A_TIME, rows))
        for partition in range(PARTITIONS):
            records = _records(numbers, partition, max(rows // _RECORDS_PER_KEY, 1))
            produce_rows(producer, topic.name, partition, list(records))
    flush_rows(producer)
    return topic


def _records(numbers: range, partition: int, accounts: int) -> Iterator[dict[str, bytes]]:
    """Those of the records with these numbers that belong to the partition."""
    for number in numbers:
        account = number * 7919 % accounts
        if account % PARTITIONS == partition:
            value = order(number, f"account-{account:07}", number % 100_000 / 100)
            yield {"key": b"%d" % account, "value": value}


@cache
def _spark() -> SparkSession:
    return new_session("delta")
