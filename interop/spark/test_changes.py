"""Change streams: a table of changes is the source table, as other readers read it.

KAFKAPY_CHANGES says how many changes of a source table there are; KAFKAPY_SEED says what follows from chance.
"""

from __future__ import annotations

import io
import json
import os
import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from interop.conftest import MakeTopic
from interop.spark.kill_run import MOMENTS, Driver, write_definition
from interop.spark.source_table import SourceTable
from interop.spark.test_formats import Parsed
from interop.spark.test_runs import produce
from interop.support.waiting import wait_until
from kafkapy.pipeline import Pipeline, PipelineDefinition
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.replay.replay import replay
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import open_table

pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from interop.spark.other_readers import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
CHANGES = int(os.environ.get("KAFKAPY_CHANGES", "6000"))
SEED = int(os.environ.get("KAFKAPY_SEED", random.SystemRandom().randrange(10**6)))
PARTITIONS = 3
ROW = "id BIGINT NOT NULL, name STRING"
A, B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
TABLE = "delta:/lake/orders"


def parser(tmp_path: Path, table: str = TABLE, key: str | None = None, **kind: Any) -> Any:
    values = {"topic": "orders", "table": table, "format": {"kind": "json", **kind}, "key": key}
    return open_format(PipelineDefinition.from_mapping(values), State(tmp_path / "table"))


def outcomes(parsed: Parsed) -> list[Any]:
    """The row, the error, or what is done instead."""
    return [
        row._error or row._left_out or ("delete", row._data and row._data.name)
        if row._deleted
        else row._error or row._left_out or (row._data and row._data.asDict())
        for row in parsed.frame.collect()
    ]


