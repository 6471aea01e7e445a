"""Answers with an error, made from the schemas of any API.

The error is as far out as the filter allows: without one it is that of the whole answer, with a topic that of
the topic, with a partition that of the partition. Where a version has no error there, it is that of each part
within. What a request names is looked for in the arrays of the same depth, in which responses repeat it.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkapy.faults.filter import PARTITION, Filter, TopicName
from kafkapy.network.error_finder import ERROR_CODES
from kafkapy.network.outbound import discard
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.schema import Field, Struct
from kafkapy.storage.disk.files import FileSlice


class Split(NamedTuple):
    """A request, or a part of one, without what gets the error, and the answer to that."""

    left: Any
    """None: nothing is left."""
    refused: Any
    """None: nothing is concerned."""


class Place(NamedTuple):
    """A part of an answer that has an error, or NONE."""

    made: Any
    struct: Struct


class ErrorAnswers:
    """Makes the answers of one error to requests of one version."""

    def __init__(self, code: ErrorCode, version: int, topic_name: TopicName) -> None:
        self._code = code
        self._version = version
        self._topic_name = topic_name

    # --- instead of an effect -------------------------------------------------------------------------------

    def split(self, request: Any, response_class: Any, concerned: Filter) -> Split:
        """A request without what the filter concerns, and the response to that.

        `request` stays as it is.
        """
        asked, root = schema_of(type(request)).root, schema_of(response_class).root
        return self._split(request, asked, response_class(), root, concerned)

    def _split(self, asked: Any, asked_struct: Struct, made: Any, struct: Struct, concerned: Filter) -> Split:
        left = concerned.within(asked, asked_struct, self._version, self._topic_name)
        if left is None:
            return Split(asked, None)
        self._repeat(asked, asked_struct, made, struct)
        if left.is_met and self._set_error(made, struct):
            return Split(None, made)
        kept, is_some_left = copy.copy(asked), False
        arrays = [each for each in self._fields(asked_struct) if each.is_array and _may_be_named(each)]
        for field in self._arrays_with_errors(struct):
            refused: list[Any] = []
            for array in arrays:
                elements = getattr(asked, array.name) or ()
                splits = [self._split_element(each, array, made, field, left) for each in elements]
                errors = [each.refused for each in splits if each.refused is not None]
                if errors:
                    refused += errors
                    some = [each.left for each in splits if each.left is not None]
                    setattr(kept, array.name, some)
                    is_some_left |= bool(some)
            setattr(made, field.name, refused)
            if refused:
                return Split(kept if is_some_left else None, made)
        return Split(asked, None)

    def _split_element(self, asked: Any, array: Field, made_in: Any, field: Field, left: Filter) -> Split:
        assert field.struct is not None
        made = getattr(sys.modules[type(made_in).__module__], field.struct.class_name)()
        if array.struct is not None:
            first = next(self._fields(array.struct))
            key = None if first.is_array else self._alike(first, field.struct)
            if key is not None:
                setattr(made, key.name, getattr(asked, first.name))
            return self._split(asked, array.struct, made, field.struct, left)
        plain = left.within_plain(asked, array)
        if plain is None or not plain.is_met:
            return Split(asked, None)
        key = self._alike(array, field.struct)
        if key is not None:
            setattr(made, key.name, asked)
        self._set_error(made, field.struct)
        return Split(None, made)

    def _repeat(self, asked: Any, asked_struct: Struct, made: Any, struct: Struct) -> None:
        """Give an element of the answer what its element of the request is known by."""
        by_name = {field.name: field for field in self._fields(asked_struct)}
        made_otherwise = self._arrays_with_errors(struct)
        for field in self._fields(struct):
            if field in made_otherwise:
                continue
            source = by_name.get(field.name)
            if source is None and not field.is_array:
                alike = (each for each in by_name.values() if not each.is_array and _is_alike(each, field))
                source = next(alike, None)
            if source is not None and _is_same(source, field):
                setattr(made, field.name, getattr(asked, source.name))

    def _alike(self, asked: Field, struct: Struct) -> Field | None:
        """The field of an answer's element by which it is known, as it is asked for by one value."""
        known = (
            field
            for field in self._fields(struct)
            if not field.is_array and field.type == asked.type and field.entity == asked.entity
        )
        return next((field for field in known if field.name not in (*ERROR_CODES, "error_message")), None)

    def join(self, response: Any, refused: Any) -> None:
        """Add the errors of a split request to the response to the rest."""
        self._join(response, refused, schema_of(type(response)).root)

    def _join(self, response: Any, refused: Any, struct: Struct) -> None:
        for field in self._arrays_with_errors(struct):
            assert field.struct is not None
            nested = self._arrays_with_errors(field.struct)
            plain = [each.name for each in self._fields(field.struct) if each not in nested]
            served = list(getattr(response, field.name) or ())
            for added in getattr(refused, field.name):
                same = (each for each in served if all(getattr(each, n) == getattr(added, n) for n in plain))
                known = next(same, None) if nested else None
                if known is None:
                    served.append(added)
                else:
                    self._join(known, added, field.struct)
            setattr(response, field.name, served)

    # --- in an answer ---------------------------------------------------------------------------------------

    def is_top(self, response_class: Any) -> bool:
        """Whether answers have an error for all that is asked."""
        return self._has_error(schema_of(response_class).root)

    def places(self, response: Any, concerned: Filter) -> list[Place]:
        """Where an answer has errors for what the filter concerns."""
        return list(self._places(response, schema_of(type(response)).root, concerned))

    def _places(self, made: Any, struct: Struct, concerned: Filter) -> Iterator[Place]:
        left = concerned.within(made, struct, self._version, self._topic_name)
        if left is None:
            return
        if left.is_met and self._has_error(struct):
            yield Place(made, struct)
            return
        for field in self._arrays_with_errors(struct):
            assert field.struct is not None
            for each in getattr(made, field.name) or ():
                yield from self._places(each, field.struct, left)

    def overwrite(self, places: list[Place]) -> None:
        """Put the error there, and nothing else."""
        for place in places:
            self._set_error(place.made, place.struct)
            self._empty(place.made, place.struct)

    def _empty(self, made: Any, struct: Struct) -> None:
        """Take away the records of an answer's element, and what is in its arrays."""
        for field in self._fields(struct):
            if field.type == "records":
                records = getattr(made, field.name)
                if isinstance(records, FileSlice):
                    discard((records,))
                setattr(made, field.name, b"")
        for field in self._arrays_with_errors(struct):
            assert field.struct is not None
            for each in getattr(made, field.name) or ():
                self._empty(each, field.struct)
            setattr(made, field.name, [])

    # --- the schemas ----------------------------------------------------------------------------------------

    def _set_error(self, made: Any, struct: Struct) -> bool:
        for field in self._fields(struct):
            if field.name in ERROR_CODES:
                setattr(made, field.name, self._code)
                return True
        return False

    def _fields(self, struct: Struct) -> Iterator[Field]:
        return (field for field in struct.fields if self._version in field.versions)

    def _arrays_with_errors(self, struct: Struct) -> list[Field]:
        return [
            field
            for field in self._fields(struct)
            if field.is_array and field.struct is not None and self._has_errors(field.struct)
        ]

    def _has_errors(self, struct: Struct) -> bool:
        return self._has_error(struct) or bool(self._arrays_with_errors(struct))

    def _has_error(self, struct: Struct) -> bool:
        return any(field.name in ERROR_CODES for field in self._fields(struct))


def _may_be_named(array: Field) -> bool:
    """Whether answers may repeat the elements of a request's array."""
    return array.struct is not None or array.type in ("string", "int32")


def _is_alike(asked: Field, answered: Field) -> bool:
    """Whether fields of other names mean the same: a topic, a group, a partition."""
    if asked.name in PARTITION:
        return answered.name in PARTITION
    return asked.entity is not None and (asked.entity, asked.type) == (answered.entity, answered.type)


def _is_same(asked: Field, answered: Field) -> bool:
    if answered.name in ERROR_CODES or (asked.type, asked.is_array) != (answered.type, answered.is_array):
        return asked.is_array and answered.is_array and _names(asked) == _names(answered) != ()
    return not asked.is_array and asked.struct is None


def _names(field: Field) -> tuple[str, ...]:
    return () if field.struct is None else tuple(each.name for each in field.struct.fields)
