"""Protobuf schemas, by protoc, which the package grpcio-tools contains.

A schema is the text of a .proto file, or the FileDescriptorProto of one in base64, as Confluent's Python
serializer sends it. The text is kept: that of a descriptor is written here (`proto_text`), and refused if
protoc does not make the same descriptor of it. References are files, and their names the paths in `import`.
google/protobuf/… is known to protoc.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from kafkapy.registry.formats.parsed import Parsed
from kafkapy.registry.formats.proto_text import json_name, proto_text

_FILE: Final = "schema_to_check.proto"
"""The name of the schema itself, which no reference may have."""
_SECONDS: Final = 30
_MOST_PATH: Final = 255
"""The most bytes of a path."""
_LINES: Final = 3
"""How many of protoc's messages are told."""


def parse(text: str, references: Sequence[tuple[str, str]]) -> Parsed:
    sent = _descriptor_of_base64(text)
    if sent is None:
        descriptor, kept = _compiled(text, references), text
    else:
        kept = proto_text(sent)
        descriptor = _compiled(kept, references)
        if _bytes(sent) != _bytes(descriptor):
            raise ValueError("the descriptor cannot be written as a .proto file: register that file's text")
    encoded = base64.b64encode(_bytes(descriptor)).decode()
    return Parsed(kept, encoded, proto_text(descriptor), encoded, descriptor)


def _descriptor_of_base64(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text is in base64; None for a text that is not one."""
    descriptor = FileDescriptorProto()
    try:
        descriptor.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return descriptor if descriptor.ListFields() else None


def _bytes(descriptor: FileDescriptorProto) -> bytes:
    """What two files have in common that define the same.

    They may have other names, write out the names of fields in JSON or the syntax of version 2 or not, have
    options without any, and the messages of maps and groups before or after others.
    """
    bare = FileDescriptorProto()
    bare.CopyFrom(descriptor)
    bare.ClearField("name")
    bare.ClearField("source_code_info")
    if bare.syntax == "proto2":
        bare.ClearField("syntax")
    messages = list(bare.message_type)
    fields = list(bare.extension)
    while messages:
        message = messages.pop()
        fields += [*message.field, *message.extension]
        own = {
            field.type_name.rpartition(".")[2] for field in message.field if field.type == field.TYPE_GROUP
        }
        nested = sorted(message.nested_type, key=lambda each: each.options.map_entry or each.name in own)
        del message.nested_type[:]
        message.nested_type.extend(nested)
        messages += message.nested_type
    for field in fields:
        if not field.HasField("json_name"):
            field.json_name = json_name(field.name)
    for service in bare.service:
        for method in service.method:
            if not method.options.ListFields():
                method.ClearField("options")
    return bare.SerializeToString(deterministic=True)


def _compiled(text: str, references: Sequence[tuple[str, str]]) -> FileDescriptorProto:
    """What protoc makes of a file; raises ValueError with its messages."""
    with tempfile.TemporaryDirectory(prefix="kafkapy-protoc-") as name:
        folder = Path(name)
        for file, content in [(_FILE, text), *references]:
            _write(folder, file, content)
        output = folder / "descriptors"
        protoc = (sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={output}")
        try:
            done = subprocess.run(
                (*protoc, _FILE), capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc did not end in {_SECONDS} s") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").replace(f"{_FILE}:", "line ").splitlines()
            raise ValueError("; ".join(lines[:_LINES]) or f"protoc ended with status {done.returncode}")
        descriptors = FileDescriptorSet.FromString(output.read_bytes())
    return descriptors.file[0]


def _write(folder: Path, file: str, content: str) -> None:
    """Write a file to import; raises ValueError if its path cannot be one."""
    path = PurePosixPath(file)
    if not path.parts or path.is_absolute() or ".." in path.parts or len(file.encode()) > _MOST_PATH:
        raise ValueError(f"{file[:_MOST_PATH]!r} is no path of a file to import")
    try:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("x", encoding="utf-8") as written:
            written.write(content)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"{file!r} is the path of another file, or of its folder") from None
