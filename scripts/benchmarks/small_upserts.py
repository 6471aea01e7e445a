"""A run of a pipeline that gets small upserts, measured batch by batch."""

from __future__ import annotations

import json
import os
import queue
import tempfile
import threading
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.run.progress import BatchReport, Progress
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.tables.batch import Batch
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import Meter, Stopwatch
from scripts.benchmarks.orders import PARTITIONS, SCHEMA, new_session, order, stopwatch
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer
from scripts.benchmarks.servers import new_server

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from pyspark.sql import SparkSession

_KEYS: Final = 100
_AT_ONCE: Final = 1_000_000
_RECENT: Final = 1_000
_PATIENCE: Final = 600.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table and what is upserted into it."""

    table: str
    rows: int
    batches: int
    merge_mode: str
    key: str | None
    recent: bool
    clustered: bool
    tombstones: int
    conf: Mapping[str, str]
    jobs: bool

    def accounts(self, number: int) -> range:
        """Those that batch `number` upserts, which are others than the last one's.

        Their distance is one less than a round number, since keys are dealt out to the files of the table.
        """
        first = self.rows - _RECENT if self.recent else 0
        step = max((self.rows - first) // _KEYS - 1, 1)
        return range(first + number * 7919 % step, self.rows, step)[:_KEYS]


class _Told(Progress):
    """Puts the reports of batches into a queue."""

    def __init__(self) -> None:
        self.reports: queue.Queue[BatchReport] = queue.Queue()

    def batch(self, report: BatchReport) -> None:
        self.reports.put(report)


def measure(case: Case) -> list[Figures]:
    """The figures of each batch."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        new_server("kafkapy", Path(folder, "broker")) as server,
    ):
        table, topic = Path(folder, "table"), Target(server).new_topic(PARTITIONS)
        spark = new_session(case.table, **{"spark.ui.enabled": str(case.jobs).lower(), **case.conf})
        try:
            pipeline = Pipeline(topic, bootstrap=server.bootstrap_servers).json(SCHEMA)
            pipeline = pipeline.upsert(key=case.key, merge_mode=case.merge_mode)
            pipeline = pipeline.to_delta(table) if case.table == "delta" else pipeline.to_iceberg(table)
            producer = row_producer(server.bootstrap_servers, linger_ms=20)
            _produce(producer, topic, range(1), 0, 0)
            pipeline.run(once=True, spark=spark)
            _fill(spark, case, table)
            with _running(pipeline, spark) as told:
                return [_batch(case, spark, table, producer, topic, told, n) for n in range(case.batches)]
        finally:
            spark.stop()


def _fill(spark: SparkSession, case: Case, table: Path) -> None:
    """Upsert the rows into the table, some at once.

    If each file is to have a range of keys, they are appended.
    """
    from pyspark.sql import functions as f

    from kafkapy.pipeline.tables import open_table

    opened = open_table(spark, TableTarget(format=case.table, location=str(table)))
    parts = -(-case.rows // _AT_ONCE)
    for part in range(parts):
        place = f"({part * _AT_ONCE} + id DIV {parts})"
        ids = spark.range(part, case.rows, parts, numPartitions=2)  # keys of all over the table in each part
        if case.clustered:
            first, place = part * _AT_ONCE, "id"
            ids = spark.range(first, min(first + _AT_ONCE, case.rows), numPartitions=2)
        rows = ids.selectExpr(
            "id",
            "format_string('account-%08d', id) AS account",
            "id % 100000 / 100 AS amount",
            "'EUR' AS currency",
            "concat('order ', hash(id)) AS note",
            "'bench' AS _topic",
            f"CAST(id % {PARTITIONS} AS INT) AS _partition",
            f"{place} - {case.rows} AS _offset",
            f"timestamp_millis(1700000000000 + {place}) AS _timestamp",
            "CAST(format_string('%08d', id) AS BINARY) AS _key",
            "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS _headers",
        )
        if case.clustered:
            opened.append(rows, Batch("bench", part, {0: (part, part + 1)}))
        else:
            opened.upsert(rows.withColumn("_deleted", f.lit(False)), [case.key] if case.key else [])


def _produce(producer: Producer, topic: str, accounts: Iterable[int], number: int, tombstones: int) -> None:
    """Produce a record for each account; the first of them are tombstones."""
    records: dict[int, list[dict[str, bytes | None]]] = {}
    for place, account in enumerate(accounts):
        sent = None if place < tombstones else order(account, f"account-{account:08}", number)
        records.setdefault(account % PARTITIONS, []).append({"key": b"%08d" % account, "value": sent})
    for partition, listed in records.items():
        produce_rows(producer, topic, partition, listed)
    flush_rows(producer)


def _batch(
    case: Case,
    spark: SparkSession,
    table: Path,
    producer: Producer,
    topic: str,
    told: queue.Queue[BatchReport],
    number: int,
) -> Figures:
    accounts = case.accounts(number)
    before, jobs = _files(table), _jobs(spark) if case.jobs else []
    computing, driving = stopwatch(spark), Stopwatch(Meter(os.getpid()))
    _produce(producer, topic, accounts, number, case.tombstones)
    rows, seconds, maintenance = 0, 0.0, 0.0
    while rows < len(accounts):  # in one batch, or in two if the run looked too early
        report = told.get(timeout=_PATIENCE)
        rows, seconds = rows + report.rows, seconds + report.seconds
        maintenance += report.maintained.seconds
    cost, driver = computing.cost(), driving.cost()
    after = _files(table)
    written = sum(size for path, (size, _) in after.items() if before.get(path) != after[path])
    if case.jobs:
        for line in [
            f"batch {number + 1}, {seconds:.2f} s:",
            *(one for one in _jobs(spark) if one not in jobs),
        ]:
            print(line, flush=True)
    return {
        "s": seconds,
        "s in all": cost.seconds,
        "CPU s": cost.cpu_seconds + driver.cpu_seconds,
        "maintenance s": maintenance,
        "MB": written / 1e6,
        "files": len(after.keys() - before.keys()),
    }


def _files(table: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of each file below the table's folder."""
    found = {}
    for path in table.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:  # deleted meanwhile
            continue
        if path.is_file():
            found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def _jobs(spark: SparkSession) -> list[str]:
    context = spark.sparkContext
    with urllib.request.urlopen(
        f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/jobs"
    ) as answer:
        jobs = json.load(answer)
    return [
        f"  {one['jobId']} {one['submissionTime'][17:23]} to {one.get('completionTime', '')[17:23]}, "
        f"{one['numTasks']} tasks: {one['name'][:70]}"
        for one in reversed(jobs)
    ]


@contextmanager
def _running(pipeline: Pipeline, spark: SparkSession) -> Iterator[queue.Queue[BatchReport]]:
    """Run the pipeline in a thread until the end; yields the reports of its batches."""
    stop, told = threading.Event(), _Told()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            run(pipeline.definition, every="1s", spark=spark, progress=told, stop=stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield told.reports
    finally:
        stop.set()
        thread.join()
        if failed:
            raise failed[0]
