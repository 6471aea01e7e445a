"""Partition values and paths with every kind of character, as other readers read them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_audit import produce
from kafkapy.pipeline import PipelineDefinition
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.maintain import maintain
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.table_target import TABLE_FORMATS

pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from interop.spark.other_readers import partitioned_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
VALUES = [
    *(
        "plain",
        "a b",
        " led",
        "trailed ",
        "50%",
        "%20",
        "a%2Fb",
        "x=y",
        "a:b",
        "a/b",
        "a\\b",
        "a+b",
        "a&b?c#d",
    ),
    *(
        "Ærø",
        "日本語",
        "e\u0301",
        "😀",
        "it's",
        '"quoted"',
        "[x]{y}",
        "*",
        "~",
        ".",
        "..",
        ".hidden",
        "_hidden",
    ),
    *("a,b;c", "tab\there", "line\nbreak", "null", "NULL", "True", "1", "0x1", "2026-01-31"),
]
# deltalake opens no folder whose name has a %, and DuckDB takes [x] for a pattern.
FOLDER = "tä ble +&'"


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_every_text_is_a_partition_that_every_reader_reads(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=1)
    upsert = {} if kind == "parquet" else {"mode": "upsert", "key": "id"}
    definition = PipelineDefinition.from_mapping(
        {
            "topic": topic,
            "bootstrap": bootstrap_servers,
            "table": f"{kind}:{tmp_path / FOLDER}",
            "format": {"kind": "json", "schema": "id INT, place STRING, n INT"},
            "partition_by": "place",
            **(upsert or {"mode": "append"}),
        }
    )
    sent: dict[int, tuple[str | None, int]] = {}

    def send(records: list[tuple[int, str | None, int]]) -> None:
        sent.update({number: (place, n) for number, place, n in records})
        texts = [json.dumps({"id": number, "place": place, "n": n}) for number, place, n in records]
        produce(
            bootstrap_servers,
            topic,
            [(0, f"k{number}", value) for number, value in zip(sent, texts, strict=False)],
        )
        run(definition, once=True, spark=spark)

    def check() -> None:
        for reader, found in partitioned_rows(definition.table):
            assert found == sent, reader
        report = audit(definition, spark, deep=True)
        assert report.ok, str(report)

    send([(number, value, 0) for number, value in enumerate([*VALUES, None])])
    check()
    first = len(sent)
    send([(number, value, 1) for number, value in enumerate(VALUES, start=0 if upsert else first)])
    check()
    for offset in (first, first + 4, first + 9, first + 13, first + 28):
        found = lineage(definition, source=f"{topic}-0-{offset}", spark=spark)
        (row,) = found.rows
        assert row.version
        assert Path(row.file.removeprefix("file:")).is_file(), row.file
    maintain(definition, retain=datetime.timedelta(days=7), spark=spark)
    check()


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_a_path_is_no_pattern_and_no_folder_of_a_batch(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=1)
    upsert = kind != "parquet"
    definition = PipelineDefinition.from_mapping(
        {
            "topic": topic,
            "bootstrap": bootstrap_servers,
            "table": f"{kind}:{tmp_path}/batch=7/[ta]{{b,l}}e*?/orders",
            "format": {"kind": "json", "schema": "place STRING, n INT"},
            "partition_by": "place",
            "mode": "upsert" if upsert else "append",
        }
    )
    records = [(0, f"k{n}", json.dumps({"place": "a/batch=3/b", "n": n})) for n in range(4)]
    for part in (records[:2], [*records[2:], (0, "k0", None)], [(0, "k1", records[1][2])]):
        produce(bootstrap_servers, topic, part if upsert else [one for one in part if one[2] is not None])
        run(definition, once=True, spark=spark)
        report = audit(definition, spark, deep=True)
        assert report.ok, str(report)
    (row,) = lineage(definition, source=f"{topic}-0-2", spark=spark).rows
    assert row.version
    assert Path(row.file.removeprefix("file:")).is_file(), row.file
    maintain(definition, retain=datetime.timedelta(0), spark=spark)
    assert audit(definition, spark, deep=True).ok
    reset(plan_reset(definition, '{"0": 1}'), spark=spark)
    run(definition, once=True, spark=spark)
    assert audit(definition, spark, deep=True).ok
