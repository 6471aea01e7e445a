"""Random histories of a compacted topic, and audits of its table.

A right table is clean, and one wrong row of it is found, each time.

A history is one partition with keys of its own, so that one comparison judges hundreds of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kafkapy.pipeline.audit.report import Bounds

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.audit.upsert import judge_upsert, key_findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED = 20_261_121
HISTORIES = 200
VALUE, TOMBSTONE, BAD = "value", "tombstone", "bad"


@dataclass
class History:
    """Records are (key, kind) by offset.

    `topic` has the offsets that are left, `rows` the offset of each key.
    """

    bounds: Bounds
    records: list[tuple[str, str]]
    topic: set[int]
    rows: dict[str, int]
    extra: list[tuple[str, int]] = field(default_factory=list)

    def read(self, offset: int) -> bool:
        return not any(first <= offset < end for first, end in self.bounds.skipped)

    @property
    def unsettled(self) -> set[str]:
        return {key for key, _ in self.records[self.bounds.committed : self.bounds.planned]}

    def last(self, key: str) -> int | None:
        """The last committed record of the key that was not bad, if the topic still has it."""
        offsets = [
            offset
            for offset in range(self.bounds.start, self.bounds.committed)
            if self.records[offset][0] == key and self.records[offset][1] != BAD and self.read(offset)
        ]
        return offsets[-1] if offsets and offsets[-1] in self.topic else None


def history(partition: int, rng: random.Random) -> History:
    length = rng.randint(1, 40)
    kinds = [VALUE] * 6 + [TOMBSTONE] * 3 + [BAD]
    records = [(f"{partition}-{rng.randrange(6)}", rng.choice(kinds)) for _ in range(length)]
    start, committed, planned, compacted = sorted(rng.randint(0, length) for _ in range(4))
    if rng.random() < 0.5:
        start = 0
    skipped: tuple[tuple[int, int], ...] = ()
    if rng.random() < 0.4:
        first, end = sorted(rng.randint(start, committed) for _ in range(2))
        skipped = ((first, end),)
    written = planned if rng.random() < 0.5 else committed
    rows: dict[str, int] = {}
    for offset in range(start, written):
        key, kind = records[offset]
        if any(first <= offset < end for first, end in skipped):
            continue
        if kind == VALUE:
            rows[key] = offset
        elif kind == TOMBSTONE:
            rows.pop(key, None)
    left = set(range(length))
    for offset in range(compacted):
        key, kind = records[offset]
        superseded = any(later == key for later, _ in records[offset + 1 : compacted])
        # A tombstone that the pipeline has not read must stay: its row would rightly be found.
        if superseded or (kind == TOMBSTONE and offset < committed and rng.random() < 0.5):
            left.discard(offset)
    log_start = rng.randint(0, committed) if rng.random() < 0.3 else 0
    left -= set(range(log_start))
    bounds = Bounds(partition, start, committed, planned, log_start, length, skipped)
    return History(bounds, records, left, rows)


def damaged(made: History, rng: random.Random) -> str:
    """Changes one row, and says which finding that is."""
    bounds, rows = made.bounds, made.rows
    settled = {key: offset for key, offset in rows.items() if key not in made.unsettled}
    judged = sorted(key for key, offset in settled.items() if made.last(key) == offset >= bounds.first)
    choices = ["beyond_end"]
    if judged:
        choices += ["missing", "duplicated"]
    older = {
        key: [o for o in range(bounds.start, settled[key]) if made.records[o] == (key, VALUE)]
        for key in judged
    }
    stale = sorted(key for key, offsets in older.items() if offsets)
    if stale:
        choices.append("stale")
    gone = sorted(
        key
        for key in {key for key, _ in made.records} - set(rows) - made.unsettled
        if (last := made.last(key)) is not None
        and last >= bounds.first
        and any(
            made.records[offset] == (key, VALUE) and made.read(offset) for offset in range(bounds.start, last)
        )
    )
    if gone:
        choices.append("undeleted")
    choice = rng.choice(choices)
    if choice == "beyond_end":
        rows["new"] = bounds.end + rng.randrange(3)
    elif choice == "missing":
        del rows[rng.choice(judged)]
    elif choice == "duplicated":
        key = rng.choice(judged)
        made.extra.append((key, rows[key]))
    elif choice == "stale":
        key = rng.choice(stale)
        rows[key] = rng.choice(older[key])
    else:
        key = rng.choice(gone)
        rows[key] = next(
            o for o in range(bounds.start, bounds.end) if made.records[o] == (key, VALUE) and made.read(o)
        )
    return choice


def findings(spark: SparkSession, histories: list[History]) -> dict[int, str]:
    """What was found, by partition; fails when one partition has more than one finding."""
    rows = [
        ("t", h.bounds.partition, offset, key if key != "new" else f"new {h.bounds.partition}")
        for h in histories
        for key, offset in [*h.rows.items(), *h.extra]
    ]
    records = [
        (h.bounds.partition, offset, *h.records[offset])
        for h in histories
        for offset in sorted(h.topic)
        if h.bounds.first <= offset
    ]
    dead = [(p, o) for p, o, _, kind in records if kind == BAD]
    judged = judge_upsert(
        spark.createDataFrame(rows, "topic STRING, partition INT, offset BIGINT, text STRING").selectExpr(
            "topic", "partition", "offset", "binary(text) AS key", "binary(text) AS identity"
        ),
        spark.createDataFrame(records, "partition INT, offset BIGINT, text STRING, kind STRING").selectExpr(
            "partition",
            "offset",
            "timestamp_seconds(offset) AS timestamp",
            "binary(text) AS key",
            "binary(text) AS identity",
            f"kind = '{TOMBSTONE}' AS deleted",
            "false AS gone",
            "false AS unparsed",
            "false AS undecided",
        ),
        spark.createDataFrame(dead, "partition INT, offset BIGINT"),
        [h.bounds for h in histories],
        topic="t",
        compacted=True,
    )
    counts = {row["verdict"]: row["count"] for row in judged.groupBy("verdict").count().collect()}
    found: dict[int, str] = {}
    for finding in key_findings(judged, counts, HISTORIES * 10):
        for example in finding.examples:
            assert example.partition is not None
            assert example.partition not in found, f"seed {SEED}: {example} besides {found}"
            found[example.partition] = finding.kind
    return found


def test_a_right_table_is_clean_whatever_the_topic_has_lost(spark: SparkSession) -> None:
    rng = random.Random(SEED)
    histories = [history(partition, rng) for partition in range(HISTORIES)]
    found = findings(spark, histories)
    assert not found, f"seed {SEED}: {[(kind, histories[p]) for p, kind in list(found.items())[:2]]}"


def test_one_wrong_row_is_found_for_what_it_is(spark: SparkSession) -> None:
    rng = random.Random(SEED + 2)
    histories = [history(partition, rng) for partition in range(HISTORIES)]
    expected = {h.bounds.partition: damaged(h, rng) for h in histories}
    found = findings(spark, histories)
    wrong = [(kind, found.get(p), histories[p]) for p, kind in expected.items() if found.get(p) != kind]
    assert not wrong, f"seed {SEED + 2}: {len(wrong)} of {len(expected)}, {wrong[:2]}"
    assert set(expected.values()) == {"beyond_end", "missing", "duplicated", "stale", "undeleted"}
