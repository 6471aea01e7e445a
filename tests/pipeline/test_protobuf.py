"""Protobuf: descriptor sets, columns, and values decoded to Arrow without Spark."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.json_format import ParseDict

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.protobuf_columns import protobuf_columns
from kafkapy.pipeline.formats.protobuf_decoder import Decoder, decode_batches
from kafkapy.pipeline.formats.protobuf_descriptors import descriptor_of, message_class
from kafkapy.pipeline.formats.protobuf_format import ProtobufFormat
from kafkapy.pipeline.formats.spark_types import sql_name
from kafkapy.pipeline.pipeline_error import PipelineError
from tests.pipeline.protobuf_messages import descriptor_set, field, order_file

ORDERS = descriptor_set(order_file())
ORDER = message_class(ORDERS, "shop.Order")
DECODER = Decoder(ORDER)


def order(**values: Any) -> bytes:
    return ParseDict(values, ORDER()).SerializeToString()


def decoded(*values: bytes | None) -> list[Any]:
    """The rows, or the errors in their place."""
    data, errors, _ = DECODER.decode(values)
    return [error or row for row, error in zip(data.to_pylist(), errors, strict=True)]


def test_the_columns_of_a_message_of_all_types() -> None:
    columns = sql_name(protobuf_columns(descriptor_of(ORDER)))
    assert columns == (
        "STRUCT<a_bool: BOOLEAN, a_int32: INT, a_sint32: INT, a_sfixed32: INT, a_uint32: BIGINT, "
        "a_fixed32: BIGINT, a_int64: BIGINT, a_sint64: BIGINT, a_sfixed64: BIGINT, a_uint64: DECIMAL(20,0), "
        "a_fixed64: DECIMAL(20,0), a_float: FLOAT, a_double: DOUBLE, a_string: STRING, a_bytes: BINARY, "
        "status: STRING, item: STRUCT<sku: STRING, amount: INT>, "
        "items: ARRAY<STRUCT<sku: STRING, amount: INT>>, tags: ARRAY<STRING>, at: TIMESTAMP, "
        "took: STRUCT<seconds: BIGINT, nanos: INT>, score: BIGINT, extra: STRING, nothing: BOOLEAN, "
        "counts: MAP<STRING, BIGINT>, by_id: MAP<INT, STRUCT<sku: STRING, amount: INT>>, "
        "card: STRING, cash: DOUBLE, note: STRING>"
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a_bool", [True]),
        ("a_int32", [-(2**31), 2**31 - 1]),
        ("a_uint32", [2**32 - 1]),
        ("a_int64", [-(2**63), 2**63 - 1]),
        ("a_uint64", [2**64 - 1]),
        ("a_fixed64", [2**64 - 1]),
        ("a_float", [0.5]),
        ("a_double", [0.1, float("inf")]),
        ("a_string", ["größe"]),
        ("tags", [["a", "", "b"]]),
    ],
)
def test_values_of_all_ranges_come_out_as_they_are(name: str, values: list[Any]) -> None:
    rows = decoded(*[order(**{name: "Infinity" if one == float("inf") else one}) for one in values])
    assert [row[name] for row in rows] == values


def test_fields_that_are_not_set_are_null_where_protobuf_can_tell() -> None:
    (row,) = decoded(b"")
    unset = ("item", "at", "took", "score", "extra", "nothing", "card", "cash", "note")
    assert [row[name] for name in unset] == [None] * len(unset)
    assert (row["a_int32"], row["a_string"], row["status"]) == (0, "", "NEW")
    assert (row["items"], row["tags"], row["counts"]) == ([], [], [])
    (row,) = decoded(order(note="", cash=0.0, score=0, nothing={}, item={}))
    assert (row["note"], row["cash"], row["score"], row["nothing"], row["card"]) == ("", 0.0, 0, True, None)
    assert row["item"] == {"sku": "", "amount": 0}


def test_messages_maps_and_well_known_types_are_nested_columns() -> None:
    (row,) = decoded(
        order(
            items=[{"sku": "a"}, {"amount": 2}],
            counts={"x": 1, "y": 2},
            by_id={5: {"sku": "five"}},
            at="2020-01-01T00:00:00.123456789Z",
            took="-1.5s",
            extra={"a": [1, None, "ö"]},
        )
    )
    assert row["items"] == [{"sku": "a", "amount": 0}, {"sku": "", "amount": 2}]
    assert sorted(row["counts"]) == [("x", 1), ("y", 2)]
    assert row["by_id"] == [(5, {"sku": "five", "amount": 0})]
    assert row["at"] == datetime.datetime(2020, 1, 1, 0, 0, 0, 123456, datetime.UTC)
    assert row["took"] == {"seconds": -1, "nanos": -500_000_000}
    assert row["extra"] == '{"a": [1.0, null, "ö"]}'


def test_enums_are_names_and_numbers_where_there_is_no_name() -> None:
    known, unknown = decoded(order(status="PAID"), b"\xa0\x01\x09")
    assert (known["status"], unknown["status"]) == ("PAID", "9")


def test_only_the_records_that_are_wrong_are() -> None:
    good = order(a_string="x", tags=["y"])
    beyond = ORDER()
    beyond.at.seconds = 10**15  # type: ignore[attr-defined]
    rows = decoded(good, None, b"garbage!", good[:-1], beyond.SerializeToString(), good)
    assert rows[0] == rows[5] == decoded(good)[0]
    assert rows[1] is None
    assert rows[2] == rows[3] == "is not Protobuf of the message shop.Order"
    assert rows[4].startswith("has a value that fits no column: a timestamp of 1000000000000000 seconds")


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"\0\0\0\1\2\2\2", None),  # one index, which is 1: the second message of the file
        (b"\0\0\0\1\2\0", "is a message shop.Item, not shop.Order"),
        (b"\0\0\0\1\2\2\4", "is a message shop.Node, not shop.Order"),
        (b"\0\0\0\1\2\2\x14", None),  # of a version of the file that has more messages than ours
        (b"\0", "is not Protobuf: begins with a zero byte"),
        (b"\0\0\0\1\2\x80\x80", "is not Protobuf: begins with a zero byte"),
        (b"\0\0\0\1\2\1", "is not Protobuf: begins with a zero byte"),
    ],
)
def test_a_registrys_frame_is_told_from_a_bare_message(frame: bytes, error: str | None) -> None:
    payload = order(a_string="x") if error is None else b""
    data, errors, ids = DECODER.decode([frame + payload])
    if error is None:
        assert data.to_pylist()[0]["a_string"] == "x"
        assert (errors, ids) == ([None], [258])
    else:
        assert str(errors[0]).startswith(error)


def test_batches_keep_their_columns() -> None:
    batch = pa.RecordBatch.from_pydict({"offset": [7, 8], "value": [order(a_int32=1), b"?"]})
    (out,) = decode_batches(ORDERS, "shop.Order", iter([batch]))
    assert out.schema.names == ["offset", "value", "_data", "_error", "_schema_id"]
    assert out.column("offset").to_pylist() == [7, 8]
    assert [one is None for one in out.column("_data").to_pylist()] == [False, True]
    assert [one is None for one in out.column("_error").to_pylist()] == [True, False]


def test_a_message_of_proto2_needs_its_required_fields() -> None:
    message = DescriptorProto(name="Old", field=[field("id", 1, "int32"), field("name", 2, "string")])
    message.field[0].label = FieldDescriptorProto.LABEL_REQUIRED
    old = descriptor_set(FileDescriptorProto(name="old.proto", syntax="proto2", message_type=[message]))
    data, errors, _ = Decoder(message_class(old, "Old")).decode([b"\x08\x05", b""])
    assert data.to_pylist()[0] == {"id": 5, "name": None}
    assert errors == [None, "is not Protobuf of the message Old: a required field is missing"]


def check(folder: Path, content: bytes, message: str | None) -> None:
    file = folder / "order.desc"
    file.write_bytes(content)
    ProtobufFormat(FormatDefinition(kind="protobuf", schema=str(file), message=message)).check()


@pytest.mark.parametrize(
    ("content", "message", "told"),
    [
        (ORDERS, "shop.Ordr", "has no message 'shop.Ordr' (did you mean 'shop.Order'?)"),
        (ORDERS, "Order", "(did you mean 'shop.Order'?)"),
        (ORDERS, "x.Unlike", "has no message 'x.Unlike'; it has shop.Item, shop.Order"),
        (ORDERS, None, "has several messages; name one in format.message: shop.Item, shop.Order, shop.Node"),
        (ORDERS, "shop.Node", "child is recursive (shop.Node within itself)"),
        (b'syntax = "proto3"; message A {}', "A", "is a .proto file; make one: protoc --include_imports"),
        (b"\xff\xff", "A", "is not a descriptor set; make one: protoc"),
        (b"", "A", "is not a descriptor set"),
    ],
)
def test_a_descriptor_set_that_is_of_no_use_is_one_line(
    tmp_path: Path, content: bytes, message: str | None, told: str
) -> None:
    with pytest.raises(PipelineError) as failure:
        check(tmp_path, content, message)
    assert "order.desc: " in str(failure.value)
    assert told in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_descriptor_set_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as failure:
        ProtobufFormat(FormatDefinition(kind="protobuf", schema=str(tmp_path / "a.desc"))).check()
    assert str(failure.value) == f"format.schema: there is no file {tmp_path / 'a.desc'}"


def test_imports_that_are_missing_are_named(tmp_path: Path) -> None:
    file = FileDescriptorProto(
        name="a.proto",
        syntax="proto3",
        dependency=["shop/base.proto"],
        message_type=[DescriptorProto(name="A")],
    )
    with pytest.raises(
        PipelineError, match=r"lacks shop/base.proto, which a.proto imports; create it again: protoc"
    ):
        check(tmp_path, descriptor_set(file), "A")


def test_imports_may_come_in_any_order(tmp_path: Path) -> None:
    user = FileDescriptorProto(
        name="a.proto",
        syntax="proto3",
        dependency=["shop/order.proto"],
        message_type=[DescriptorProto(name="A", field=[field("order", 1, ".shop.Item")])],
    )
    check(tmp_path, descriptor_set(user, order_file()), "A")
    check(tmp_path, descriptor_set(order_file(), user), None)
