"""Frees long messages in pieces.

To free the objects of a long message takes too long for one piece (FREED_AT_ONCE, loop/turns.py), in a thread
too, which keeps the GIL meanwhile. So a list holds the elements of all arrays of a message, those of inner
arrays first. When the message is gone, elements are removed from the end of the list: an outer element is
freed before the inner ones, which the list still holds. A handler may keep parts of a request: they are not
changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from kafkapy.loop.turns import FREED_AT_ONCE
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Struct


def elements_of(message: TopMessage) -> list[Any]:
    """Return the elements of all arrays of a message, each after those within it."""
    elements: list[Any] = []
    _collect(message, schema_of(type(message)).root, elements)
    return elements


def _collect(message: Message, struct: Struct, elements: list[Any]) -> None:
    for field in struct.fields:
        if not field.is_array and field.struct is None:
            continue
        value = getattr(message, field.name)
        if not value:
            continue
        if field.struct is not None and any(each.is_array or each.struct for each in field.struct.fields):
            for each in value if field.is_array else [value]:
                _collect(each, field.struct, elements)
        if field.is_array:
            elements += value


def free_response(response: TopMessage) -> None:
    """Free what the arrays of a response hold, which nobody needs any more: in a thread."""
    elements = elements_of(response)
    for field in schema_of(type(response)).root.fields:
        if field.is_array and (values := getattr(response, field.name)):
            values.clear()
    while elements:
        del elements[-FREED_AT_ONCE:]


class Freeing:
    """The elements of handled requests that the event loop frees, some in each of its rounds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: deque[list[Any]] = deque()

    def free(self, elements: list[Any]) -> None:
        """Take the elements of a request that was handled, and free them from now on."""
        if not self._held:
            self._loop.call_soon(self._free_some)
        self._held.append(elements)

    def _free_some(self) -> None:
        elements = self._held[0]
        del elements[-FREED_AT_ONCE:]
        if not elements:
            self._held.popleft()
        if self._held:
            self._loop.call_soon(self._free_some)