def change(op: str | None, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": 1}, "ts_ms": 1}


_TRUNCATES = "truncates the source table (op t), which is not followed"
_MESSAGE = "is a message of the source's log (op m), which is not followed"
_WITHOUT = "is a change without a row: after is missing"
_NO_CHANGE = "is no change: it has no op"
DEBEZIUM: list[tuple[Any, Any, Any]] = [
    # the value, what comes of it by the record's key, and by columns
    (change("c", None, A), A, A),
    (change("r", None, A), A, A),
    (change("u", A, B), B, B),
    (change("u", None, B), B, B),
    (change("d", A), ("delete", None), ("delete", "a")),
    (change("d", {"id": 1, "name": None}), ("delete", None), ("delete", None)),
    (change("d"), ("delete", None), "is a change without a row: before is missing"),
    (None, None, "changes"),
    (change("t"), _TRUNCATES, _TRUNCATES),
    (change("m"), _MESSAGE, _MESSAGE),
    (change("x"), "has an unknown op: x", "has an unknown op: x"),
    (change("u", A), _WITHOUT, _WITHOUT),
    ({"id": 1, "name": "a"}, _NO_CHANGE, _NO_CHANGE),
]


@pytest.mark.parametrize("inferred", [False, True], ids=["given", "inferred"])
@pytest.mark.parametrize("by_columns", [False, True], ids=["record-key", "columns"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with-schema"])
def test_debezium_changes_become_rows_and_deletes(
    spark: SparkSession, tmp_path: Path, wrapped: bool, by_columns: bool, inferred: bool
) -> None:
    """As the JSON converter of Kafka Connect writes them, with `schemas.enable` and without."""
    schema = {} if inferred else {"schema": ROW}
    reader = parser(tmp_path, key="id" if by_columns else None, changes="debezium", **schema)
    values = [
        None
        if value is None
        else json.dumps({"schema": {"type": "struct"}, "payload": value} if wrapped else value)
        for value, *_ in DEBEZIUM
    ]
    found = outcomes(Parsed(spark, reader, [None if value is None else value.encode() for value in values]))
    expected = [row[2 if by_columns else 1] for row in DEBEZIUM]
    assert found == expected


def test_a_wrong_value_within_a_row_is_an_error_and_a_new_field_a_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = parser(tmp_path, changes="debezium", schema=ROW)
    values = [change("c", None, {"id": "x"}), change("c", None, {"name": "a"}), change("d", {"name": "a"})]
    found = outcomes(Parsed(spark, given, [json.dumps(value).encode() for value in values]))
    assert found[0].startswith("does not match the schema: after.id is not BIGINT but x")
    assert found[1] == "does not match the schema: after.id is missing"
    assert found[2] == ("delete", None)
    inferred = parser(tmp_path, changes="debezium")
    first = [change("c", None, {**A, "n": number}) for number in range(3)]
    assert Parsed(spark, inferred, [json.dumps(value).encode() for value in first]).rows[0] == {**A, "n": 0}
    more = [change("c", None, {**A, "n": 1, "new": {"x": 1}}), change("c", None, {**A, "_offset": 7})]
    rows = Parsed(spark, inferred, [json.dumps(value).encode() for value in more]).rows
    assert rows[0] == {**A, "n": 1, "new": {"x": 1}}
    assert rows[1] == "has a field after._offset, which has the name of one of the table's own columns"


def test_maxwell_changes_become_rows_and_deletes(spark: SparkSession, tmp_path: Path) -> None:
    def change(kind: str, **more: Any) -> dict[str, Any]:
        return {"database": "shop", "table": "orders", "type": kind, "ts": 1, "xid": 2, **more}

    changes = [
        (change("insert", data=A), A),
        (change("bootstrap-start", data={}), "changes"),
        (change("bootstrap-insert", data=A), A),
        (change("bootstrap-complete", data={}), "changes"),
        (change("update", data=B, old={"name": "a"}), B),
        (change("delete", data=B), ("delete", "b")),
        (change("table-drop"), "has an unknown type: table-drop"),
    ]
    reader = parser(tmp_path, changes="maxwell", schema="id BIGINT, name STRING", key="id")
    found = outcomes(Parsed(spark, reader, [json.dumps(value).encode() for value, _ in changes]))
    assert found == [expected for _, expected in changes]


@pytest.mark.parametrize("key", [None, "id"], ids=["record-key", "columns"])
def test_marks_of_a_bootstrap_need_no_columns_that_may_not_be_null(
    spark: SparkSession, tmp_path: Path, key: str | None
) -> None:
    def change(kind: str, **data: Any) -> bytes:
        return json.dumps({"database": "shop", "table": "orders", "type": kind, "data": data}).encode()

    reader = parser(tmp_path, changes="maxwell", schema=f"{ROW}, item STRUCT<sku: STRING NOT NULL>", key=key)
    changes: list[bytes | None] = [
        change("bootstrap-start"),
        change("bootstrap-insert", **A),
        change("bootstrap-insert", name="a"),
        change("insert", **A, item={}),
        change("bootstrap-complete"),
    ]
    assert outcomes(Parsed(spark, reader, changes)) == [
        "changes",
        {**A, "item": None},
        "does not match the schema: data.id is missing",
        "does not match the schema: data.item.sku is missing",
        "changes",
    ]


def test_changes_in_avro_follow_the_writers_schemas(spark: SparkSession, tmp_path: Path) -> None:
    """Debezium's schemas, as its Avro converter registers them."""

    def envelope(*fields: str) -> dict[str, Any]:
        row = {
            "type": "record",
            "name": "Value",
            "fields": [
                {"name": "id", "type": "long"},
                *({"name": name, "type": ["null", "string"], "default": None} for name in fields),
            ],
        }
        return {
            "type": "record",
            "name": "Envelope",
            "namespace": "shop.orders",
            "fields": [
                {"name": "before", "type": ["null", row], "default": None},
                {"name": "after", "type": ["null", "shop.orders.Value"], "default": None},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"], "default": None},
            ],
        }

    schemas = {1: envelope("name"), 2: envelope("name", "note")}
    files = {}
    for number, schema in schemas.items():
        files[number] = str(tmp_path / f"{number}.avsc")
        Path(files[number]).write_text(json.dumps(schema))

    def value(number: int, **event: Any) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(schemas[number]), event)
        return b"\0" + struct.pack(">I", number) + written.getvalue()

    reader = parser(tmp_path, kind="avro", schemas=files, changes="debezium")
    new = {**B, "note": "x"}
    values = [
        value(1, op="c", after=A),
        value(2, op="u", before=A, after=new),
        value(2, op="d", before=new),
        None,
    ]
    found = outcomes(Parsed(spark, reader, values))
    assert found == [{**A, "note": None}, new, ("delete", None), None]
    assert [one["name"] for one in reader.columns["fields"]] == ["id", "name", "note"]


def source_of(table: pa.Table) -> dict[int, tuple[Any, ...]]:
    names = ("name", "amount", "note")
    ids = table.column("id").to_pylist()
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, zip(*(table.column(name).to_pylist() for name in names), strict=True), strict=True))


