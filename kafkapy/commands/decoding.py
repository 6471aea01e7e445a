"""Keys and values as they are meant: by the schema of a registry, as JSON, as text.

Confluent's serializers write the id of a schema before a key or a value:

    0x00 | schema id int32 | Avro, JSON, or the indexes of a Protobuf message and the message

Records come from anybody, so a value may have 100,000 parts and no more.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from kafkapy.errors import UserError

_HEAD: Final = 5
_MOST_PARTS: Final = 100_000
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of an answer of the registry."""
_SECONDS: Final = 5.0
_MOST_FAILED: Final = 1000
"""Ids of schemas that cannot be had."""

_Decode = Callable[[bytes], Any]


class Decoder:
    """Says what bytes mean.

    Args:
        registry: the address of a schema registry, such as `http://localhost:8081`; a user and a password
            may be in it, or a reference to them. None decodes JSON and text only.

    Raises:
        UserError: the address is none.
    """

    def __init__(self, registry: str | None) -> None:
        self._registry = None if registry is None else _Registry(registry)

    @property
    def has_registry(self) -> bool:
        """Whether keys and values are decoded by schemas."""
        return self._registry is not None

    def value(self, data: bytes | None) -> Any:
        """What bytes say: by a schema, as JSON, as text; `{"base64": …}` for all other bytes.

        What cannot be decoded by the schema that it names is bytes, and says why.
        """
        if data is None:
            return None
        if self._registry is not None and len(data) >= _HEAD and data[0] == 0:
            number = int.from_bytes(data[1:_HEAD], "big")
            try:
                return self._registry.decode(number)(data[_HEAD:])
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                return {**_base64(data), "undecoded": f"schema {number}: {error}"}
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _base64(data)
        # A number or a word may be JSON by accident: it is shown as it is written.
        if text.lstrip()[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                return json.loads(text)
        return text

    def text(self, data: bytes | None) -> str:
        """The same in one line."""
        if data is not None and self._registry is None:
            return data.decode(errors="replace")
        value = self.value(data)
        if value is None:
            return "null"
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Registry:
    """Asks for schemas, each once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"--schema-registry {_without_login(url)}: expected http://HOST:PORT")
        login, _, address = parts.netloc.rpartition("@")
        self._url = f"{parts.scheme}://{address}{parts.path.rstrip('/')}"
        self._headers = {}
        if login:
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self._made: dict[int, _Decode] = {}
        self._failed: dict[int, str] = {}
        """Bytes that only look like a value with a schema may be in all records of a topic."""

    def decode(self, number: int) -> _Decode:
        """What decodes by a schema; the packages of the extra `registry` are needed for it.

        Raises:
            ValueError: there is none, or it cannot be had.
        """
        if number in self._failed:
            raise ValueError(self._failed[number])
        if number not in self._made:
            try:
                self._made[number] = self._make(number)
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                if len(self._failed) == _MOST_FAILED:
                    self._failed.clear()
                self._failed[number] = str(error)
                raise ValueError(str(error)) from None
        return self._made[number]

    def _make(self, number: int) -> _Decode:
        try:
            return self._decoding(number)
        except ModuleNotFoundError as error:
            raise UserError(
                f"{error.name} is not installed: pip install '.[registry]' in a checkout"
            ) from None

    def _decoding(self, number: int) -> _Decode:
        found = self._get(f"/schemas/ids/{number}")
        kind, text = found.get("schemaType") or "AVRO", str(found["schema"])
        if kind == "JSON":
            return json.loads
        from kafkapy.registry.formats import parsed

        references: dict[str, str] = {}
        self._add_references(found, references)
        if kind == "PROTOBUF":
            files: list[Any] = []
            for name in references:
                before = tuple(references.items())[: len(files)]
                files.append((name, parsed(kind, references[name], before).tree))
            return _protobuf(parsed(kind, text, tuple(references.items())).tree, files)
        return _avro(parsed(kind, text, tuple(references.items())).tree)

    def _add_references(self, schema: Any, found: dict[str, str]) -> None:
        """Add the schemas that one refers to, by name; those first that others need."""
        for each in schema.get("references") or ():
            if each["name"] not in found:
                subject = quote(str(each["subject"]), safe="")
                referred = self._get(f"/subjects/{subject}/versions/{int(each['version'])}")
                self._add_references(referred, found)
                found[each["name"]] = referred["schema"]

    def _get(self, path: str) -> Any:
        try:
            with urlopen(Request(self._url + path, headers=self._headers), timeout=_SECONDS) as answer:
                content = answer.read(_MOST_BYTES + 1)
        except (URLError, OSError) as error:
            raise ValueError(f"the registry says: {getattr(error, 'reason', error)}") from None
        if len(content) > _MOST_BYTES:
            raise ValueError("the registry's answer is too long")
        return json.loads(content)


def _avro(schema: Any) -> _Decode:
    from avro.io import BinaryDecoder, DatumReader

    class Bounded(DatumReader):  # type: ignore[misc]
        """A few bytes can say that an array has a billion nulls."""

        left = _MOST_PARTS

        def read_data(self, *arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise ValueError(f"it has more than {_MOST_PARTS:,} parts")
            return super().read_data(*arguments)

    def decode(data: bytes) -> Any:
        from avro.errors import AvroException

        stream = io.BytesIO(data)
        try:
            value = Bounded(schema, schema).read(BinaryDecoder(stream))
        except AvroException as error:
            raise ValueError(str(error)) from None
        if left := len(data) - stream.tell():
            raise ValueError(f"{left} bytes are left after the value")
        return _plain(value)

    return decode


def _protobuf(descriptor: Any, files: list[Any]) -> _Decode:
    from google.protobuf import descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    for name, file in [*files, (descriptor.name, descriptor)]:
        for imported in file.dependency:
            _add_well_known(pool, imported)
        named = type(file)()
        named.CopyFrom(file)
        named.name = name
        pool.Add(named)
    top = pool.FindFileByName(descriptor.name)

    def decode(data: bytes) -> Any:
        indexes, at = _indexes(data)
        messages: Any = list(top.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(messages):
                raise ValueError(f"it has no message {index}")
            found = messages[index]
            messages = list(found.nested_types)
        message = message_factory.GetMessageClass(found)()
        try:
            message.ParseFromString(data[at:])
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    return decode


def _add_well_known(pool: Any, name: str) -> None:
    """Add a file that protoc brings along, google/protobuf/…, to a pool."""
    if not name.startswith("google/protobuf/"):
        return
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    for imported in module.DESCRIPTOR.dependencies:
        _add_well_known(pool, imported.name)
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    pool.Add(file)


def _indexes(data: bytes) -> tuple[list[int], int]:
    """The path to a message in its file, and where the message begins."""
    count, at = _varint(data, 0)
    if not count:
        return [0], at
    if not 0 < count <= len(data):
        raise ValueError(f"it names a message by {count} numbers")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at == len(data) or shift > 63:
            raise ValueError("it ends within the path of its message")
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _plain(value: Any) -> Any:
    """A value of Avro as JSON has it."""
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)  # a time, a date, a decimal, a UUID


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}


def _without_login(url: str) -> str:
    return url.rpartition("@")[2]
