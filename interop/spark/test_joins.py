"""Joins with a table: what lands, what is counted, what an audit can say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.damage import rewrite
from interop.spark.other_readers import live_files
from interop.spark.test_runs import produce, rows
from interop.spark.test_transforms import computed, parser
from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.dead_letters.reader import dead_letters
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.topics import Topics

pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ORDER = "id BIGINT, customer INT, n INT"
CUSTOMERS = [(1, "ann", "NO"), (2, "bob", "DE"), (3, "eve", "NO"), (3, "eva", "SE"), (None, "nil", "NO")]


def write_customers(
    spark: SparkSession, table: str, customers: list[tuple[int | None, str, str]] = CUSTOMERS
) -> None:
    kind, _, location = table.partition(":")
    frame = spark.createDataFrame(customers, "id BIGINT, name STRING, country STRING").coalesce(1)
    writer = frame.write.mode("overwrite")
    if kind == "csv":
        writer.option("header", True).csv(location)
    elif kind == "iceberg":
        spark.conf.set("spark.sql.catalog.joined", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set("spark.sql.catalog.joined.type", "hadoop")
        spark.conf.set("spark.sql.catalog.joined.warehouse", str(Path(location).parent))
        spark.conf.set("spark.sql.catalog.joined.cache-enabled", "false")
        frame.writeTo(f"joined.`{Path(location).name}`").createOrReplace()
    else:
        writer.format(kind).save(location)


def order(number: int, customer: object, n: int = 1) -> dict[str, Any]:
    return {"id": number, "customer": customer, "n": n}


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet", "csv"])
def test_a_record_gets_the_row_that_it_matches_and_is_never_two(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    # A pattern in the path of files would match nothing here.
    table = f"{kind}:{tmp_path / ('cust omers' if kind in ('delta', 'iceberg') else 'c{u}[s]t*o?mers')}"
    write_customers(spark, table)
    match = "CAST(customer AS STRING)" if kind == "csv" else "customer"
    reader = parser(
        tmp_path,
        schema=ORDER,
        join={"c": {"table": table, "match": {"id": match}}},
        select=["id", "c.name AS name", "upper(c.country) AS country", "c IS NULL AS unknown"],
        where="n > 0",
    )
    values = [
        order(10, 1),
        order(11, 2),
        order(12, 3),
        order(13, 4),
        order(14, None),
        order(15, 1, n=0),
        None,
    ]
    row = {"id": 10, "name": "ann", "country": "NO", "unknown": False}
    nothing = {"name": None, "country": None, "unknown": True}
    assert computed(spark, reader, *values) == [
        row,
        {**row, "id": 11, "name": "bob", "country": "DE"},
        "matches 2 rows of c",
        {"id": 13, **nothing},
        {"id": 14, **nothing},
        "where",
        "where",
    ]
    assert reader.joined_columns(spark) == {"name", "country", "unknown"}


@pytest.mark.parametrize(
    ("join", "more", "problem"),
    [
        ({"match": {"id": "n.x"}}, {}, "join.c.match: n.x: "),
        ({"match": {"nr": "customer"}}, {}, "has no column nr; it has id, name, country"),
        ({"match": {"name": "customer"}}, {}, "write name: CAST(customer AS STRING)"),
        ({"match": {"id": "rand()"}}, {}, "join.c.match: rand(): gives another value each time"),
        ({"table": "delta:/no/where", "match": "id"}, {}, "join.c: delta:/no/where cannot be read: "),
        ({}, {"key": "name"}, "key: c.name AS name is computed from a joined table"),
        ({}, {"select": ["id", "d.name"]}, "select: d.name: "),
    ],
)
def test_a_join_that_cannot_be_made_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, join: dict[str, Any], more: dict[str, Any], problem: str
) -> None:
    table = f"parquet:{tmp_path / 'customers'}"
    write_customers(spark, table)
    given = {"c": {"table": table, "match": {"id": "customer"}, **join}}
    reader = parser(tmp_path, schema=ORDER, join=given, **{"select": ["id", "c.name AS name"], **more})
    with pytest.raises(PipelineError) as caught:
        computed(spark, reader, order(1, 1))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def by_duckdb(definition: PipelineDefinition) -> list[tuple[Any, ...]]:
    """As DuckDB reads the files: id, name."""
    import duckdb

    with duckdb.connect() as connection:
        source = connection.read_parquet([str(path) for path in live_files(definition.table)])
        return sorted(source.project("id, name").fetchall())


def test_an_append_table_keeps_what_the_joined_table_had_when_its_batch_was_written(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, table = make_topic(), f"delta:{tmp_path / 'customers'}"
    write_customers(spark, table)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ORDER).append().dead_letter(f"{topic}.dlq")
    pipeline = pipeline.join("c", table, {"id": "customer"}).select("id", "c.name AS name")
    definition = pipeline.where("c IS NOT NULL").to_delta(tmp_path / "orders").definition
    produce(bootstrap_servers, topic, [("k", json.dumps(order(n, n))) for n in (1, 2, 3, 4)])
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters, result.left_out) == (2, 1, 1)
    assert by_duckdb(definition) == [(1, "ann"), (2, "bob")]
    (letter,) = dead_letters(definition, Topics(bootstrap_servers))
    assert letter.error == "matches 2 rows of c"

    write_customers(spark, table, [(1, "ANN", "NO"), (2, "bob", "DE"), (2, "bop", "DE"), (4, "dan", "DE")])
    produce(bootstrap_servers, topic, [("k", json.dumps(order(n, n))) for n in (1, 4)])
    assert run(definition, once=True, spark=spark).rows == 2
    assert by_duckdb(definition) == [(1, "ANN"), (1, "ann"), (2, "bob"), (4, "dan")]
    report = audit(definition, spark, deep=True)
    assert report.ok, str(report)
    assert {kind: report.count(kind) for kind in ("matching", "dead_letters", "undecided")} == {
        "matching": 4, "dead_letters": 1, "undecided": 1,
    }  # fmt: skip
    told = lineage(definition, source=f"{topic}-0-3", spark=spark)
    assert (told.missing, told.reason) == (
        False,
        "`where` may have left it out, by what a joined table had then",
    )
    rewrite(
        spark, definition.table, lambda found: found.where("_offset <> 1").union(found.where("_offset = 0"))
    )
    report = audit(definition, spark)
    assert {finding.kind for finding in report.findings} == {"duplicated"}
    assert report.count("undecided") == 2


@pytest.mark.parametrize("key", [None, "id"], ids=["record-key", "columns"])
def test_an_upsert_table_is_judged_as_far_as_the_topic_decides(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, key: str | None
) -> None:
    topic, table = make_topic(), f"parquet:{tmp_path / 'customers'}"
    write_customers(spark, table)
    pipeline = (
        Pipeline(topic, bootstrap=bootstrap_servers).json(ORDER).upsert(key).dead_letter(f"{topic}.dlq")
    )
    pipeline = pipeline.join("c", table, {"id": "customer"}).select("id", "n", "c.name AS name")
    joined = pipeline.to_delta(tmp_path / "all").definition
    filtered = pipeline.where("c.country = 'NO'").to_delta(tmp_path / "some").definition

    def send(*orders: tuple[int, int | None]) -> None:
        texts = [(f"k{n}", None if c is None else json.dumps(order(n, c))) for n, c in orders]
        produce(bootstrap_servers, topic, texts)
        for one in (joined, filtered):
            run(one, once=True, spark=spark)
            report = audit(one, spark, deep=True)
            assert report.ok, str(report)

    def names(definition: PipelineDefinition) -> dict[int, str | None]:
        return {row.id: row.name for row in rows(definition, spark).collect()}

    send((1, 1), (2, 1), (3, 2), (4, 4), (5, 3))
    assert names(joined) == {1: "ann", 2: "ann", 3: "bob", 4: None}
    assert names(filtered) == {1: "ann", 2: "ann"}
    write_customers(spark, table, [(1, "ann", "SE"), (2, "bob", "NO"), (3, "eve", "NO")])
    send((2, 1), (3, 2), (1, None), (5, 3))
    assert names(joined) == {2: "ann", 3: "bob", 4: None, 5: "eve"}
    assert names(filtered) == {3: "bob", 5: "eve"}
    report = audit(filtered, spark)
    assert report.count("undecided") == 2, "the keys 2 and 4"
    rewrite(spark, joined.table, lambda found: found.where("id <> 3"))
    assert {finding.kind for finding in audit(joined, spark).findings} == {"missing"}
