"""A column of rescued data: what no other column can hold is there, as it was sent."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_formats import Parsed
from interop.spark.test_json_limits import COLUMNS, RIGHT, WRONG
from interop.spark.test_poison import POISON
from interop.spark.test_runs import produce
from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.inferred_json import InferredJsonFormat
from kafkapy.pipeline.formats.json_format import JsonFormat
from kafkapy.pipeline.replay.replay import replay
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.topics import Topics

pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from interop.spark.other_readers import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def sent(text: str) -> Any:
    """A JSON value with the digits of its numbers."""
    return json.loads(text, parse_float=str, parse_int=str)


def test_a_value_that_a_type_cannot_hold_is_rescued_with_all_its_digits(spark: SparkSession) -> None:
    parser = JsonFormat(FormatDefinition(kind="json", schema=COLUMNS, rescued="_rescued"))
    rows = Parsed(spark, parser, [text.encode() for text in [*WRONG, *RIGHT]]).rows
    for text, row in zip(WRONG, rows, strict=False):
        assert isinstance(row, dict), (text, row)
        fields, rescued = sent(text), sent(row["_rescued"])
        for name, value in rescued.items():
            inner = fields[name]
            assert value == inner or all(inner[one] == value[one] for one in value), text
        # What is not rescued is in its column.
        for name in fields.keys() - rescued.keys():
            assert row[name] is not None, text
    unnamed = [sent(text).get("unknown") for text in RIGHT]
    found = [sent(row["_rescued"] or "{}").get("unknown") for row in rows[len(WRONG) :]]
    assert found == unnamed


def test_decimals_within_arrays_and_maps_are_rescued(spark: SparkSession) -> None:
    schema = "id INT, a ARRAY<DECIMAL(5,2)>, m MAP<STRING, DECIMAL(5,2)>, s ARRAY<STRUCT<p: DECIMAL(5,2)>>"
    parser = JsonFormat(FormatDefinition(kind="json", schema=schema, rescued="r"))
    values = [
        '{"id":1,"a":["1,5",2]}',
        '{"id":2,"m":{"k":1.234}}',
        '{"id":3,"s":[{"p":"1,5"}]}',
        '{"id":4,"a":[1.5]}',
    ]
    # The first columns of a session have numbers that Spark gives to variables of lambdas too.
    for _ in range(2):
        rows = Parsed(spark, parser, [value.encode() for value in values]).rows
    none = {"a": None, "m": None, "s": None, "r": None}
    assert rows == [
        {**none, "id": 1, "r": '{"a":["1,5",2]}'},
        {**none, "id": 2, "r": '{"m":{"k":1.234}}'},
        {**none, "id": 3, "r": '{"s":[{"p":"1,5"}]}'},
        {**none, "id": 4, "a": [Decimal("1.50")]},
    ]


def test_only_what_is_an_object_of_json_is_rescued(spark: SparkSession) -> None:
    kind = FormatDefinition(
        kind="json", schema="id BIGINT NOT NULL, n INT, m MAP<STRING, MAP<STRING, INT>>", rescued="r"
    )
    values = {
        '{"id":1,"n":"x","m":{"k":{"l":1}}}': {"id": 1, "n": None, "m": {"k": {"l": 1}}, "r": '{"n":"x"}'},
        '{"id":1,"m":{"k":{"l":"x"}}}': {"id": 1, "n": None, "m": None, "r": '{"m":{"k":{"l":"x"}}}'},
        '{"id":1,"n":null,"new":null}': {"id": 1, "n": None, "m": None, "r": None},
        ' {"id" : 1, "\\u006e": 2, "N":3}\n': {"id": 1, "n": 2, "m": None, "r": '{"N":3}'},
        '{"id":"x"}': "does not match the schema: id is not BIGINT but x",
        '{"n":1,"new":2}': "does not match the schema: id is missing",
        '{"id":1,"n":"x","n":2}': "does not match the schema: a value within m is of another type",
        "[1]": "is not a JSON object",
        '{"id":1}{': "is not valid JSON",
        "": "has an empty value",
        '{"id":1,"new":NaN}': "is not valid JSON",
    }
    rows = Parsed(spark, JsonFormat(kind), [*(text.encode() for text in values), b"\xff", None]).rows
    assert dict(zip(values, rows, strict=False)) == values
    assert rows[len(values) :] == ["is not UTF-8", None]


def test_a_field_becomes_a_column_before_it_is_rescued(spark: SparkSession, tmp_path: Path) -> None:
    state = State(tmp_path / "table")
    parser = InferredJsonFormat(state, "delta", rescued="_rescued", keys=["id"])
    values = ['{"id":1,"a":{"x":1}}'] * 200
    assert Parsed(spark, parser, [one.encode() for one in values]).rows[0] == {
        "id": 1,
        "a": {"x": 1},
        "_rescued": None,
    }
    values = ['{"id":2,"new":"x"}', '{"id":3,"a b":1}', '{"id":4,"_rescued":1}', '{"id":5,"ID":6}']
    values += [
        '{"id":7,"a":{"x":1.5,"X":2}}',
        '{"id":1.5}',
        '{"id":8,"none":null,"n":{}}',
        '{"id":9,"id":"x"}',
    ]
    values += ['{"id":10,"a":"n/a"}']
    rows = Parsed(spark, parser, [one.encode() for one in values]).rows
    nothing = {"a": None, "new": None, "_rescued": None}
    assert rows == [
        {**nothing, "id": 2, "new": "x"},
        {**nothing, "id": 3, "_rescued": '{"a b":1}'},
        {**nothing, "id": 4, "_rescued": '{"_rescued":1}'},
        {**nothing, "id": 5, "_rescued": '{"ID":6}'},
        {**nothing, "id": 7, "a": {"x": None}, "_rescued": '{"a":{"x":1.5,"X":2}}'},
        "does not match the schema: id is not BIGINT but 1.5",
        {**nothing, "id": 8, "_rescued": '{"n":{}}'},
        "does not match the schema: a field is of another type",
        {**nothing, "id": 10, "_rescued": '{"a":"n/a"}'},
    ]
    assert [one["name"] for one in state.schema["fields"]] == ["a", "id", "new"]


@pytest.mark.parametrize("schema", ["id BIGINT, price DECIMAL(10,2)", None], ids=["given", "inferred"])
def test_rows_and_rescued_data_are_together_what_was_sent(
    schema: str | None,
    spark: SparkSession,
    bootstrap_servers: str,
    make_topic: MakeTopic,
    target: TableTarget,
) -> None:
    topic = make_topic()
    good = [f'{{"id":{number},"price":{number}.25}}' for number in range(300)]
    poison = ['{"id":300,"new":{"x":[1.0e1]}}', '{"id":301,"price":1.2345}', *POISON]
    produce(bootstrap_servers, topic, [(None, one) for one in [*good, *poison]])
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(schema, rescued="_rescued")
    pipeline = getattr(pipeline, f"to_{target.format}")(target.location).dead_letter(f"{topic}.dlq")
    result = run(pipeline.definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters) == (len(good) + len(poison), 0)
    for reader, table in contents(target):
        names = ["id", "price", "_rescued", "_offset"]
        rows = {row["_offset"]: row for row in table.select(names).to_pylist()}
        assert len(rows) == len(good) + len(poison), reader
        assert {rows[number]["_rescued"] for number in range(300)} == {None}, reader
        assert [rows[number]["id"] for number in range(302)] == list(range(302)), reader
        assert float(rows[7]["price"]) == 7.25, reader
        if schema is not None:
            assert rows[300]["_rescued"] == '{"new":{"x":[1.0e1]}}', reader
            assert rows[301]["_rescued"] == '{"price":1.2345}', reader
        assert rows[302]["_rescued"] == '{"ID":1}', reader
    report = audit(pipeline.definition, spark, deep=schema is not None)
    assert report.ok, str(report)
    replay(pipeline.definition, to=f"{topic}-again", spark=spark)
    again = {
        int(dict(one.headers())["kafkapy.source"].decode().rpartition("-")[2]): json.loads(one.value())
        for one in Topics(bootstrap_servers).consume(f"{topic}-again")
        if one.value() is not None
    }
    assert again == {number: json.loads(one) for number, one in enumerate([*good, *poison])}


def test_a_key_of_an_upsert_is_never_rescued(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    values = ['{"id":1,"n":1}', '{"id":"1","n":2}', '{"id":1.5}', '{"ID":1,"n":3}', '{"id":1,"n":"4"}']
    produce(bootstrap_servers, topic, [(None, one) for one in values])
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json("id BIGINT, n INT", rescued="_rescued")
    pipeline = pipeline.upsert("id").to_delta(tmp_path / "table").dead_letter(f"{topic}.dlq")
    result = run(pipeline.definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters) == (2, 3)
    rows = spark.read.format("delta").load(str(tmp_path / "table")).select("id", "n", "_rescued").collect()
    assert [tuple(row) for row in rows] == [(1, None, '{"n":"4"}')]
    errors = [
        dict(one.headers())["kafkapy.error"].decode()
        for one in Topics(bootstrap_servers).consume(f"{topic}.dlq")
    ]
    assert errors == [
        "does not match the schema: id is not BIGINT but 1",
        "does not match the schema: id is not BIGINT but 1.5",
        "has no value in the key column id",
    ]


def test_an_audit_of_rescued_data_by_key_columns_is_planned_in_seconds(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).upsert("id").dead_letter(f"{topic}.dlq")
    schema = "id BIGINT NOT NULL, s STRUCT<x: INT>, a ARRAY<INT>, d DECIMAL(6,2)"
    pipeline = pipeline.json(schema, rescued="_rescued").to_delta(tmp_path / "table")
    produce(bootstrap_servers, topic, [("a", '{"id": 1, "s": {"x": "n/a", "new": 1}}'), ("b", '{"id": "b"}')])
    assert pipeline.run(once=True, spark=spark).rows == 1
    began = time.monotonic()
    report = audit(pipeline.definition, spark, deep=True)
    assert (report.ok, report.notes) == (True, {"matching": 1, "dead_letters": 1})
    assert time.monotonic() - began < 120, "it was planned for many minutes"
