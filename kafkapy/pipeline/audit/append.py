"""The audit of an append table: it must have each offset that was read exactly once.

Skipped offsets may be absent or present: a batch that was killed before the reset may have written them.

Both sides are reduced to offsets and joined with a full join. Each offset gets one verdict, a kind of
`FINDINGS` or `NOTES` in `report.py`. Offsets without a record (transaction markers, aborted transactions,
compacted records) are not among the records read, so none is reported as missing. A row at such an offset is
foreign, unless the topic is compacted: then the offset had a record once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from kafkapy.pipeline.audit.report import FINDINGS, Bounds, Example, Finding


def bounds_frame(rows: DataFrame, bounds: Sequence[Bounds]) -> DataFrame:
    """The bounds as a broadcast data frame with one row per partition.

    It is built in SQL, so that it needs no Python worker.
    """
    names = "partition, start, committed, planned, log_start, end, skipped"

    def skipped(b: Bounds) -> str:
        ranges = ", ".join(f"struct({first}L, {end}L)" for first, end in b.skipped)
        return f"CAST(array({ranges}) AS ARRAY<STRUCT<first: BIGINT, until: BIGINT>>)"

    values = ", ".join(
        f"({b.partition}, {b.began}L, {b.committed}L, {b.planned}L, {b.log_start}L, {b.end}L, {skipped(b)})"
        for b in bounds
    )
    return f.broadcast(rows.sparkSession.sql(f"SELECT * FROM VALUES {values} AS bounds({names})"))


# Whether an offset is in one of the `skipped` ranges of its partition.
SKIPPED = "exists(skipped, each -> offset >= each.first AND offset < each.until)"


def judge_append(
    rows: DataFrame,
    records: DataFrame,
    dead_letters: DataFrame,
    bounds: Sequence[Bounds],
    *,
    topic: str,
    compacted: bool,
) -> DataFrame:
    """One row with a verdict for each offset that the table or the topic has.

    Its columns are verdict, topic, partition, offset and has_record.

    `rows` has topic, partition and offset of every row of the table; `records` partition, offset,
    left_out and undecided of the topic's records up to `planned`; `dead_letters` partition and offset.
    """
    offsets = rows.groupBy("topic", "partition", "offset").agg(f.count(f.lit(1)).alias("times"))
    present = [
        f.lit(topic).alias("topic"),
        "partition",
        "offset",
        "left_out",
        "undecided",
        f.lit(True).alias("has_record"),
    ]
    dead = dead_letters.select(f.lit(topic).alias("topic"), "partition", "offset", f.lit(True).alias("dead"))
    place = ["topic", "partition", "offset"]
    verdict = f"""
        CASE
        WHEN start IS NULL OR topic <> '{topic}' OR offset IS NULL OR offset < 0 THEN 'foreign'
        WHEN times IS NULL AND offset >= greatest(start, log_start) AND offset < committed AND NOT {SKIPPED}
            THEN CASE WHEN dead THEN 'dead_letters' WHEN left_out THEN 'left_out'
                WHEN undecided THEN 'undecided' ELSE 'missing' END
        WHEN times IS NULL THEN NULL
        WHEN offset >= end OR offset >= planned THEN 'beyond_end'
        WHEN times > 1 THEN 'duplicated'
        WHEN offset < log_start THEN 'expired'
        WHEN has_record IS NULL THEN '{"compacted" if compacted else "foreign"}'
        WHEN offset >= committed THEN 'later'
        WHEN offset < start THEN 'earlier'
        ELSE 'matching'
        END
    """
    joined = (
        offsets.join(records.select(*present), place, "full")
        .join(dead.dropDuplicates(place), place, "left")
        .join(bounds_frame(rows, bounds), "partition", "left")
    )
    within = f"has_record AND offset >= greatest(start, log_start) AND offset < committed AND NOT {SKIPPED}"
    return joined.select(
        f.expr(verdict).alias("verdict"),
        *place,
        f.expr(f"coalesce({within}, false)").alias("has_record"),
    )


def range_findings(judged: DataFrame, counts: dict[str, int], examples: int) -> tuple[Finding, ...]:
    """The findings of an append table.

    One example is a range of consecutive offsets of a partition. `judged` has verdict, topic, partition and
    offset. `counts` is the number of offsets of each verdict.
    """
    kinds = [kind for kind in FINDINGS if counts.get(kind)]
    if not kinds:
        return ()
    place = Window.partitionBy("verdict", "topic", "partition").orderBy("offset")
    island = (f.col("offset") - f.row_number().over(place)).alias("island")
    ranges = (
        judged.where(f.col("verdict").isin(kinds))
        .select("verdict", "topic", "partition", "offset", island)
        .groupBy("verdict", "topic", "partition", "island")
        .agg(f.min("offset").alias("first"), f.max("offset").alias("last"))
        .persist()
    )
    try:
        return tuple(
            Finding(kind, counts[kind], tuple(_range(row) for row in _first(ranges, kind, examples)))
            for kind in kinds
        )
    finally:
        ranges.unpersist()


def _first(ranges: DataFrame, kind: str, examples: int) -> list[Any]:
    chosen = ranges.where(f.col("verdict") == kind).orderBy("topic", "partition", "first").limit(examples)
    return list(chosen.collect())


def _range(row: Any) -> Example:
    return Example(row["partition"], row["first"], row["last"], row["topic"] or "?")
