"""Finds a message type in a descriptor set of `protoc --descriptor_set_out`."""

from __future__ import annotations

import base64
import functools
import importlib
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

_HOW = "protoc --include_imports --descriptor_set_out=FILE"


@functools.lru_cache(maxsize=8)
def message_class(descriptor_set: bytes, name: str | None) -> type[Message]:
    """The class of the message.

    It is cached, because creating it takes longer than decoding thousands of records. Without a name, the
    message is the only one of the set's last file, which is the file that was compiled.
    """
    files = _files(descriptor_set)
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        _add(pool, one, {file.name: file for file in files.file})
    return message_factory.GetMessageClass(_find(pool, files, name))


def joined_files(files: Mapping[str, str]) -> bytes:
    """The descriptor set of files by their names.

    They are serialized, in base64, as a registry gives them.
    """
    joined = descriptor_pb2.FileDescriptorSet()
    for name, content in files.items():
        try:
            joined.file.add().ParseFromString(base64.b64decode(content, validate=True))
        except (ValueError, DecodeError):
            raise PipelineError(
                f"the schema registry gives {name} not as a serialized descriptor; name the file of a "
                f"descriptor set instead: format.schema ({_HOW})"
            ) from None
        joined.file[-1].name = name
    return joined.SerializeToString()


def descriptor_of(message: type[Message]) -> Descriptor:
    descriptor: Descriptor = message.DESCRIPTOR  # type: ignore[assignment]
    return descriptor


def _files(descriptor_set: bytes) -> descriptor_pb2.FileDescriptorSet:
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(descriptor_set)
    except DecodeError:
        files.Clear()
    if not files.file or not all(one.name for one in files.file):
        what = "a .proto file" if b"syntax" in descriptor_set[:2_000] else "not a descriptor set"
        raise PipelineError(f"is {what}; make one: {_HOW}")
    return files


def _add(
    pool: descriptor_pool.DescriptorPool,
    file: descriptor_pb2.FileDescriptorProto,
    files: dict[str, descriptor_pb2.FileDescriptorProto],
) -> None:
    """Adds the file after those that it imports."""
    if _in_pool(pool, file.name):
        return
    for name in file.dependency:
        if _in_pool(pool, name):
            continue
        if name in files:
            _add(pool, files[name], files)
        else:
            pool.AddSerializedFile(_well_known(name, file.name))
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        raise PipelineError(f"{file.name} in the descriptor set is damaged: {str(error)[:200]}") from None


def _in_pool(pool: descriptor_pool.DescriptorPool, name: str) -> bool:
    try:
        pool.FindFileByName(name)
    except KeyError:
        return False
    return True


def _well_known(name: str, importer: str) -> bytes:
    """A file such as google/protobuf/timestamp.proto, which the library contains."""
    if name.startswith("google/protobuf/"):
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            content: bytes = importlib.import_module(module).DESCRIPTOR.serialized_pb
            return content
        except ImportError:
            pass
    raise PipelineError(f"the descriptor set lacks {name}, which {importer} imports; create it again: {_HOW}")


def _find(
    pool: descriptor_pool.DescriptorPool, files: descriptor_pb2.FileDescriptorSet, name: str | None
) -> Descriptor:
    last: FileDescriptor = pool.FindFileByName(files.file[-1].name)
    if name is None:
        messages: list[Any] = list(last.message_types_by_name.values())
        if len(messages) == 1:
            only: Descriptor = messages[0]
            return only
        names = ", ".join(one.full_name for one in messages) or "none"
        raise PipelineError(f"{last.name} has several messages; name one in format.message: {names}")
    try:
        found: Descriptor = pool.FindMessageTypeByName(name)
        return found
    except KeyError:
        known = [found for file in files.file for found in _names(file.package, file.message_type)]
        guess = did_you_mean(name, known) or _same_name(name, known)
        listed = f"; it has {', '.join(known[:10])}"
        raise PipelineError(f"has no message {name!r}{guess or listed}") from None


def _names(package: str, messages: Any) -> list[str]:
    names = []
    for one in messages:
        full = f"{package}.{one.name}".removeprefix(".")
        names += [full, *_names(full, [inner for inner in one.nested_type if not inner.options.map_entry])]
    return names


def _same_name(name: str, known: list[str]) -> str:
    same = [one for one in known if one.rpartition(".")[2] == name.rpartition(".")[2]]
    return f" (did you mean {same[0]!r}?)" if same else ""


def index_path(message: Descriptor) -> tuple[int, ...]:
    """Where the message stands in its file, as the registry's framing writes it.

    (0,) is the first message of the file.
    """
    if message.containing_type is None:
        return (list(message.file.message_types_by_name).index(message.name),)
    nested = [one.name for one in message.containing_type.nested_types]
    return (*index_path(message.containing_type), nested.index(message.name))


def message_at(file: FileDescriptor, path: tuple[int, ...]) -> str | None:
    """The full name of the file's message at this path."""
    messages: list[Any] = list(file.message_types_by_name.values())
    found = None
    for index in path:
        if index >= len(messages):
            return None
        found = messages[index]
        messages = list(found.nested_types)
    return None if found is None else str(found.full_name)
