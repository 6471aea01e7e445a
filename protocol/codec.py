"""Encode and decode any message in any version.

For each (message, version) a straight-line function is generated and compiled on first use, which takes about
a millisecond, and then kept. Tests compare it with a slow codec that has no generated code
(tests/protocol/reference.py).

`decode` returns str, int, bool, float, bytes (also for UUIDs), lists and structs. `records` are a memoryview
of the decoded data, not a copy; it is writable if the data is. Bytes after the message are ignored, as in
Kafka. Unknown tagged fields are skipped and lost. Whatever the bytes, decoding raises no other error than
DecodeError.
"""

import linecache
import struct
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from kafkapy.protocol import primitives, schema
from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.decoder_source import DecoderSource, value_count
from kafkapy.protocol.encoder_source import EncoderSource
from kafkapy.protocol.errors import DecodeError, EncodeError, OverBudgetError
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.types import Part

DEFAULT_BUDGET = 200_000
"""How many values (structs, strings, numbers …) the arrays of one message may hold.

At worst, decoding creates 17 MB of objects and takes a fifth of a second. The budget suffices for 22,000
partitions in a Fetch and 66,000 topics in a Metadata request. For a trusted peer, a caller may pass a larger
budget. See `decoder_source`."""

COPY_LIMIT = 1 << 20
"""Up to this size a memoryview is copied before decoding: bytes yield strings faster."""

M = TypeVar("M", bound=TopMessage)

Encoder: TypeAlias = Callable[[TopMessage, list[Any], list[Part] | None], None]
Decoder: TypeAlias = Callable[[bytes | memoryview, int, int, int, memoryview | None], tuple[Any, int]]
Counter: TypeAlias = Callable[[TopMessage, int], int]
"""The rest of a budget after the arrays of a message, or of the first of them that exceed it."""

_encoders: dict[tuple[type[TopMessage], int], Encoder] = {}
_decoders: dict[tuple[type[TopMessage], int, bool, bool], Decoder] = {}
"""By class, version, whether from bytes, and whether invalid UTF-8 is replaced."""
_has_records: dict[type[TopMessage], bool] = {}
_counters: dict[type[TopMessage], Counter] = {}

blank: Callable[[type[Message]], Any] = compiled_twin("kafkapy.protocol._walker", "blank", object.__new__)
"""Makes a message whose fields will be set, in less time than its constructor; the twin that is used."""


def blanks_purely(message_class: type[Message], count: int) -> list[Any]:
    """A list of so many messages, each as `blank` makes it."""
    return [object.__new__(message_class) for _ in range(count)]


blanks = compiled_twin("kafkapy.protocol._walker", "blanks", blanks_purely)
"""The twin that is used."""

_ENCODE_MISTAKES = (struct.error, TypeError, AttributeError, UnicodeEncodeError, OverflowError)


def encode(message: TopMessage, version: int) -> bytes:
    """Encode the message; its records must be bytes or a memoryview.

    Raises:
        EncodeError: a value does not fit its field.
    """
    out: list[bytes] = []
    try:
        encoder = _encoders.get((message.__class__, version)) or _compile_encoder(message.__class__, version)
        encoder(message, out, None)
        return b"".join(out)
    except _ENCODE_MISTAKES as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error


def encode_parts(message: TopMessage, version: int) -> tuple[bytes, list[Part]]:
    """Encode as `encode` does, but do not copy records: each is a separate part.

    Returns the bytes before the first of them, and the other parts.
    """
    out: list[bytes] = []
    parts: list[Part] = []
    try:
        encoder = _encoders.get((message.__class__, version)) or _compile_encoder(message.__class__, version)
        encoder(message, out, parts)
        rest = b"".join(out)
        if not parts:
            return rest, parts
        if rest:
            parts.append(rest)
        first = parts.pop(0)
        assert isinstance(first, bytes)
        return first, parts
    except _ENCODE_MISTAKES as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error


def decode(
    message_class: type[M],
    data: bytes | bytearray | memoryview,
    version: int,
    *,
    budget: int = DEFAULT_BUDGET,
) -> M:
    """Decode the message at the start of `data`.

    Raises:
        DecodeError: the bytes are not such a message.
    """
    return decode_from(message_class, data, 0, version, budget=budget)[0]


def decode_from(
    message_class: type[M],
    data: bytes | bytearray | memoryview,
    offset: int,
    version: int,
    *,
    budget: int = DEFAULT_BUDGET,
) -> tuple[M, int]:
    """Return the message at `offset` and the offset after it.

    In strings, what is not UTF-8 becomes U+FFFD, as in Apache Kafka.

    Raises:
        DecodeError: the bytes are not such a message.
    """
    has_records = _has_records.get(message_class)
    if has_records is None:
        has_records = _find_records(message_class)
    view = None
    if has_records:
        data = view = memoryview(data)
    elif data.__class__ is not bytes:
        data = bytes(data) if len(data) <= COPY_LIMIT else memoryview(data)
    from_bytes = data.__class__ is bytes
    key = (message_class, version, from_bytes, False)
    decoder = _decoders.get(key) or _compile_decoder(*key)
    try:
        found: tuple[M, int]
        try:
            found = decoder(data, offset, len(data), budget, view)
        except UnicodeDecodeError:
            key = (message_class, version, from_bytes, True)
            decoder = _decoders.get(key) or _compile_decoder(*key)
            found = decoder(data, offset, len(data), budget, view)
        return found
    except OverBudgetError as error:
        raise OverBudgetError(f"{message_class.__name__} v{version}: {error}") from None
    except DecodeError as error:
        raise DecodeError(f"{message_class.__name__} v{version}: {error}") from None
    except (struct.error, IndexError):
        raise DecodeError(f"{message_class.__name__} v{version}: ends too early") from None


