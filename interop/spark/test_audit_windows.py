"""Audits of a window, and of what came after the last one."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from interop.conftest import MakeTopic
from interop.spark.damage import rewrite, rows_of
from interop.spark.test_audit import changed, found, numbered, pipeline, produce, run
from kafkapy.pipeline import PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.maintain import maintain
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TABLE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
_WEEK = timedelta(days=7)


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_a_window_of_an_append_table_is_compared_and_nothing_else(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=2)
    second = int(time.time() * 1000) // 1000 * 1000
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition, key, value in numbered(2, 100):
        at = second + 1000 * int(str(key).removeprefix("key "))
        producer.produce(topic, value, key, partition=partition, timestamp=at)
    producer.flush()
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path)
    run(definition, spark)

    def damage(rows: DataFrame) -> DataFrame:
        rows = rows.where("NOT (_partition = 0 AND _offset IN (10, 20, 30)) AND _offset <> 70")
        return rows.union(rows.where("_partition = 1 AND _offset = 50"))

    rewrite(spark, definition.table, damage)

    def missing(starting: str | None, ending: str | None) -> dict[str, list[str]]:
        return found(audit(definition, spark, starting=starting, ending=ending))

    ten_to_thirty = {"missing": [f"{topic}-0: 10", f"{topic}-0: 20"]}
    assert missing('{"0": 10, "1": 60}', '{"0": 30, "1": 70}') == ten_to_thirty
    assert missing(str(second + 10_000), str(second + 29_999)) == ten_to_thirty
    assert missing('{"0": 31}', '{"0": 70, "1": 50}') == {}
    assert missing('{"0": 100, "1": 50}', None) == {
        "missing": [f"{topic}-1: 70"],
        "duplicated": [f"{topic}-1: 50"],
    }
    clean = audit(definition, spark, starting='{"0": 71, "1": 90}', deep=True)
    assert clean.notes == {"matching": 39}
    assert clean.limits == ("Rows and records outside of the window were not looked at.",)
    with pytest.raises(PipelineError, match="before it begins at 50"):
        missing('{"0": 50}', '{"0": 40}')
    with pytest.raises(PipelineError, match="--from: expected earliest, a time or offsets"):
        missing("latest", None)


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_an_incremental_audit_reads_newer_records_and_sees_that_older_rows_have_changed(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(2, 100))
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    first = audit(definition, spark, incremental=True)
    assert (first.notes, first.limits) == ({"matching": 200}, ())
    produce(bootstrap_servers, topic, numbered(2, 10))
    run(definition, spark)
    maintain(definition, retain=_WEEK, spark=spark)
    second = audit(definition, spark, incremental=True)
    assert second.notes == {"matching": 20}
    (limit,) = second.limits
    assert "not read again" in limit
    assert [b.starting for b in second.bounds] == [100, 100]
    assert audit(definition, spark, incremental=True, deep=True).notes == {"matching": 220}, "another kind"
    assert audit(definition, spark, incremental=True).notes == {}

    healthy = rows_of(spark, definition.table).localCheckpoint()
    rewrite(spark, definition.table, lambda rows: rows.where("_partition = 1 OR _offset <> 7"))
    found_again = audit(definition, spark, incremental=True)
    assert found(found_again) == {"missing": [f"{topic}-0: 7"]}
    assert found_again.limits == ()
    rewrite(spark, definition.table, lambda rows: changed(healthy, "_offset = 7", _topic="'another'"))
    assert set(found(audit(definition, spark, incremental=True))) == {"missing", "foreign"}
    rewrite(spark, definition.table, lambda rows: healthy)
    assert audit(definition, spark, incremental=True).notes == {}
    reset(plan_reset(definition, '{"0": 50}'), spark=spark)
    run(definition, spark)
    assert audit(definition, spark, incremental=True).notes == {"matching": 220}, "a reset begins anew"
    State(definition.table.location).write_text("audited.json", "{")
    assert audit(definition, spark, incremental=True).notes == {"matching": 220}


def test_an_incremental_audit_of_an_upsert_table_judges_the_keys_of_newer_records(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1, cleanup_policy="compact")
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path)

    def updates(n: int, ids: range) -> list[tuple[int, str, str]]:
        return [(0, f"k{i}", json.dumps({"id": i, "n": n})) for i in ids]

    produce(bootstrap_servers, topic, updates(0, range(20)))  # offsets 0 to 19
    run(definition, spark)
    assert audit(definition, spark, incremental=True).notes == {"matching": 20}
    old = rows_of(spark, definition.table).localCheckpoint()
    produce(bootstrap_servers, topic, [*updates(1, range(10)), (0, "k15", None), *updates(1, range(30, 31))])
    run(definition, spark)
    newer = audit(definition, spark, starting='{"0": 20}')
    assert newer.notes == {"matching": 11, "earlier": 9}
    assert "audit everything" in newer.limits[0]
    healthy = rows_of(spark, definition.table).localCheckpoint()

    def damage(rows: DataFrame) -> DataFrame:
        rows = healthy.where("string(_key) NOT IN ('k1', 'k12', 'k30')")
        return rows.unionByName(old.where("string(_key) IN ('k1', 'k15', 'k16')"))

    rewrite(spark, definition.table, damage)
    assert found(audit(definition, spark, incremental=True)) == {
        "missing": [f"{topic}-0: 31 key 'k30'"],
        "duplicated": [f"{topic}-0: 16 key 'k16'"],
        "stale": [f"{topic}-0: 1 key 'k1', the last is 21"],
        "undeleted": [f"{topic}-0: 15 key 'k15', the last is 30"],
    }, "k12 is before the window"
    rewrite(spark, definition.table, lambda rows: healthy)
    assert audit(definition, spark, incremental=True).notes == {"matching": 11, "earlier": 9}
    maintain(definition, retain=_WEEK, spark=spark)
    assert audit(definition, spark, incremental=True).notes == {"matching": 20, "deleted": 1}
    with pytest.raises(PipelineError, match="leave --to out"):
        audit(definition, spark, ending='{"0": 20}')


def test_a_tombstone_before_the_window_explains_why_a_key_of_it_has_no_row(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2, cleanup_policy="compact")
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path)
    now = int(time.time() * 1000)

    def write(partition: int, at: int, **values: str | None) -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        for key, value in values.items():
            producer.produce(topic, value, key, partition=partition, timestamp=at)
        producer.flush()
        run(definition, spark)

    write(1, now, a="1", b="1")
    write(1, now, a=None)
    assert audit(definition, spark, incremental=True).ok
    write(0, now - 1_000, a="0", c="0")  # the older record of `a` is read later
    assert audit(definition, spark).notes == {"matching": 2, "deleted": 1}
    newer = audit(definition, spark, incremental=True)
    assert newer.notes == {"matching": 1, "deleted": 1, "earlier": 1}, str(newer)
    rewrite(spark, definition.table, lambda rows: rows.where("string(_key) <> 'c'"))
    newer = audit(definition, spark, starting='{"1": 3}')
    assert found(newer) == {"missing": [f"{topic}-0: 1 key 'c'"]}
