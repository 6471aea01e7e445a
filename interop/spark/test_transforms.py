"""Rows that SQL computes from values: what lands, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_changes import change
from interop.spark.test_runs import forget_last_commit, produce, rows
from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.formats import Format, open_format
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.replay.replay import replay
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SCHEMA = "id BIGINT, email STRING, n INT, address STRUCT<city: STRING, zip: STRING>, tags ARRAY<STRING>"


def parser(tmp_path: Path, *, key: str | None = None, schema: str | None = SCHEMA, **more: Any) -> Format:
    kind = {"kind": "json", **({"schema": schema} if schema else {})}
    values = {"topic": "orders", "table": "delta:/lake/orders", "format": kind, "key": key, **more}
    return open_format(PipelineDefinition.from_mapping(values), State(tmp_path / "table"))


def computed(spark: SparkSession, reader: Format, *values: Any) -> list[Any]:
    """The row, the error, or why it was left out."""
    texts = [None if value is None else json.dumps(value).encode() for value in values]
    records = spark.createDataFrame(
        [("orders", 0, number, None, b"k", None, text) for number, text in enumerate(texts)],
        "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, value BINARY",
    )
    found = reader.parse(records.coalesce(1)).collect()
    return [row._error or row._left_out or (row._data and row._data.asDict(True)) for row in found]


def test_rows_have_the_selected_columns(spark: SparkSession, tmp_path: Path) -> None:
    reader = parser(
        tmp_path,
        select=[
            "* EXCEPT (email, address, tags)",
            "address.city AS city",
            "sha2(email, 256) AS email_hash",
            "regexp_replace(email, '^[^@]*', '***') AS email",
            "size(tags) AS tags",
            "concat(_topic, '-', _partition, '-', _offset) AS place",
            "CAST(_key AS STRING) AS key",
            "CAST(n AS DECIMAL(10,2)) AS price",
        ],
    )
    value = {"id": 1, "email": "ann@x", "n": 2, "address": {"city": "Oslo"}, "tags": ["a", "b"]}
    (row,) = computed(spark, reader, value)
    assert len(row.pop("email_hash")) == 64
    assert row.pop("price") == 2
    place = {"place": "orders-0-0", "key": "k"}
    assert row == {"id": 1, "n": 2, "city": "Oslo", "email": "***@x", "tags": 2, **place}
    assert reader.columns is not None
    types = {one["name"]: one["type"] for one in reader.columns["fields"]}
    assert (types["price"], types["email_hash"]) == ("decimal(10,2)", "string")


@pytest.mark.parametrize("codegen", [False, True])
def test_an_expression_that_fails_makes_an_error_of_its_record_alone(
    spark: SparkSession, tmp_path: Path, codegen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {"spark.sql.codegen.wholeStage": str(codegen).lower()}
    conf["spark.sql.codegen.factoryMode"] = "CODEGEN_ONLY" if codegen else "NO_CODEGEN"
    before = {name: spark.conf.get(name) for name in conf}
    select = ["id", "100 DIV n AS per", "100 DIV n + 1 AS more", "CAST(email AS INT) AS number"]
    reader = parser(tmp_path, select=select, where="n IS NULL OR 10 DIV (n + 1) > 0")
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        found = computed(
            spark,
            reader,
            {"id": 1, "n": 4, "email": "7"},
            {"id": 2, "n": 0, "email": "7"},
            {"id": 3, "n": 5, "email": "x"},
            {"id": 4, "n": -1},
            {"id": 5, "n": 99, "email": "x"},
            {"id": 6},
            {"id": "x"},
            None,
        )
    finally:
        for name, value in before.items():
            assert value is not None
            spark.conf.set(name, value)
    assert found[:3] == [
        {"id": 1, "per": 25, "more": 26, "number": 7},
        "cannot be computed with select: 100 DIV n AS per",
        "cannot be computed with select: CAST(email AS INT) AS number",
    ]
    assert found[3] == "cannot be computed with where: n IS NULL OR 10 DIV (n + 1) > 0"
    assert found[4] == "where", "what where leaves out is not computed"
    assert found[5] == {"id": 6, "per": None, "more": None, "number": None}
    assert found[6].startswith("does not match the schema: id is not BIGINT")
    assert found[7] is None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"select": ["rand() AS r"]}, "select: rand() AS r: gives another value each time"),
        ({"where": "uuid() > 'a'"}, "where: uuid() > 'a': gives another value each time"),
        ({"select": ["current_timestamp() AS t"]}, "gives another value each time"),
        ({"where": "_timestamp > now()"}, "gives another value each time"),
        ({"select": ["count(*) AS c"]}, "makes one row of several"),
        ({"select": ["explode(tags) AS tag"]}, "makes one row of several, or several of one"),
        ({"select": ["row_number() OVER (ORDER BY id) AS r"]}, "makes one row of several"),
        ({"select": ["(SELECT 1) AS one"]}, "has a subquery"),
        ({"select": ["idd"]}, "select: idd: "),
        ({"select": ["id, n"]}, "select: id, n: "),
        ({"select": ["id", "n + 1"]}, "select: (n + 1): name its column: (n + 1) AS NAME"),
        ({"select": ["id", "n AS ID"]}, "select: the field ID differs from id by case only"),
        ({"select": ["id AS _offset"]}, "select: the column _offset is the table's own"),
        ({"select": ["NULL AS nothing"]}, "select: nothing: null has no type"),
        ({"where": "n + 1"}, "where: n + 1: expected a condition"),
        ({"where": "n >"}, "where: n >: "),
    ],
)
def test_what_cannot_be_a_row_of_each_record_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, more: dict[str, Any], problem: str
) -> None:
    reader = parser(tmp_path, **more)
    with pytest.raises(PipelineError) as caught:
        computed(spark, reader, {"id": 1})
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def values(numbers: range) -> list[tuple[str, str]]:
    return [(f"k{number}", json.dumps({"id": number, "n": number, "email": "e"})) for number in numbers]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_the_counts_of_an_append_add_up_and_the_audit_knows_what_was_left_out(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, table_format: str
) -> None:
    topic = make_topic(2)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).append().dead_letter(f"{topic}.dlq")
    pipeline = pipeline.select("id", "100 DIV n AS per").where("n % 3 <> 1")
    definition = getattr(pipeline, f"to_{table_format}")(tmp_path / "orders").definition
    produce(bootstrap_servers, topic, values(range(2, 30)))
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters, result.left_out) == (19, 0, 9)
    produce(bootstrap_servers, topic, [*values(range(12)), ("x", "{")])
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters, result.left_out) == (7, 2, 4)
    forget_last_commit(definition)
    assert run(definition, once=True, spark=spark).rows == 7, "told again, and not written again"
    progress = State.of(definition).progress
    assert progress is not None
    assert (progress.total_rows, progress.dead_letters, progress.left_out) == (26, 2, 13)
    assert rows(definition, spark).count() == 26
    assert rows(definition, spark).columns[:2] == ["id", "per"]
    report = audit(definition, spark, deep=True)
    assert report.ok, str(report)
    assert {name: report.notes[name] for name in ("matching", "dead_letters", "left_out")} == {
        "matching": 26,
        "dead_letters": 2,
        "left_out": 13,
    }
    with pytest.raises(PipelineError, match="cannot be written back"):
        replay(definition, f"{topic}.back", spark=spark)


@pytest.mark.parametrize("key", [None, "id"], ids=["record-key", "columns"])
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_an_upsert_table_has_the_last_records_that_pass(
    spark: SparkSession,
    bootstrap_servers: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    table_format: str,
    key: str | None,
) -> None:
    """A record that does not pass deletes the row of its key."""
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).upsert(key)
    pipeline = pipeline.select("id", "n * 2 AS twice").where("n < 10")
    definition = getattr(pipeline, f"to_{table_format}")(tmp_path / "orders").definition

    def sent(*records: tuple[int, int | None]) -> None:
        produce(
            bootstrap_servers,
            topic,
            [
                (f"k{number}", None if n is None else json.dumps({"id": number, "n": n}))
                for number, n in records
            ],
        )

    def found() -> dict[int, int]:
        run(definition, once=True, spark=spark)
        report = audit(definition, spark, deep=True)
        assert report.ok, str(report)
        return {row.id: row.twice for row in rows(definition, spark).collect()}

    sent((1, 1), (2, 2), (3, 3), (4, 40), (5, 5))
    assert found() == {1: 2, 2: 4, 3: 6, 5: 10}
    sent((1, 10), (2, None), (3, 30), (3, 4), (6, 60), (4, 9))
    assert found() == {3: 8, 4: 18, 5: 10}
    progress = State.of(definition).progress
    assert progress is not None
    assert (progress.total_rows, progress.left_out) == (7, 4)
    told = lineage(definition, source=f"{topic}-0-0", spark=spark)
    assert told.reason == f"{topic}-0-5 deletes its key"
    told = lineage(definition, source=f"{topic}-0-9", spark=spark)
    assert told.reason == "`where` leaves it out"


def test_what_where_leaves_out_may_have_values_that_no_partition_can(
    spark: SparkSession, tmp_path: Path
) -> None:
    reader = parser(tmp_path, where="email <> ''", partition_by=["email"])
    found = computed(spark, reader, {"id": 1, "email": ""}, {"id": 2, "email": "ann@x"})
    assert found[0] == "where"
    assert found[1]["id"] == 2


def test_a_record_without_key_columns_that_where_leaves_out_changes_no_row(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """It has a record key, but is no tombstone of all rows of this key."""
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).upsert("id").where("n < 10")
    definition = pipeline.to_delta(tmp_path / "orders").definition
    produce(bootstrap_servers, topic, [("k", json.dumps({"id": number, "n": 1})) for number in range(3)])
    run(definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, [("k", json.dumps({"n": 10})), ("k", json.dumps({"id": 1, "n": 10}))])
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.left_out) == (0, 2)
    assert {row.id for row in rows(definition, spark).collect()} == {0, 2}
    assert audit(definition, spark, deep=True).ok
    assert lineage(definition, source=f"{topic}-0-3", spark=spark).reason == "`where` leaves it out"


def test_a_tombstone_that_where_leaves_out_of_an_append_is_not_missing(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).append().where("n < 10")
    definition = pipeline.to_delta(tmp_path / "orders").definition
    produce(bootstrap_servers, topic, [("k", json.dumps({"id": 1, "n": 1})), ("k", None)])
    assert run(definition, once=True, spark=spark).left_out == 1
    told = lineage(definition, source=f"{topic}-0-1", spark=spark)
    assert (told.missing, told.reason) == (False, "`where` leaves it out")


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_without_a_record_so_far_is_clean(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, mode: str
) -> None:
    pipeline = Pipeline(make_topic(), bootstrap=bootstrap_servers).json(SCHEMA).where("n < 10")
    pipeline = pipeline.upsert() if mode == "upsert" else pipeline.append()
    definition = pipeline.to_delta(tmp_path / "orders").definition
    assert run(definition, once=True, spark=spark).rows == 0
    assert audit(definition, spark, deep=True).ok


@pytest.mark.parametrize(
    ("where", "passes"),
    [
        ("n < 10", False),
        ("n IS NULL", True),
        ("address.city = 'Oslo' OR size(tags) > 1", False),
        ("address.city IS NULL AND _key IS NOT NULL", True),
        ("_offset = 0", True),
    ],
)
def test_null_values_before_any_column_is_known_are_left_out_like_later_ones(
    spark: SparkSession,
    bootstrap_servers: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    where: str,
    passes: bool,
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json().append().where(where)
    definition = pipeline.to_delta(tmp_path / "orders").definition
    produce(bootstrap_servers, topic, [("k", None)])
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.left_out) == ((1, 0) if passes else (0, 1))
    value = {"id": 1, "n": 1, "address": {"city": "Oslo"}, "tags": ["a", "b"]}
    produce(bootstrap_servers, topic, [("k", json.dumps(value))])
    run(definition, once=True, spark=spark)
    report = audit(definition, spark)
    assert report.ok, str(report)


def test_changes_are_transformed_too(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA, changes="debezium")
    pipeline = pipeline.upsert("number").select("id AS number", "address.city").where("n > 0")
    definition = pipeline.to_delta(tmp_path / "orders").definition

    def row(number: int, n: int = 1) -> dict[str, Any]:
        return {"id": number, "n": n, "address": {"city": f"c{number}"}}

    events = [
        change("c", None, row(1)),
        change("c", None, row(2)),
        change("c", None, row(3, n=0)),
        change("c", None, row(4)),
        change("u", row(2), row(2, n=0)),
        change("d", {"id": 1, "n": 0}),
    ]
    produce(bootstrap_servers, topic, [("k", json.dumps(event)) for event in events])
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.left_out) == (4, 2)
    assert [(one.number, one.city) for one in rows(definition, spark).collect()] == [(4, "c4")]
    assert audit(definition, spark, deep=True).ok
