"""Values of every format as Spark reads them.

Rows, errors and the columns in the end are checked.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats import Format
from kafkapy.pipeline.formats.avro_format import AvroFormat
from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.inferred_json import InferredJsonFormat
from kafkapy.pipeline.formats.json_format import JsonFormat
from kafkapy.pipeline.formats.protobuf_descriptors import message_class
from kafkapy.pipeline.formats.protobuf_format import ProtobufFormat
from kafkapy.pipeline.formats.raw_format import RawFormat
from kafkapy.pipeline.formats.spark_types import nullable, sql_name
from kafkapy.pipeline.formats.unnamed_fields import may_have_unnamed_field
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from tests.pipeline.protobuf_messages import descriptor_set, order_file
from tests.pipeline.schema_registry import SchemaRegistry, running_registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
UTC = datetime.UTC


class Parsed:
    """What a format makes of values: `rows` are dicts, or the errors in their place, or None."""

    def __init__(self, spark: SparkSession, parser: Format, values: list[bytes | None]) -> None:
        records = spark.createDataFrame(
            [(value, number) for number, value in enumerate(values)], "value binary, offset bigint"
        )
        self.frame: DataFrame = parser.parse(records.coalesce(1))
        while parser.learn(self.frame):
            self.frame = parser.parse(records.coalesce(1))
        found = self.frame.collect()
        self.rows: list[Any] = [
            row._error or (None if row._data is None else row._data.asDict(recursive=True)) for row in found
        ]
        self.ids = [row._schema_id for row in found]


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "table")


def test_raw_values_are_kept_byte_for_byte(spark: SparkSession) -> None:
    parsed = Parsed(spark, RawFormat(), [b"\xff\x00", b"", None])
    assert parsed.rows == [{"value": b"\xff\x00"}, {"value": b""}, None]


ORDERS = JsonFormat(
    FormatDefinition(
        kind="json",
        schema="id BIGINT NOT NULL, at TIMESTAMP, day DATE, price DECIMAL(10,2), name STRING, bytes BINARY, "
        "tags ARRAY<INT>, item STRUCT<sku: STRING NOT NULL, amount: INT>, counts MAP<STRING, INT>, "
        "items ARRAY<STRUCT<amount: INT>>, `a b` DOUBLE",
    )
)


RIGHT: dict[str, dict[str, Any]] = {
    ' {"id": 9223372036854775807, "unknown": [1, {"x": 2}]}\n': {"id": 2**63 - 1},
    '{"id": 1, "id": 2}': {"id": 2},
    '{"id": 1, "at": "2020-01-01T10:00:00+02:00"}': {"at": datetime.datetime(2020, 1, 1, 8)},
    '{"id": 1, "at": "2020-01-01 10:00:00.5"}': {"at": datetime.datetime(2020, 1, 1, 10, 0, 0, 500_000)},
    '{"id": 1, "at": 1577836800}': {"at": datetime.datetime(2020, 1, 1)},
    '{"id": 1, "day": "2020-02-29"}': {"day": datetime.date(2020, 2, 29)},
    '{"id": 1, "price": "12.3"}': {"price": Decimal("12.30")},
    '{"id": 1, "name": {"x": [1]}}': {"name": '{"x":[1]}'},
    '{"id": 1, "name": "größe \\u00e4 \\ud83d\\ude00"}': {"name": "größe ä 😀"},
    '{"id": 1, "bytes": "AAE="}': {"bytes": b"\x00\x01"},
    '{"id": 1, "a b": 1}': {"a b": 1.0},
    '{"id": 1, "item": {"sku": "s"}, "counts": {"x": 1}}': {"item": {"sku": "s", "amount": None}},
}


def test_json_that_fits_its_schema_is_a_row(spark: SparkSession) -> None:
    rows = Parsed(spark, ORDERS, [text.encode() for text in RIGHT]).rows
    for text, row, expected in zip(RIGHT, rows, RIGHT.values(), strict=True):
        assert isinstance(row, dict), (text, row)
        assert {name: row[name] for name in expected} == expected


WRONG = {
    b"": "has an empty value",
    b'{"id": 1}\xff': "is not UTF-8",
    b'{"id": tru': "is not valid JSON",
    b"nope": "is not valid JSON",
    b'{"id": 1} x': "is not valid JSON",
    b'{"id": 1}{"id": 2}': "is not valid JSON",
    b'{"id": 1},{"id": 2}': "is not valid JSON",
    b'{"id": 1}]': "is not valid JSON",
    b'{"id": 1}}': "is not valid JSON",
    b"{'id': 1}": "is not valid JSON",
    b'{"id": NaN}': "is not valid JSON",
    b'\xef\xbb\xbf{"id": 1}': "is not valid JSON",
    b"null": "is not a JSON object",
    b"5": "is not a JSON object",
    b'"text"': "is not a JSON object",
    b'[{"id": 1}, {"id": 2}]': "is not a JSON object",
    b"{}": "does not match the schema: id is missing",
    b'{"id": null}': "does not match the schema: id is missing",
    b'{"ID": 1}': "does not match the schema: id is missing",
    b'{"id": 1, "item": {}}': "does not match the schema: item.sku is missing",
    b'{"id": "x"}': "does not match the schema: id is not BIGINT but x",
    b'{"id": 1.0}': "does not match the schema: id is not BIGINT but 1.0",
    b'{"id": 9223372036854775808}': "does not match the schema: id is not BIGINT but 9223372036854775808",
    b'{"id": 1, "at": "soon"}': "does not match the schema: at is not TIMESTAMP but soon",
    b'{"id": 1, "at": 1577836800000}': "does not match the schema: at is beyond the year 9999",
    b'{"id": 1, "price": 123456789012}': "does not match the schema: price is not DECIMAL(10,2) but 1234",
    b'{"id": 1, "item": {"sku": "s", "amount": "x"}}':
        "does not match the schema: item.amount is not INT but x",
    b'{"id": 1, "item": 5}': "does not match the schema: item is not STRUCT<sku: STRING, amount: INT> but 5",
    b'{"id": 1, "tags": [1, "x"]}': 'does not match the schema: tags is not ARRAY<INT> but [1,"x"]',
    b'{"id": 1, "counts": {"x": "y"}}': "does not match the schema: counts is not MAP<STRING, INT> but ",
    b'{"id": 1, "items": [{"amount": 1}, {"amount": "x"}]}':
        "does not match the schema: a value within tags or counts or items is of another type",
    b'{"id": 1, "a b": "x"}': "does not match the schema: a b is not DOUBLE but x",
}  # fmt: skip


def test_json_that_does_not_says_what_is_wrong_with_it(spark: SparkSession) -> None:
    parsed = Parsed(spark, ORDERS, [*WRONG, None, b'{"id": 1}'])
    for value, error, expected in zip(WRONG, parsed.rows, WRONG.values(), strict=False):
        assert isinstance(error, str), value
        assert error.startswith(expected), value
    tombstone, good = parsed.rows[len(WRONG) :]
    assert tombstone is None
    assert good["id"] == 1


def test_json_in_a_registrys_frame_is_the_same_json(spark: SparkSession) -> None:
    parsed = Parsed(
        spark, ORDERS, [b'\0\0\0\1\2{"id": 1}', b'\0{"id": 1}', b"\0", b'\0\xff\xff\xff\xff{"id": 1}']
    )
    assert parsed.rows[0]["id"] == parsed.rows[3]["id"] == 1
    assert parsed.rows[1:3] == ["is not valid JSON"] * 2
    assert parsed.ids[0] == 258
    assert parsed.ids[3] == 2**32 - 1


def test_ddl_means_what_it_means_to_spark(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    ddl = (
        'a BIGINT NOT NULL COMMENT "it\'s", `b c` DECIMAL(5), c ARRAY<STRUCT<x: INT, y MAP<STRING, DATE>>>, '
        "d TIMESTAMP_NTZ, e: real, f dec, g smallint, h boolean, i binary, j timestamp_ltz"
    )
    ours = StructType.fromJson(parse_ddl(ddl))
    theirs = StructType.fromDDL(ddl)
    assert ours.simpleString() == theirs.simpleString()
    assert [one.nullable for one in ours] == [one.nullable for one in theirs]


def inferred(spark: SparkSession, state: State, *values: str) -> Parsed:
    return Parsed(spark, InferredJsonFormat(state, "delta"), [one.encode() for one in values])


def columns(parser: Format) -> str:
    assert parser.columns is not None
    return sql_name(parser.columns).removeprefix("STRUCT<")[:-1]


def test_columns_are_inferred_and_only_ever_added(spark: SparkSession, state: State) -> None:
    batch = inferred(spark, state, "", "x", '{"nothing": null, "empty": [], "none": {}}')
    assert batch.rows == ["has an empty value", "is not valid JSON", {}]
    assert state.schema is None, "there is nothing to remember yet"

    inferred(spark, state, '{"id": 1, "price": 10.0, "mixed": 1}', '{"id": 2, "price": 1, "mixed": "a"}')
    assert columns(InferredJsonFormat(state, "delta")) == "id: BIGINT, mixed: STRING, price: DOUBLE"
    batch = inferred(
        spark, state,
        '{"id": 3, "nothing": true, "s": {"x": 1}, "l": [{"y": 1}], "big": 99999999999999999999}',
        '{"id": 4, "s": {"z": "now"}, "mixed": [1]}',
    )  # fmt: skip
    assert columns(InferredJsonFormat(state, "delta")) == (
        "id: BIGINT, mixed: STRING, price: DOUBLE, big: DECIMAL(38,0), l: ARRAY<STRUCT<y: BIGINT>>, "
        "nothing: BOOLEAN, s: STRUCT<x: BIGINT, z: STRING>"
    )
    assert batch.rows[0]["big"] == 99999999999999999999
    assert batch.rows[0]["l"] == [{"y": 1}]
    assert batch.rows[1]["s"] == {"x": None, "z": "now"}
    assert batch.rows[1]["mixed"] == "[1]"


def test_what_does_not_fit_an_inferred_column_is_an_error_and_no_loss(
    spark: SparkSession, state: State
) -> None:
    inferred(spark, state, '{"id": 1, "l": [{"x": 1}], "price": 0.5}')
    before = state.schema
    batch = inferred(
        spark, state,
        '{"id": 1.5}', '{"id": "x"}', '{"ID": "x"}', '{"ID": null, "id": 5}', '{"l": [{"X": 5}]}',
        '{"_offset": 1, "id": 1}', '{"a b": 1}', '{"price": 3}', "[1]", '{"id": 6} {"new": 1}',
    )  # fmt: skip
    assert [row if isinstance(row, str) else {k: v for k, v in row.items() if v} for row in batch.rows] == [
        "does not match the schema: id is not BIGINT but 1.5",
        "does not match the schema: id is not BIGINT but x",
        "has a field ID, which differs from the column id by case only",
        {"id": 5},
        "has a field l[].X, which differs from the column x by case only",
        "has a field _offset, which has the name of one of the table's own columns",
        "has a field a b, which has a name that the table does not allow for a column",
        {"price": 3.0},
        "is not a JSON object",
        "is not valid JSON",
    ]
    assert state.schema == before


def test_a_bad_neighbour_does_not_take_new_fields_from_the_good_ones(
    spark: SparkSession, state: State
) -> None:
    inferred(spark, state, '{"id": 1, "n": {"x": 1}, "l": [{"p": 1}]}')
    values = ['{"n": {"x": 2, "y": "z"}}', '{"n": 5}', '{"l": [{"q": true}]}', '{"l": {}}', '{"l": [5]}']
    for _ in range(2):  # a batch that is run again finds what it found
        batch = inferred(spark, state, *values)
        assert columns(InferredJsonFormat(state, "delta")) == (
            "id: BIGINT, l: ARRAY<STRUCT<p: BIGINT, q: BOOLEAN>>, n: STRUCT<x: BIGINT, y: STRING>"
        )
        assert batch.rows[0]["n"] == {"x": 2, "y": "z"}
        assert batch.rows[2]["l"] == [{"p": None, "q": True}]
        for number in (1, 3, 4):
            assert batch.rows[number].startswith("does not match the schema: ")


def test_what_follows_an_object_does_not_stop_the_batch(spark: SparkSession, state: State) -> None:
    batch = inferred(spark, state, '{"id": 1}, 5', '{"id": 2, "name": "a"}', '{"id": 3}], "a": [{"b": 1}')
    assert batch.rows[:2] == ["is not valid JSON", {"id": 2, "name": "a"}]
    assert columns(InferredJsonFormat(state, "delta")) == "id: BIGINT, name: STRING"


def test_of_names_that_differ_by_case_alone_the_one_that_most_records_have_is_the_column(
    spark: SparkSession, state: State
) -> None:
    values = ['{"id": "a"}', '{"ID": "a"}', '{"id": "b", "l": [{"X": 1}, {"x": 2}]}', '{"l": [{"x": 3}]}']
    batch = inferred(spark, state, *values)
    assert batch.rows[0] == {"id": "a", "l": None}
    assert batch.rows[1] == "has a field ID, which differs from the column id by case only"
    assert batch.rows[2] == "has a field l[].X, which differs from the column x by case only"
    assert batch.rows[3] == {"id": None, "l": [{"x": 3}]}
    assert spark.conf.get("spark.sql.caseSensitive") == "false"
    assert inferred(spark, state, *values).rows == batch.rows  # run again


@pytest.mark.parametrize(
    ("table_format", "name"), [("parquet", "batch"), ("iceberg", "_pos"), ("delta", "timestamp_day")]
)
def test_names_that_a_table_keeps_for_itself_are_errors(
    spark: SparkSession, state: State, table_format: str, name: str
) -> None:
    parser = InferredJsonFormat(state, table_format, {name})
    rows = Parsed(spark, parser, [b'{"id": 1}', f'{{"id": 2, "{name}": 3}}'.encode()]).rows
    assert rows == [{"id": 1}, f"has a field {name}, which has the name of one of the table's own columns"]


def test_a_field_that_the_sample_does_not_have_becomes_a_column(spark: SparkSession, state: State) -> None:
    inferred(spark, state, '{"id": 1, "s": {"x": 1}, "l": [{"p": 1}], "t": "a", "n": 1}')
    values = [
        *['{"id": 2, "n": null, "s": {"x": null}}', '{"id" : 3, "t": "\\"u\\":1"}'] * 30,
        '{"id" : 4, "u":1}', '{"id": 5, "s": {"x": 1, "v": [1]}}', '{"l": [{"p": 1}, {"p": 2, "w": true}]}',
        '{"n": null, "empty": [{"a": null}], "z": {}}', '{"id": 6, "s": {"n": null, "y": 1}}',
        '{"id": 7, "id": 8}',
        '{"t": {"u": 5}, "": 3}', '{"i\\u0064": 9, "\\u006e": 4}',
        '{"id": 10, "a": {"": 1}}', '{"b": {"": {"x": [{"y": 1}]}, "z": null}, "id": 11}',
    ]  # fmt: skip
    batch = inferred(spark, state, *values)
    assert columns(InferredJsonFormat(state, "delta")) == (
        "id: BIGINT, l: ARRAY<STRUCT<p: BIGINT, w: BOOLEAN>>, n: BIGINT, "
        "s: STRUCT<x: BIGINT, v: ARRAY<BIGINT>, y: BIGINT>, t: STRING, u: BIGINT"
    )
    assert [
        row if isinstance(row, str) else {k: v for k, v in row.items() if v} for row in batch.rows[59:]
    ] == [
        {"id": 3, "t": '"u":1'},
        {"id": 4, "u": 1},
        {"id": 5, "s": {"x": 1, "v": [1], "y": None}},
        {"l": [{"p": 1, "w": None}, {"p": 2, "w": True}]},
        {},
        {"id": 6, "s": {"x": None, "v": None, "y": 1}},
        {"id": 8},
        {"t": '{"u":5}'},
        {"id": 9, "n": 4},
        {"id": 10},
        {"id": 11},
    ]


def test_only_records_that_may_have_a_new_field_are_looked_at_closely(
    spark: SparkSession, state: State
) -> None:
    columns = parse_ddl("id BIGINT, l ARRAY<STRUCT<p: BIGINT>>, s STRUCT<n: BIGINT>, r STRUCT<n: BIGINT>")
    plain = [
        '{"id":1}', '{"id":1,"never":null}', '{"id": null,"never": null}', '{"l":[{"p":null},{"p":1}]}',
        '{"s":{"n":null},"r":{"n":null},"other":null}',
    ]  # fmt: skip
    strange = ['{"id":1,"new":1}', '{"id":1, "new" :1}', '{"id":null,"new":true}', '{"id":"\\":null","n":1}']
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    texts = spark.createDataFrame([(text,) for text in [*plain, *strange]], "_text STRING")
    parsed = texts.withColumn("_row", f.from_json("_text", StructType.fromJson(columns)))
    looked_at = parsed.where(may_have_unnamed_field(columns)).select("_text").collect()
    assert [text for (text,) in looked_at] == strange


def test_a_field_is_not_lost_beside_an_object_with_a_name_twice(spark: SparkSession, state: State) -> None:
    inferred(spark, state, '{"id": 1, "s": {"x": 1}}')
    rows = inferred(spark, state, '{"id": 2, "s": {"x": 1, "x": 2}, "u": 5}', '{"id": 3, "s": {"x": 4}}').rows
    assert rows == [
        "has an object with a name twice or more than 200 levels, and may have a field without a column",
        {"id": 3, "s": {"x": 4}},
    ]


@pytest.mark.parametrize(
    ("plain", "long", "sampled"),
    [(10, 3_000, 31), (10, 50_000, 30), (4_000, 40_000, 31), (4_000, 200_000, 30)],
    ids=["short", "one-is-long", "all-are-long", "one-is-very-long"],
)
def test_texts_that_are_much_longer_than_others_are_not_of_the_sample(
    spark: SparkSession, state: State, plain: int, long: int, sampled: int
) -> None:
    told: list[str] = []
    values = [f'{{"id": 1, "text": "{"x" * plain}"}}'] * 30 + [f'{{"id": 2, "long": "{"x" * long}"}}']
    parser = InferredJsonFormat(state, "delta", note=told.append)
    rows = Parsed(spark, parser, [value.encode() for value in values]).rows
    assert told[0].startswith(f"Columns inferred from {sampled} records")
    assert {**rows[30], "text": None} == {"id": 2, "text": None, "long": "x" * long}
    assert rows[0]["text"] == "x" * plain


def test_one_value_in_thousands_decides_no_type(spark: SparkSession, state: State) -> None:
    told: list[str] = []
    parser = InferredJsonFormat(state, "delta", note=told.append)
    good = [f'{{"id": {number}, "price": {number}.5}}'.encode() for number in range(3_000)]
    poison = [b'{"id": "n/a"}', b'{"id": 1.5}', b'{"id": {"x": 1}}', b'{"price": "free"}', b'{"ID": 7}']
    rows = Parsed(spark, parser, [*poison, *good]).rows
    assert columns(parser) == "id: BIGINT, price: DOUBLE"
    assert rows[len(poison) :] == [{"id": number, "price": number + 0.5} for number in range(3_000)]
    assert all(isinstance(row, str) for row in rows[: len(poison)])
    assert told == ["Columns inferred from 3,005 records, of which 3,000 fit: id: BIGINT, price: DOUBLE"]
    assert columns(InferredJsonFormat(State(state.location), "delta")) == columns(parser)


@pytest.mark.parametrize("name", ["n{}", "n {}"])
def test_too_many_fields_look_like_data(spark: SparkSession, state: State, name: str) -> None:
    many = json.dumps({name.format(number): number for number in range(1_100)})
    with pytest.raises(PipelineError, match=r"more than 1000 different fields.*MAP<STRING"):
        inferred(spark, state, many)
    assert state.schema is None


def test_hundreds_of_columns_can_be_inferred(spark: SparkSession, state: State) -> None:
    wide = json.dumps({f"n{number:03}": number for number in range(300)})
    assert inferred(spark, state, wide).rows[0]["n299"] == 299
    rows = inferred(spark, state, '{"n299": "x"}', '{"n007": "x"}').rows
    assert rows == [
        "does not match the schema: a field is of another type",
        "does not match the schema: n007 is not BIGINT but x",
    ]


def avro(schema: Any, value: Any) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return content.getvalue()


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + avro(schema, value)


def logical(kind: str, name: str, **further: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **further}


ALL_OF_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in {
            "flag": "boolean", "i": "int", "l": "long", "f": "float", "d": "double", "s": "string",
            "b": "bytes", "opt": ["null", "string"],
            "status": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]},
            "hash": {"type": "fixed", "name": "Hash", "size": 2}, "day": logical("int", "date"),
            "ms": logical("long", "timestamp-millis"), "us": logical("long", "timestamp-micros"),
            "local": logical("long", "local-timestamp-millis"), "uuid": logical("string", "uuid"),
            "price": logical("bytes", "decimal", precision=10, scale=2),
            "tags": {"type": "array", "items": "int"},
            "counts": {"type": "map", "values": ["null", "long"]},
            "item": {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]},
            "choice": ["null", "string", "int", "Item"], "number": ["int", "long"],
        }.items()
    ],
}  # fmt: skip
A_ROW = {
    "flag": True, "i": -1, "l": 2**62, "f": 0.5, "d": 0.1, "s": "größe", "b": b"\xff", "opt": None,
    "status": "PAID",
    "hash": b"ab", "day": datetime.date(2020, 2, 3), "ms": datetime.datetime(2020, 1, 1, tzinfo=UTC),
    "us": datetime.datetime(2020, 1, 1, tzinfo=UTC), "local": datetime.datetime(2020, 1, 1), "uuid": "u-1",
    "price": Decimal("12.34"), "tags": [1, 2], "counts": {"a": 1, "b": None}, "item": {"sku": "s"},
    "choice": {"sku": "t"}, "number": 7,
}  # fmt: skip


def bare_avro(tmp_path: Path, schema: Any) -> AvroFormat:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(schema))
    return AvroFormat(FormatDefinition(kind="avro", schema=str(file)), State(tmp_path / "table"))


def test_avro_values_of_all_types_are_rows(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    parser = bare_avro(tmp_path, ALL_OF_AVRO)
    schema = {**ALL_OF_AVRO, "fields": [
        {**one, "type": "string"} if one["name"] == "uuid" else one for one in ALL_OF_AVRO["fields"]
    ]}  # fmt: skip
    parsed = Parsed(spark, parser, [avro(schema, A_ROW), None])
    row = parsed.rows[0]
    choice = {"member_string": None, "member_int": None, "member_item": {"sku": "t"}}
    expected = {
        **A_ROW,
        "choice": choice,
        "ms": datetime.datetime(2020, 1, 1),
        "us": datetime.datetime(2020, 1, 1),
    }
    assert row == expected
    assert parsed.rows[1] is None
    data = parsed.frame.schema["_data"].dataType
    assert parser.columns is not None
    assert data.simpleString() == StructType.fromJson(parser.columns).simpleString()
    assert data["item"].dataType == StructType.fromJson(nullable(parser.columns))["item"].dataType


def test_what_is_not_avro_of_the_schema_is_told_from_a_record_of_nulls(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = {"type": "record", "name": "O", "fields": [
        {"name": "a", "type": ["null", "string"]}, {"name": "b", "type": ["null", "long"]},
    ]}  # fmt: skip
    nulls, whole = avro(schema, {"a": None, "b": None}), avro(schema, {"a": "x", "b": 1})
    wrong = [b"", whole[:-1], whole + b"\0", b"\x02", b'{"a": "x"}', b"\x02\xfe\xff\xff\xff\x0f"]
    rows = Parsed(spark, bare_avro(tmp_path, schema), [nulls, whole, *wrong]).rows
    assert rows[:2] == [{"a": None, "b": None}, {"a": "x", "b": 1}]
    assert rows[2:] == ["is not Avro of the schema"] * len(wrong)


def test_avro_that_is_no_record_is_one_column(spark: SparkSession, tmp_path: Path) -> None:
    # The last one claims two billion bytes.
    rows = Parsed(
        spark, bare_avro(tmp_path, "string"), [avro("string", "x"), b"\0", b"\xfe\xff\xff\xff\x0f"]
    ).rows
    assert rows == [{"value": "x"}, {"value": ""}, "is not Avro of the schema"]


def record(**fields: Any) -> dict[str, Any]:
    """A field whose type is a pair has a default."""
    listed = [
        {"name": name, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": name, "type": kind}
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "Order", "fields": listed}


V1 = record(id="int", amount="float", gone="string", at=logical("long", "timestamp-millis"))
V2 = record(
    id="long", amount=["null", "double"], at=logical("long", "timestamp-millis"), currency=("string", "EUR")
)
V3 = record(id="string", at=logical("long", "timestamp-micros"))
NOW = datetime.datetime(2020, 1, 1, tzinfo=UTC)
OLD = {"id": 1, "amount": 0.5, "gone": "g", "at": NOW}
NEW = {"id": 2**40, "amount": None, "at": NOW, "currency": "USD"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        running.register(1, V1)
        running.register(2, V2)
        running.register(3, V3)
        running.register(4, "syntax", kind="PROTOBUF")
        yield running


def test_records_of_several_writers_become_one_table(
    spark: SparkSession, registry: SchemaRegistry, state: State
) -> None:
    definition = FormatDefinition(kind="avro", registry=registry.url)
    values = [b"x", b"\0\0\0\0\7?", b"\0\x80\0\0\0?", None]
    first = Parsed(spark, AvroFormat(definition, state), values)
    assert first.rows == [
        "has no schema id (a zero byte, then the id in 4 bytes)",
        f"has the schema id 7, which the registry {registry.url} does not know",
        "has the schema id 2147483648, which no registry assigns: ids are at most 2147483647",
        None,
    ]
    assert Parsed(spark, AvroFormat(definition, state), [framed(1, V1, OLD)]).rows[0]["gone"] == "g"
    batch = Parsed(
        spark,
        AvroFormat(definition, state),
        [
            framed(1, V1, OLD), framed(2, V2, NEW), framed(1, V1, OLD) + b"x",
            framed(3, V3, {"id": "x", "at": NOW}), b"\0\0\0\0\4?",
        ],
    )  # fmt: skip
    at = datetime.datetime(2020, 1, 1)
    assert batch.rows == [
        {"id": 1, "amount": 0.5, "gone": "g", "at": at, "currency": "EUR"},
        {"id": 2**40, "amount": None, "gone": None, "at": at, "currency": "USD"},
        "is not Avro of the schema 1",
        "has the schema id 3, in which at is timestamp-micros where the table has timestamp-millis",
        "has the schema id 4, which is a schema of PROTOBUF, not Avro",
    ]
    assert batch.ids == [1, 2, 1, 3, 4]
    assert columns(AvroFormat(definition, state)) == (
        "id: BIGINT, amount: DOUBLE, gone: STRING, at: TIMESTAMP, currency: STRING"
    )


def test_a_registry_that_is_down_stops_a_batch_with_unknown_ids_only(
    spark: SparkSession, registry: SchemaRegistry, state: State
) -> None:
    definition = FormatDefinition(kind="avro", registry=registry.url)
    Parsed(spark, AvroFormat(definition, state), [framed(1, V1, OLD)])
    for path in list(registry.answers):
        registry.answers[path] = 503
    assert Parsed(spark, AvroFormat(definition, state), [framed(1, V1, OLD)]).rows[0]["id"] == 1
    with pytest.raises(PipelineError, match="answered 503 Service Unavailable; start it"):
        Parsed(spark, AvroFormat(definition, state), [framed(2, V2, NEW)])


def test_a_readers_schema_decides_the_columns(spark: SparkSession, tmp_path: Path, state: State) -> None:
    files = {1: V1, 2: V2, 9: record(id="long", currency=("string", "???"))}
    for number, schema in files.items():
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    definition = FormatDefinition(
        kind="avro",
        schema=str(tmp_path / "9.avsc"),
        schemas={number: str(tmp_path / f"{number}.avsc") for number in (1, 2)},
    )
    parsed = Parsed(
        spark, AvroFormat(definition, state), [framed(1, V1, OLD), framed(2, V2, NEW), b"\0\0\0\0\5?"]
    )
    assert parsed.rows == [
        {"id": 1, "currency": "???"},
        {"id": 2**40, "currency": "USD"},
        "has the schema id 5, which is not known",
    ]


def test_protobuf_values_are_rows_with_their_columns_kept(spark: SparkSession, tmp_path: Path) -> None:
    from google.protobuf.json_format import ParseDict
    from pyspark.sql.types import StructType

    descriptors = descriptor_set(order_file())
    (tmp_path / "order.desc").write_bytes(descriptors)
    definition = FormatDefinition(kind="protobuf", schema=str(tmp_path / "order.desc"), message="shop.Order")
    values = {
        "a_uint64": 2**64 - 1, "a_bytes": "/w==", "status": "PAID", "item": {"sku": "s"}, "tags": ["x"],
        "items": [{"amount": 1}, {}], "at": "2020-01-01T00:00:00Z", "counts": {"a": 1},
        "by_id": {"5": {"sku": "m"}}, "extra": {"k": None}, "nothing": {},
    }  # fmt: skip
    value = ParseDict(values, message_class(descriptors, "shop.Order")()).SerializeToString()
    parser = ProtobufFormat(definition)
    parsed = Parsed(spark, parser, [value, b"\0\0\0\0\7\2\2" + value, None, b"?", b"\0\0\0\0\7\0"])
    row = parsed.rows[0]
    expected = {
        "a_uint64": Decimal(2**64 - 1), "a_bytes": b"\xff", "status": "PAID",
        "item": {"sku": "s", "amount": 0},
        "items": [{"sku": "", "amount": 1}, {"sku": "", "amount": 0}],
        "at": datetime.datetime(2020, 1, 1),
        "counts": {"a": 1}, "by_id": {5: {"sku": "m", "amount": 0}}, "extra": '{"k": null}', "nothing": True,
        "note": None, "a_int32": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert parsed.rows[1:] == [
        row, None, "is not Protobuf of the message shop.Order", "is a message shop.Item, not shop.Order",
    ]  # fmt: skip
    assert parsed.ids == [None, 7, None, None, 7]
    assert parsed.frame.columns == ["value", "offset", "_data", "_error", "_schema_id"]
    assert parsed.frame.schema["_data"].dataType == StructType.fromJson(parser.columns)
