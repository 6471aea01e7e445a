"""The lineage of rows, and of records that are none."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pytest

from interop.conftest import MakeTopic
from interop.spark.damage import rewrite
from interop.spark.other_readers import iceberg_snapshots
from interop.spark.test_audit import pipeline, produce, run
from kafkapy.pipeline import PipelineError
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.lineage.lineage import Lineage, lineage
from kafkapy.pipeline.maintain import maintain
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.table_target import TABLE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def newest_version(definition: PipelineDefinition) -> str:
    """As other readers know it."""
    if definition.table.format == "delta":
        return str(deltalake.DeltaTable(definition.table.location).version())
    if definition.table.format == "iceberg":
        return str(iceberg_snapshots(definition.table)[-1])
    return max(path.name for path in Path(definition.table.location).glob("batch=*"))


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_a_row_of_an_append_table_has_a_batch_and_a_version(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=2)
    definition = pipeline(
        kind, topic, bootstrap_servers, tmp_path, start="latest", dead_letter=f"{topic}.dlq",
        format={"kind": "json", "schema": "n INT"},
    )  # fmt: skip

    def told(offset: int, partition: int = 1) -> Lineage:
        return lineage(definition, source=f"{topic}-{partition}-{offset}", spark=spark)

    produce(bootstrap_servers, topic, [(1, "early", '{"n": 0}')])
    run(definition, spark)  # begins at offset 1
    versions = []
    for _ in range(2):
        records = [(1, f"k{n}", f'{{"n": {n}}}') for n in range(3)]
        produce(bootstrap_servers, topic, [*records, (1, "bad", "no JSON")])
        run(definition, spark)
        versions.append(newest_version(definition))
    for offset, batch, version in ((1, 0, versions[0]), (3, 0, versions[0]), (7, 1, versions[1])):
        found = told(offset)
        assert found.batch is not None
        assert (found.batch.first, found.batch.end) == ((1, 5), (5, 9))[batch]
        assert found.version == version
        assert [row.version for row in found.rows] == [version]
        assert (found.record or {})["key"] == f"'k{offset % 4 - 1 if offset < 5 else offset % 5}'"
        assert str(found).splitlines()[0] == f"{topic}-1-{offset} in {definition.table}: 1 row"
    dead = told(8)
    assert dead.dead_letter == "is not valid JSON"
    assert (dead.rows, dead.reason, dead.missing) == ((), "it is a dead letter", False)
    assert dead.batch is not None, "it was read"
    assert told(0).reason == "it is before the start of the pipeline"
    assert told(9).reason == "the topic ends at 9"
    produce(bootstrap_servers, topic, [(1, "late", '{"n": 9}')])
    assert told(9).reason == "it has not been read yet: the position is 9"
    maintain(definition, retain=timedelta(days=7), spark=spark)
    merged = told(7)
    assert merged.version == versions[1], "files were merged, but the batch is known"
    assert len(merged.rows) == 1
    rewrite(spark, definition.table, lambda rows: rows.where("_offset <> 2"))
    assert (told(2).missing, told(2).rows) == (True, ())
    reset(plan_reset(definition, '{"1": 10}'), spark=spark)
    run(definition, spark)
    produce(bootstrap_servers, topic, [(1, "more", '{"n": 9}')])
    run(definition, spark)
    assert told(9).reason == "a reset skipped it"
    for wrong in (f"{topic}-2-0", "other-1-0", "7"):
        with pytest.raises(PipelineError, match="--source: expected"):
            lineage(definition, source=wrong, spark=spark)
    with pytest.raises(PipelineError, match=r"--key: .* has a row for each record"):
        lineage(definition, key="k1", spark=spark)


@pytest.mark.parametrize(("kind", "key"), [("delta", None), ("iceberg", "id")])
def test_a_key_of_an_upsert_table_leads_to_its_record_or_to_what_replaced_it(
    spark: SparkSession,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    tmp_path: Path,
    kind: str,
    key: str | None,
) -> None:
    topic = make_topic(partitions=1)
    form = {"format": {"kind": "json", "schema": "id INT, n INT"}} if key else {}
    more = {"mode": "upsert", **form, **({"key": key} if key else {})}
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path, **more)

    def value(number: int, n: int) -> tuple[int, str, str]:
        return 0, f"k{number}", json.dumps({"id": number, "n": n})

    def of(number: int) -> Lineage:
        return lineage(definition, key=f"id={number}" if key else f"k{number}", spark=spark)

    produce(bootstrap_servers, topic, [value(number, 0) for number in range(4)])  # offsets 0 to 3
    run(definition, spark)
    first = newest_version(definition)
    assert [(of(3).source, [row.version for row in of(3).rows])] == [(f"{topic}-0-3", [first])]
    produce(bootstrap_servers, topic, [value(1, 1), (0, "k2", None)])  # 4 and 5
    run(definition, spark)
    found = of(1)
    assert found.source == f"{topic}-0-4"
    assert found.batch is not None
    assert (found.batch.id, found.batch.first, found.batch.end) == (1, 4, 6)
    assert len(found.rows) == 1

    def why(offset: int) -> str:
        return lineage(definition, source=f"{topic}-0-{offset}", spark=spark).reason

    assert why(1) == f"{topic}-0-4 is a later record of its key"
    assert why(2) == f"{topic}-0-5 deletes its key"
    assert why(5) == "it is a tombstone, which deletes the row of its key"
    deleted = of(2)
    assert (deleted.source, deleted.rows) == (f"{topic}-0-5", ())
    assert deleted.reason == "it is a tombstone, which deletes the row of its key"
    with pytest.raises(PipelineError, match=r"--key: neither .* has the key"):
        of(77)


def test_a_key_by_columns_is_not_found_before_there_are_columns(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path, mode="upsert", key="id", format="json")
    run(definition, spark)
    with pytest.raises(PipelineError, match=r"neither .* nor .* has the key 'id=7'"):
        lineage(definition, key="id=7", spark=spark)
    produce(bootstrap_servers, topic, [(0, "k", None)])
    run(definition, spark)
    with pytest.raises(PipelineError, match=r"neither .* nor .* has the key 'id=7'"):
        lineage(definition, key="id=7", spark=spark)
    produce(bootstrap_servers, topic, [(0, "k", '{"id": 7}')])
    run(definition, spark)
    assert lineage(definition, key="id=7", spark=spark).source == f"{topic}-0-1"
