"""Which rows a repair deletes, and which of them it puts back.

A repair deletes rows that the topic does not account for: those of another topic or of offsets that were
never read (`foreign`, `beyond_end`), and those of a key whose last record deletes it (`undeleted`), also if
compaction has removed that record since. Of a row that is there more than once, all are deleted and one is
put back: of an append table any, since they are of one record; of an upsert table the one of the last record,
by the order of `tables/upserts.py`. What the topic has and the table lacks is not repaired, but read again.

Some rows stay, whatever the audit says of them. Rows of records that the topic has beyond the position are
of a checkpoint that was restored from an older copy: the table knows their batches, and a run would skip them
(`tables/batch.py`); a reset reads them again. Rows of an append table at offsets of the topic that have no
record may have had one before a compaction, although the topic is not compacted any more. Rows of an upsert
table whose record the present schema cannot parse were written with another one.

Both functions return two data frames of places (topic, partition, offset, and the key of an upsert table):
those to empty, with a `verdict`, and those of which one row stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kafkapy.pipeline.audit.append import bounds_frame, judge_append
from kafkapy.pipeline.audit.report import Bounds
from kafkapy.pipeline.audit.upsert import judge_upsert

REPAIRED: Final = ("duplicated", "undeleted", "foreign", "beyond_end")
_PLACE: Final = ("topic", "partition", "offset")


def append_repairs(
    rows: DataFrame,
    records: DataFrame,
    dead_letters: DataFrame,
    bounds: Sequence[Bounds],
    *,
    topic: str,
    compacted: bool,
) -> tuple[DataFrame, DataFrame]:
    judged = judge_append(rows, records, dead_letters, bounds, topic=topic, compacted=compacted)
    ends = bounds_frame(rows, bounds).select("partition", "end")
    repaired = judged.where(f.col("verdict").isin(*REPAIRED)).join(ends, "partition", "left")
    of_topic = f"topic <=> '{topic}' AND coalesce(offset >= 0 AND offset < end, false)"
    emptied = repaired.where(f"verdict = 'duplicated' OR NOT ({of_topic})").select(*_PLACE, "verdict")
    return emptied, emptied.where("verdict = 'duplicated'").select(*_PLACE)


def upsert_repairs(
    rows: DataFrame,
    records: DataFrame,
    dead_letters: DataFrame,
    bounds: Sequence[Bounds],
    *,
    topic: str,
    compacted: bool,
) -> tuple[DataFrame, DataFrame]:
    within = Window.partitionBy("identity", "topic", "partition").orderBy(f.col("offset").desc())
    own = (f.col("topic") == topic).desc()
    among = Window.partitionBy("identity").orderBy(own, f.col("timestamp").desc(), f.col("partition").desc())
    last = rows.withColumn("times", f.count(f.lit(1)).over(Window.partitionBy("identity")))
    for window in (within, among):
        last = last.withColumn("rank", f.row_number().over(window)).where("rank = 1").drop("rank")
    last = last.localCheckpoint()
    judged = judge_upsert(
        last.drop("times"), records, dead_letters, bounds, topic=topic, compacted=compacted
    ).select(f.col("key").alias("judged"), "verdict")
    unparsed = records.where("unparsed").select("partition", "offset", "unparsed")
    found = last.join(judged, f.expr("identity <=> judged")).join(unparsed, ["partition", "offset"], "left")
    bad = f.col("verdict").isin(*REPAIRED) & f.col("unparsed").isNull()
    verdict = f.when(bad, f.col("verdict")).otherwise("duplicated").alias("verdict")
    repaired = found.where(bad | f.expr("times > 1"))
    groups = repaired.select(f.col("identity").alias("group"), verdict)
    emptied = rows.join(groups, f.expr("identity <=> group")).select(*_PLACE, "key", "verdict").distinct()
    return emptied, repaired.where(~bad).select(*_PLACE, "key")
