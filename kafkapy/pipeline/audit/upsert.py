"""The audit of an upsert table: it must have one row per key, from the key's last record.

The last record of a key is determined per partition, since records are ordered only within one. If a key has
records in several partitions (partitions were added to the topic), the row may come from the last record of
any of them, or be absent if one of them deletes it. It must be absent if a tombstone of another partition has
a later timestamp than all records of the row's own partition.

A key is what the pipeline matches rows by: the record key, or columns of the value (`identity`). A tombstone
has no columns: it deletes the rows that came from records with its record key. A deletion that has the
columns, as those of change streams have, is the last record of its key (`gone`).

Skipped records decide nothing, but one of them may be the reason why another was compacted away.

An audit may run while the pipeline runs, so keys with records after the committed batch are not judged. A row
whose record is no longer in the topic is correct if the record has expired, or if the topic is compacted and
has a later record with that record key: compaction keeps the last record, unless it is a tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkapy.pipeline.audit.append import SKIPPED, bounds_frame
from kafkapy.pipeline.audit.report import FINDINGS, Bounds, Example, Finding


def judge_upsert(
    rows: DataFrame,
    records: DataFrame,
    dead_letters: DataFrame,
    bounds: Sequence[Bounds],
    *,
    topic: str,
    compacted: bool,
) -> DataFrame:
    """One row with a verdict for each key that the table or the topic has.

    Its columns are verdict, topic, partition, offset, key and expected.

    `rows` has topic, partition, offset, key (of the record) and identity of every row of the table; `records`
    has partition, offset, timestamp, key, identity, deleted, gone, undecided and unparsed of the topic's
    records, from the first that can be compared to the end of the topic: a record that is not read yet may be
    the reason why another was compacted away. Only values that parse need an identity. `dead_letters` has
    partition and offset.
    """
    limits = bounds_frame(rows, bounds)
    records = (
        records.join(limits.select("partition", "committed", "planned", "skipped"), "partition")
        .join(
            dead_letters.select("partition", "offset", f.lit(True).alias("dead")),
            ["partition", "offset"],
            "left",
        )
        .withColumn("dead_letter", f.expr("unparsed OR coalesce(dead, false)"))
        .withColumn("read", f.expr(f"offset < planned AND NOT {SKIPPED}"))
        .drop("skipped")
    )
    by_key = _by_key(records)
    lasts = _last_values(records.where("NOT deleted AND NOT dead_letter AND read"), by_key)
    present = (
        rows.join(by_key, "key", "left")
        .groupBy("identity")
        .agg(
            f.count(f.lit(1)).alias("times"),
            f.expr(
                "max_by(struct(topic, partition, offset, "
                "tombstones, times_of_death, tombstone_later, newest), offset)"
            ).alias("row"),
        )
        .select("identity", "times", "row.*")
    )
    lasts = lasts.withColumnRenamed("identity", "last_identity")
    joined = present.join(lasts, f.expr("identity <=> last_identity"), "full").join(
        limits, "partition", "left"
    )
    own = "get(filter(lasts, each -> each.partition = partition), 0)"
    judged = joined.select(
        "*",
        f.expr(own).alias("own"),
        f.expr("coalesce(identity, last_identity)").alias("either_identity"),
        f.expr("coalesce(later, false) OR coalesce(tombstone_later, false)").alias("unsettled"),
    )
    of_others = "map_values(map_filter(times_of_death, (p, time) -> p <> partition))"
    gone = "each.gone AND each.partition <> partition AND each.newest_time > own.newest_time"
    elsewhere = f"(exists({of_others}, time -> time > own.newest_time) OR exists(lasts, each -> {gone}))"
    verdict = f"""
        CASE
        WHEN times IS NULL AND unsettled THEN 'later'
        WHEN times IS NULL AND forall(lasts, each -> NOT each.dead AND NOT each.elsewhere)
            THEN if(exists(lasts, each -> each.undecided), 'undecided', 'missing')
        WHEN times IS NULL THEN 'deleted'
        WHEN start IS NULL OR topic <> '{topic}' OR offset IS NULL OR offset < 0 THEN 'foreign'
        WHEN offset >= end THEN 'beyond_end'
        WHEN times > 1 THEN 'duplicated'
        WHEN unsettled OR offset >= committed THEN 'later'
        WHEN offset < own.offset THEN if(own.dead, 'undeleted', 'stale')
        WHEN offset = own.offset THEN if(own.dead OR {elsewhere}, 'undeleted', 'matching')
        WHEN tombstones[partition] > offset THEN 'undeleted'
        WHEN offset < log_start THEN 'expired'
        WHEN offset < start OR {SKIPPED} THEN 'earlier'
        WHEN {compacted} AND (newest[partition] > offset OR exists(skipped, each -> each.until > offset))
            THEN 'compacted'
        WHEN {compacted} AND lasts IS NULL THEN 'undeleted'
        ELSE 'foreign'
        END
    """
    first = "get(lasts, 0)"
    return judged.select(
        f.expr(verdict).alias("verdict"),
        f.coalesce(f.col("topic"), f.lit(topic)).alias("topic"),
        f.expr(f"coalesce(partition, {first}.partition)").alias("partition"),
        f.expr(f"coalesce(offset, {first}.offset)").alias("offset"),
        f.col("either_identity").alias("key"),
        f.expr("nullif(greatest(own.offset, tombstones[partition]), offset)").alias("expected"),
    )


def explained(judged: DataFrame, of_everything: DataFrame) -> DataFrame:
    """What was judged of a window, with keys as `deleted` that only miss what came before it."""
    missing = of_everything.where("verdict = 'missing'").select(f.col("key").alias("missing_key"))
    found = judged.join(missing, f.expr("key <=> missing_key"), "left")
    explains = f.expr("verdict = 'missing' AND missing_key IS NULL")
    verdict = f.when(explains, "deleted").otherwise(f.col("verdict"))
    return found.withColumn("verdict", verdict).drop("missing_key")


def _by_key(records: DataFrame) -> DataFrame:
    """(key, tombstones, times_of_death, tombstone_later, newest), one row per record key.

    `tombstones` maps each partition to the offset of its last committed tombstone, `times_of_death` to its
    timestamp, `newest` to the offset of its last record of any kind, read or not.
    """
    tombstone = "deleted AND NOT dead_letter AND read"
    return (
        records.where("key IS NOT NULL")
        .groupBy("key", "partition")
        .agg(
            f.expr(f"max(offset) FILTER (WHERE {tombstone} AND offset < committed)").alias("offset"),
            f.expr(f"max_by(timestamp, offset) FILTER (WHERE {tombstone} AND offset < committed) AS time"),
            f.expr(f"coalesce(bool_or({tombstone} AND offset >= committed), false)").alias("later"),
            f.max("offset").alias("newest"),
        )
        .groupBy("key")
        .agg(
            f.expr(
                "map_from_entries(collect_list(struct(partition, offset)) FILTER (WHERE offset IS NOT NULL))"
            ).alias("tombstones"),
            f.expr(
                "map_from_entries(collect_list(struct(partition, time)) FILTER (WHERE offset IS NOT NULL))"
            ).alias("times_of_death"),
            f.expr("bool_or(later)").alias("tombstone_later"),
            f.expr("map_from_entries(collect_list(struct(partition, newest)))").alias("newest"),
        )
    )


def _last_values(values: DataFrame, by_key: DataFrame) -> DataFrame:
    """(identity, lasts, later), one row per key: its last committed value in each partition.

    `dead` means that a later tombstone of the same partition deletes it, `elsewhere` that a tombstone of
    another partition may delete it. `newest_time` is the latest timestamp of the key in the partition.
    """
    dead = "(gone OR coalesce(tombstones[partition] > offset, false))"
    elsewhere = "coalesce(size(map_filter(tombstones, (p, o) -> p <> partition)) > 0, false)"
    return (
        values.groupBy("identity", "partition")
        .agg(
            f.expr("max(offset) FILTER (WHERE offset < committed)").alias("offset"),
            f.expr("max_by(key, offset) FILTER (WHERE offset < committed)").alias("key"),
            f.expr("coalesce(max_by(gone, offset) FILTER (WHERE offset < committed), false)").alias("gone"),
            f.expr("coalesce(max_by(undecided, offset) FILTER (WHERE offset < committed), false)").alias(
                "undecided"
            ),
            f.expr("max(timestamp) FILTER (WHERE offset < committed)").alias("newest_time"),
            f.expr("bool_or(offset >= committed)").alias("later"),
        )
        .join(by_key, "key", "left")
        .groupBy("identity")
        .agg(
            f.expr(
                "collect_list(struct("
                f"partition, offset, newest_time, gone, undecided, {dead} AS dead, {elsewhere} AS elsewhere))"
                " FILTER (WHERE offset IS NOT NULL)"
            ).alias("lasts"),
            f.expr("bool_or(later OR coalesce(tombstone_later, false))").alias("later"),
        )
    )


def key_findings(judged: DataFrame, counts: dict[str, int], examples: int) -> tuple[Finding, ...]:
    """The findings of an upsert table.

    One example is one key.
    """
    findings = []
    for kind in FINDINGS:
        if counts.get(kind):
            found = judged.where(f.col("verdict") == kind).orderBy("topic", "partition", "offset")
            chosen = found.limit(examples).collect()
            findings.append(Finding(kind, counts[kind], tuple(_example(row) for row in chosen)))
    return tuple(findings)


def _example(row: Any) -> Example:
    return Example(
        row["partition"], row["offset"], row["offset"], row["topic"], shown_key(row["key"]), row["expected"]
    )


def shown_key(key: Any) -> str:
    """A record key as text, or in hexadecimal if it is not UTF-8.

    Key columns as `id=7, region='eu'`.
    """
    if key is None:
        return "null"
    if isinstance(key, (bytes, bytearray)):
        text = bytes(key).decode("utf-8", "replace")
        return repr(text) if text.isprintable() and "\ufffd" not in text else f"0x{bytes(key).hex()}"
    return ", ".join(f"{name}={value!r}" for name, value in key.asDict().items())
