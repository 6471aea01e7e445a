"""Random messages for tests and fuzzing: any class, any version, edge values of every type.

Only the fields of the version get values, so decoding an encoded message returns an equal message.
"""

import random
import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import NOT_GENERATED, Field, Struct, load, modules

M = TypeVar("M", bound=TopMessage)

RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
GENERATOR = Path(__file__).parents[2] / "scripts" / "generate"
ALPHABET = "abcXYZ019._-/ \u0000\u007f\u00e9\u0416\u4e2d\U0001f600"


def _make_the_rest() -> None:
    """Make the modules of messages that are not checked in, so that tests know all."""
    spec = spec_from_loader("generate", SourceFileLoader("generate", str(GENERATOR)))
    assert spec is not None
    assert spec.loader is not None
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name in NOT_GENERATED:
        made = ModuleType(f"kafkapy.protocol.messages.{name}")
        exec(generate.module_source(name), made.__dict__)
        sys.modules[made.__name__] = made


_make_the_rest()


def message_classes() -> list[type[TopMessage]]:
    """Return every class that the codec knows, sorted by module and name."""
    found = []
    for module in modules():
        names = import_module(f"kafkapy.protocol.messages.{module}")
        found += [getattr(names, name) for name in load(module)]
    return found


def versions_of(message_class: type[TopMessage]) -> range:
    return range(message_class.VERSIONS[0], message_class.VERSIONS[1] + 1)


def random_message(source: random.Random, message_class: type[M], version: int) -> M:
    module = import_module(message_class.__module__)
    found = _struct(source, schema_of(message_class).root, version, module)
    assert isinstance(found, message_class)
    return found


def _struct(source: random.Random, struct: Struct, version: int, module: Any) -> Message:
    found: Message = getattr(module, struct.class_name)()
    for field in struct.fields:
        if version not in field.versions or (field.tag >= 0 and source.random() < 0.4):
            continue
        setattr(found, field.name, _field(source, field, version, module))
    return found


def _field(source: random.Random, field: Field, version: int, module: Any) -> Any:
    if version in field.nullable and source.random() < 0.25:
        return None
    if not field.is_array:
        return _value(source, field, version, module)
    count = source.choice((0, 1, 2, 3) if field.struct is not None else (0, 1, 2, 15, 16, 130))
    return [_value(source, field, version, module) for _ in range(count)]


def _value(source: random.Random, field: Field, version: int, module: Any) -> Any:
    if field.struct is not None:
        return _struct(source, field.struct, version, module)
    match field.type:
        case "bool":
            return source.random() < 0.5
        case "float64":
            return source.choice((0.0, -1.5, 1e300, source.random()))
        case "uuid":
            return source.choice((bytes(16), source.randbytes(16)))
        case "string":
            return "".join(source.choices(ALPHABET, k=source.choice((0, 1, 5, 30, 150))))
        case "bytes" | "records":
            return source.randbytes(source.choice((0, 1, 20, 200)))
        case _:
            low, high = RANGES[field.type]
            return source.choice((low, high, 0, 1, source.randint(low, high), min(high, 100)))
