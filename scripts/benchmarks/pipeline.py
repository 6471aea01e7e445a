"""What Spark does with a topic: reads in three ways, and pipelines into Delta.

The topic has JSON records of about 100 bytes, the same in every server. Their keys are the accounts' numbers:
each account has ten records, all in one partition. Reads go into Spark's `noop` sink, which takes every
column and writes nothing. Pipelines are run as `kafkapy pipeline run --once` runs them. One warm session
serves all.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from interop.support.maven import CACHE
from kafkapy.pipeline import Pipeline
from kafkapy.spark import read_topic, session
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import Meter, Stopwatch
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer

_CORES: Final = 2
_MEMORY: Final = "2g"
_ROWS: Final = 2_000_000
_AT_A_TIME: Final = 10_000
_PARTITIONS: Final = 4
_RECORDS_PER_KEY: Final = 10
_SCHEMA: Final = "id BIGINT, account STRING, amount DOUBLE, currency STRING, note STRING"


@dataclass(frozen=True)
class Topic:
    """So many rows on a server."""

    target: Target
    name: str
    rows: int

    @property
    def pipeline(self) -> Pipeline:
        """From it, not yet into a table."""
        return Pipeline(self.name, bootstrap=self.target.bootstrap_servers).json(_SCHEMA)


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


def appending(target: Target, scale: float) -> Figures:
    """Load: append all rows to a table."""
    return _into_a_table(target, scale, lambda topic: topic.pipeline.append(), records_per_row=1)


def upserting(target: Target, scale: float) -> Figures:
    """Load: upsert all rows in four batches.

    The first fills the table, the others merge into it.
    """

    def upsert(topic: Topic) -> Pipeline:
        return topic.pipeline.upsert().max_offsets_per_trigger(topic.rows // 4)

    return _into_a_table(target, scale, upsert, records_per_row=_RECORDS_PER_KEY)


def _into_a_table(
    target: Target, scale: float, make: Callable[[Topic], Pipeline], *, records_per_row: int
) -> Figures:
    """Raises RuntimeError if the table does not hold what it must."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        table = Path(folder, "table")
        rows = 0

        def work(topic: Topic) -> None:
            nonlocal rows
            rows = topic.rows
            make(topic).to_delta(table).run(once=True, spark=_spark())

        figures = _measured(target, scale, work)
        found = _spark().read.format("delta").load(str(table)).count()
    if found != rows // records_per_row:
        raise RuntimeError(f"{found} rows in the table, not {rows // records_per_row}")
    return figures


def _measured(target: Target, scale: float, work: Callable[[Topic], None]) -> Figures:
    """One run, on a topic of its own."""
    topic = _filled(target, max(int(_ROWS * scale), 1))
    jvm = int(_spark()._jvm.java.lang.ProcessHandle.current().pid())
    spark, server = Stopwatch(Meter(jvm, descendants=True)), target.stopwatch()
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
    topic = Topic(target, target.new_topic(_PARTITIONS), rows)
    producer = row_producer(target.bootstrap_servers, linger_ms=20)
    for first in range(0, rows, _AT_A_TIME):
        numbers = range(first, min(first + _AT_A_TIME, rows))
        for partition in range(_PARTITIONS):
            records = _records(numbers, partition, max(rows // _RECORDS_PER_KEY, 1))
            produce_rows(producer, topic.name, partition, list(records))
    flush_rows(producer)
    return topic


def _records(numbers: range, partition: int, accounts: int) -> Iterator[dict[str, bytes]]:
    """Those of the records with these numbers that belong to the partition."""
    for number in numbers:
        account = number * 7919 % accounts
        if account % _PARTITIONS == partition:
            value = {
                "id": number,
                "account": f"account-{account:07}",
                "amount": number % 100_000 / 100,
                "currency": "EUR",
                "note": f"order {number}",
            }
            yield {"key": b"%d" % account, "value": json.dumps(value).encode()}


@cache
def _spark() -> SparkSession:
    settings = {
        "spark.driver.memory": _MEMORY,
        "spark.jars.ivy": str(CACHE / "spark" / "ivy"),
        "spark.ui.enabled": "false",
    }
    return session("delta", master=f"local[{_CORES}]", app_name="bench", conf=settings)
