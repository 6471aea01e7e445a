"""Reads typed values from a mapping that a user wrote.

A wrong type is reported in one line.
"""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kafkapy.errors import UserError
from kafkapy.log.position import milliseconds
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

T = TypeVar("T")

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|seconds?|minutes?|hours?|days?)")


class Fields:
    """The values of one mapping.

    `within` is the key of the mapping itself (`format`), which messages mention.
    """

    def __init__(self, values: object, known: Collection[str], *, within: str = "") -> None:
        self._prefix = f"{within}." if within else ""
        if not isinstance(values, Mapping):
            raise PipelineError(f"{within or 'a pipeline'}: expected keys and values, not {shown(values)}")
        for key in values:
            if key not in known:
                guess = did_you_mean(str(key), known) or f" (known: {', '.join(known)})"
                raise PipelineError(f"unknown key '{self._prefix}{key}'{guess}")
        self._values = values

    def _given(self, key: str) -> Any:
        return self._values.get(key)

    def error(self, key: str, problem: str) -> PipelineError:
        return PipelineError(f"{self._prefix}{key}: {problem}")

    def text(self, key: str) -> str | None:
        value = self._given(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
            raise self.error(key, f"expected text, not {shown(value)}")
        return str(value).strip()

    def required(self, key: str, example: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.error(key, f"is missing; for example '{key}: {example}'")
        return value

    def time(self, key: str) -> str | None:
        """A value that may be a time.

        YAML parses some times into a datetime; this returns text.
        """
        value = self._given(key)
        return value.isoformat() if isinstance(value, datetime.date) else self.text(key)

    def names(self, key: str) -> tuple[str, ...]:
        """The names in a string or a list of strings."""
        value = self._given(key)
        listed = [] if value is None else value if isinstance(value, list | tuple) else [value]
        for one in listed:
            if not isinstance(one, str) or not one.strip():
                raise self.error(key, f"expected a name or a list of names, not {shown(value)}")
        return tuple(one.strip() for one in listed)

    def positive(self, key: str) -> int | None:
        value = self._given(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value <= 0):
            raise self.error(key, f"expected a whole number above 0, not {shown(value)}")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self._given(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {shown(value)}")
        return default if value is None else value

    def options(self, key: str) -> dict[str, str]:
        """Options with their values as text, in the form of Java properties."""
        value = self._given(key)
        if value is None:
            return {}
        # The wrong value is not quoted: it may contain a secret.
        if not isinstance(value, Mapping):
            raise self.error(key, f"expected options and values, not {_kind(value)}")
        for name, one in value.items():
            if not isinstance(name, str) or not isinstance(one, str | int | float):
                raise self.error(key, f"expected {name}: VALUE, not {_kind(one)}")
        return {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}


def _kind(value: object) -> str:
    names = {type(None): "nothing", list: "a list", dict: "a mapping"}
    return names.get(type(value), "a text")


def shown(value: object) -> str:
    """A wrong value as messages quote it."""
    written = "nothing" if value is None else repr(value)
    return written if len(written) <= 60 else f"{written[:57]}..."


def within(key: str, read: Callable[[str], T], text: str) -> T:
    """Returns `read(text)`.

    An error is raised with `key` in its message.
    """
    try:
        return read(text)
    except PipelineError as error:
        raise PipelineError(f"{key}: {error}") from None


def seconds(text: str) -> float:
    """Parses a duration such as '30s', '500ms' or '5 minutes' into seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match or not float(match[1]):
        raise PipelineError(f"expected a time like 30s, 5m or 1h, not {shown(text)}")
    unit = match[2] if match[2] in _UNITS else match[2][0]
    return float(match[1]) * _UNITS[unit]


def words(text: str) -> list[str]:
    """The words of a command, which may be quoted as in a shell."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise PipelineError(f"expected a command, not {shown(text)}: {str(error).lower()}") from None


def timestamp_ms(text: str) -> int:
    """Parses an ISO timestamp or epoch milliseconds into epoch milliseconds.

    A timestamp without a time zone is in UTC, as in Kafka's tools.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return milliseconds("time", text)
    except UserError:
        raise PipelineError(
            f"expected a time like 2025-01-31T12:00:00Z or epoch milliseconds, not {shown(text)}"
        ) from None