def holds_more(message: TopMessage, values: int) -> bool:
    """Whether the arrays of `message` hold more than `values` values, counted as for a budget."""
    counter = _counters.get(message.__class__) or _compile_counter(message.__class__)
    return counter(message, values) < 0


def schema_of(message_class: type[TopMessage]) -> schema.MessageSchema:
    """Return the schema of a class of `messages/`."""
    return schema.load(message_class.__module__.rpartition(".")[2])[message_class.__name__]


def _compile_encoder(message_class: type[TopMessage], version: int) -> Encoder:
    message_schema = schema_of(message_class)
    if version not in message_schema.versions:
        raise EncodeError(f"{message_class.__name__} has no version {version}")
    source = EncoderSource(message_schema, version)
    names: dict[str, Any] = {
        "EncodeError": EncodeError,
        "ONE_BYTE": primitives.ONE_BYTE,
        "encode_uvarint": primitives.encode_uvarint,
        "encode_string_length": primitives.encode_string_length,
        "pack_long_array": primitives.pack_long_array,
        **source.names,
    }
    execute(source.text, f"<encode {message_class.__name__} v{version}>", names)
    encoder: Encoder = names["encode"]
    _encoders[message_class, version] = encoder
    return encoder


def _compile_decoder(
    message_class: type[TopMessage], version: int, from_bytes: bool, replaces: bool
) -> Decoder:
    message_schema = schema_of(message_class)
    if version not in message_schema.versions:
        raise DecodeError(f"{message_class.__name__} has no version {version}")
    source = DecoderSource(message_schema, version, from_bytes=from_bytes, replaces=replaces)
    module = __import__(message_class.__module__, fromlist=["*"])
    names: dict[str, Any] = {
        "DecodeError": DecodeError,
        "decode_invalid": primitives.decode_invalid,
        "new": blank,
        "new_list": blanks,
        "over_budget": primitives.over_budget,
        "read_uvarint": primitives.read_uvarint,
        "read_string_length": primitives.read_string_length,
        "skip_tags": primitives.skip_tags,
        "unpack_long_array": primitives.unpack_long_array,
        **{name: getattr(module, name) for name in source.classes},
        **source.names,
    }
    execute(source.text, f"<decode {message_class.__name__} v{version}>", names)
    decoder: Decoder = names["decode"]
    _decoders[message_class, version, from_bytes, replaces] = decoder
    return decoder


def _compile_counter(message_class: type[TopMessage]) -> Counter:
    message_schema = schema_of(message_class)
    lines = ["def left(o0, budget):"]
    _count_arrays(message_schema.root, message_schema.versions.last, 0, lines)
    lines.append("    return budget")
    names: dict[str, Any] = {}
    execute("\n".join(lines), f"<count {message_class.__name__}>", names)
    counter: Counter = names["left"]
    _counters[message_class] = counter
    return counter


def _count_arrays(struct: schema.Struct, version: int, depth: int, lines: list[str]) -> None:
    """Add the lines that charge the arrays of the struct in variable o<depth>."""
    indent = "    " * (2 * depth + 1)
    for field in struct.fields:
        if field.is_array:
            cost = 1 if field.struct is None else value_count(field.struct, version)
            lines.append(f"{indent}a{depth} = o{depth}.{field.name}")
            lines.append(f"{indent}if a{depth}:")
            lines.append(f"{indent}    budget -= len(a{depth}) * {cost}")
            if field.struct is not None and _has_arrays(field.struct):
                lines.append(f"{indent}    for o{depth + 1} in a{depth}:")
                lines.append(f"{indent}        if budget < 0:")
                lines.append(f"{indent}            return budget")
                _count_arrays(field.struct, version, depth + 1, lines)
        elif field.struct is not None and _has_arrays(field.struct):
            lines.append(f"{indent}o{depth + 1} = o{depth}.{field.name}")
            lines.append(f"{indent}if o{depth + 1} is not None:")
            lines.append(f"{indent}    if budget >= 0:")
            _count_arrays(field.struct, version, depth + 1, lines)


def _has_arrays(struct: schema.Struct) -> bool:
    return any(
        each.is_array or (each.struct is not None and _has_arrays(each.struct)) for each in struct.fields
    )


def execute(text: str, filename: str, names: dict[str, Any]) -> None:
    """Execute `text` with `names` as its globals; tracebacks and debuggers can show its lines."""
    exec(compile(text, filename, "exec"), names)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def _find_records(message_class: type[TopMessage]) -> bool:
    def holds(fields: tuple[schema.Field, ...]) -> bool:
        return any(f.type == "records" or (f.struct is not None and holds(f.struct.fields)) for f in fields)

    found = _has_records[message_class] = holds(schema_of(message_class).root.fields)
    return found