def test_a_table_of_changes_is_the_source_table_after_a_kill(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    topic, source = make_topic(PARTITIONS), SourceTable(SEED, with_schema=SEED % 2 == 0)
    changes = list(source.changes(CHANGES))
    bad = [(b'{"id": 1}', json.dumps(change(op)).encode()) for op in "tmx"]
    produce(bootstrap_servers, topic, [*changes, *bad])
    schema = "id BIGINT NOT NULL, name STRING, amount BIGINT, note STRING"
    kind = {"kind": "json", "changes": "debezium"}
    how: dict[str, Any] = {"place": str(tmp_path / "tables"), "most": CHANGES // 4}
    files = [
        write_definition(tmp_path, "delta", topic, bootstrap_servers, format=kind, **how),
        write_definition(
            tmp_path,
            "iceberg",
            topic,
            bootstrap_servers,
            format={**kind, "schema": schema},
            key="id",
            **how,
        ),
    ]
    driver = Driver(tmp_path, "follow", files)
    try:
        driver.wait_until_ready()
        driver.go()
        for name in ("delta", "iceberg"):
            done = MOMENTS["done"].format(name)
            wait_until(lambda: len(list((tmp_path / "tables").glob(done))) >= 1, timeout=300)  # noqa: B023
        driver.kill("driver")
    finally:
        driver.end()
    expected = {number: (row["name"], row["amount"], row.get("note")) for number, row in source.rows.items()}
    for file in files:
        definition = PipelineDefinition.load(file)
        run(definition, once=True, spark=spark)
        for reader, table in contents(definition.table):
            if definition.table.format == "iceberg" and reader != "pyiceberg":
                continue  # whose files have rows that others mark as deleted
            assert source_of(table) == expected, (definition.name, reader)
        progress = State.of(definition).progress
        assert progress is not None
        assert progress.dead_letters == len(bad)
        assert progress.total_rows + progress.left_out == len(changes)
        report = audit(definition, spark)
        assert report.ok, str(report)
        assert report.notes["matching"] == len(expected)


@pytest.mark.parametrize("key", [None, "id"], ids=["record-key", "columns"])
def test_an_audit_of_changes_finds_rows_that_are_lost_or_should_be(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, key: str | None
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ROW, changes="debezium").upsert(key)
    definition = pipeline.to_delta(tmp_path / "orders").dead_letter(f"{topic}.dlq").definition
    rows = [{"id": number, "name": f"n{number}"} for number in range(6)]
    produce(bootstrap_servers, topic, [(f"k{row['id']}", json.dumps(change("c", None, row))) for row in rows])
    run(definition, once=True, spark=spark)
    table = open_table(spark, definition.table)
    before = table.read().where("id = 1").localCheckpoint()
    produce(
        bootstrap_servers,
        topic,
        [("k1", json.dumps(change("d", rows[1]))), ("k1", None), ("k9", json.dumps(change("t")))],
    )
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters, result.left_out) == ((1, 1, 1) if key else (2, 1, 0))
    report = audit(definition, spark, deep=True)
    assert report.ok, str(report)
    assert {name: report.notes[name] for name in ("matching", "deleted")} == {"matching": 5, "deleted": 1}
    before.write.format("delta").mode("append").save(definition.table.location)
    spark.sql(f"DELETE FROM delta.`{definition.table.location}` WHERE id = 2")
    found = {one.kind: one.count for one in audit(definition, spark).findings}
    assert found == {"undeleted": 1, "missing": 1}
    told = lineage(definition, source=f"{topic}-0-2", spark=spark)
    assert told.missing
    deleted = lineage(definition, source=f"{topic}-0-6", spark=spark)
    assert not deleted.missing
    assert deleted.reason == ("it deletes the row of its key" if key else f"{topic}-0-7 deletes its key")
    with pytest.raises(PipelineError, match="cannot be written back as the changes that they came from"):
        replay(definition, f"{topic}.back", spark=spark)


def test_a_mark_of_a_change_stream_is_not_missing(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json("id BIGINT", changes="maxwell").upsert("id")
    definition = pipeline.to_delta(tmp_path / "orders").definition
    events = [{"type": "bootstrap-start", "data": {}}, {"type": "insert", "data": A}]
    produce(bootstrap_servers, topic, [("k", json.dumps(event)) for event in events] + [("k", None)])
    assert run(definition, once=True, spark=spark).left_out == 2
    for offset in (0, 2):
        told = lineage(definition, source=f"{topic}-0-{offset}", spark=spark)
        assert (told.missing, told.reason) == (False, "it changes no row of the source table")


def test_changes_that_debezium_flattened_need_no_envelope(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """As its ExtractNewRecordState writes them with `delete.tombstone.handling.mode: rewrite`."""
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json().upsert()
    pipeline = pipeline.select("* EXCEPT (__deleted, __op)").where("__deleted = 'false'")
    definition = pipeline.to_delta(tmp_path / "orders").definition

    def flat(number: int, op: str, name: str | None) -> tuple[str, str]:
        row = {"id": number, "name": name, "__op": op, "__deleted": "true" if op == "d" else "false"}
        return f'{{"id": {number}}}', json.dumps(row)

    produce(bootstrap_servers, topic, [flat(1, "c", "a"), flat(2, "c", "a"), flat(3, "r", "a")])
    run(definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, [flat(1, "u", "b"), flat(2, "d", None), flat(4, "c", "a")])
    run(definition, once=True, spark=spark)
    for reader, table in contents(definition.table):
        if reader == "deltalake":
            assert dict(zip(*(table.column(name).to_pylist() for name in ("id", "name")), strict=True)) == {
                1: "b",
                3: "a",
                4: "a",
            }
            assert not {"__deleted", "__op"} & set(table.column_names)
    assert audit(definition, spark).ok


@pytest.mark.parametrize("changes", [None, "debezium"])
def test_a_first_batch_without_a_valid_value_waits_for_the_key_columns(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, changes: str | None
) -> None:
    """A tombstone of it counts all the same, for an older record that another partition has."""
    topic = make_topic(2)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(changes=changes).upsert("id")
    definition = pipeline.dead_letter(f"{topic}.dlq").to_delta(tmp_path / "orders").definition
    produce(bootstrap_servers, topic, [("k", "{"), ("k", None)], partition=1, timestamp=2_000)
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters, result.left_out) == ((0, 1, 1) if changes else (1, 1, 0))
    assert audit(definition, spark, deep=True).ok
    rows = [{"id": number, "n": number} for number in range(2)]
    values = [json.dumps(change("c", None, row) if changes else row) for row in rows]
    for key, value, time in zip("kl", values, (1_000, 3_000), strict=True):
        produce(bootstrap_servers, topic, [(key, value)], partition=0, timestamp=time)
    run(definition, once=True, spark=spark)
    found = {row.id for row in open_table(spark, definition.table).read().collect()}
    assert found == ({0, 1} if changes else {1}), "a change stream has a delete before its tombstone"
    assert audit(definition, spark, deep=True).ok
