"""Protobuf schemas are checked by protoc, as text and as descriptors."""

from __future__ import annotations

import base64
import importlib.resources
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from kafkapy.registry.formats import parsed

ORDER = 'syntax = "proto3";\nmessage Order {\n  int32 id = 1;\n}\n'

EVERYTHING = """
syntax = "proto2";
package shop.v1;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/empty.proto";
option java_package = "com.shop";
option java_multiple_files = true;
option optimize_for = LITE_RUNTIME;
enum Kind {
  option allow_alias = true;
  A = 0; B = 1 [deprecated = true]; C = 1;
  reserved 5, 7 to 9, 100 to max;
  reserved "X";
}
message Order {
  option deprecated = true;
  required int64 id = 1;
  optional string note = 2 [default = "a \\"quote\\" ä\\n", deprecated = true];
  optional bytes raw = 3 [default = "\\001\\"x"];
  repeated double prices = 4 [packed = true];
  optional Kind kind = 5 [default = B];
  optional float ratio = 6 [default = inf];
  map<string, Line> lines = 7;
  optional .google.protobuf.Timestamp at = 8;
  oneof who { string name = 9; int32 number = 10; Line line = 11; }
  optional group Extra = 12 { optional int32 x = 1; }
  optional int32 renamed_field = 13 [json_name = "other"];
  message Line { enum Unit { KG = 0; } optional Unit unit = 1; optional Line inner = 2; }
  reserved 20, 30 to 40;
  reserved "old";
  extensions 100 to 199, 1000 to max;
}
extend Order { optional string extra_note = 100; }
service Shop {
  rpc Buy(Order) returns (Order.Line) { option deprecated = true; }
  rpc Watch(stream Order) returns (stream google.protobuf.Empty);
}
"""
EVERYTHING_3 = """
syntax = "proto3";
package shop;
message Order {
  optional int32 maybe = 1;
  int32 plain = 2;
  repeated string names = 3;
  repeated int32 unpacked = 4 [packed = false];
  oneof which { string a = 5; bytes b = 6; }
  map<int32, string> by_id = 7;
  optional string later = 8;
}
"""


def encoded(text: str, tmp_path: Path) -> str:
    """The descriptor that protoc makes of a file, as Confluent's Python serializer sends it."""
    (tmp_path / "shop.proto").write_text(text)
    output = tmp_path / "descriptors"
    subprocess.run(
        (
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{tmp_path}",
            f"--descriptor_set_out={output}",
            "shop.proto",
        ),
        check=True,
    )
    return base64.b64encode(
        FileDescriptorSet.FromString(output.read_bytes()).file[0].SerializeToString()
    ).decode()


@pytest.mark.parametrize("text", [ORDER, EVERYTHING, EVERYTHING_3])
def test_a_descriptor_is_the_schema_that_it_was_made_of(text: str, tmp_path: Path) -> None:
    sent = parsed("PROTOBUF", encoded(text, tmp_path), ())
    assert sent.text.startswith("syntax")
    assert (
        sent.identity == parsed("PROTOBUF", text, ()).identity == parsed("PROTOBUF", sent.text, ()).identity
    )


@pytest.mark.parametrize(
    "file",
    ["any", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "wrappers"],
)
def test_protobufs_own_files_are_written_again(file: str, tmp_path: Path) -> None:
    path = importlib.resources.files("grpc_tools") / "_proto" / "google" / "protobuf" / f"{file}.proto"
    text = path.read_text().replace("package google.protobuf;", "package copied;")
    parsed("PROTOBUF", encoded(text, tmp_path), ())


def test_what_is_serialized_is_a_descriptor() -> None:
    found = FileDescriptorProto.FromString(base64.b64decode(parsed("PROTOBUF", ORDER, ()).serialized))
    assert [message.name for message in found.message_type] == ["Order"]


def test_a_reference_is_a_file_to_import() -> None:
    order = 'syntax = "proto3"; import "shop/customer.proto"; message Order { shop.Customer who = 1; }'
    customer = 'syntax = "proto3"; package shop; message Customer { int32 id = 1; }'
    parsed("PROTOBUF", order, (("shop/customer.proto", customer),))
    with pytest.raises(ValueError, match=r"shop/customer\.proto: File not found"):
        parsed("PROTOBUF", order, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message", "line 1:"),
        ('syntax = "proto3"; message A { Unknown b = 1; }', '"Unknown" is not defined'),
        (
            'syntax = "proto3"; message A { int32 b = 1; int32 c = 1; }',
            "Field number 1 has already been used",
        ),
    ],
)
def test_what_protoc_refuses_is_refused_with_its_words(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parsed("PROTOBUF", text, ())


@pytest.mark.parametrize("name", ["../x.proto", "/etc/x.proto"])
def test_a_reference_stays_in_its_folder(name: str) -> None:
    with pytest.raises(ValueError, match="is no path of a file to import"):
        parsed("PROTOBUF", ORDER, ((name, ORDER),))


def test_a_descriptor_with_options_of_its_own_is_refused() -> None:
    descriptor = FileDescriptorProto(name="a.proto", syntax="proto3")
    descriptor.message_type.add(name="A").options.ParseFromString(b"\x8a\xd1\x86\x03\x01x")
    with pytest.raises(ValueError, match="register that file's text"):
        parsed("PROTOBUF", base64.b64encode(descriptor.SerializeToString()).decode(), ())


@pytest.mark.parametrize(
    "names",
    [("",), (".",), ("a" * 300,), ("schema_to_check.proto",), ("a", "a/b"), ("a/b", "a"), ("a", "./a")],
)
def test_names_that_are_no_paths_of_files_are_refused(names: tuple[str, ...]) -> None:
    text = 'syntax = "proto3"; message A {}'
    with pytest.raises(ValueError, match="path"):
        parsed("PROTOBUF", text, tuple((name, text) for name in names))
