"""Configurations of parts of the broker: their fields are settings of the broker.

A field names its setting, and has its default from the table of settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from typing import Any, Final, TypeVar

from kafkapy.configs.keys import broker_key

C = TypeVar("C")

_READ: Final = "read"
"""A function from the broker's configuration to the value of the field."""


def setting(name: str, convert: Callable[[Any], Any] = lambda value: value) -> Any:
    """A field whose value is `convert` of the value of this setting."""
    return field(
        default_factory=lambda: convert(_default(name)),
        metadata={_READ: lambda config: convert(config[name])},
    )


def settings(names: Callable[[], Iterable[str]]) -> Any:
    """A field with the values of these settings, by name."""
    return field(
        default_factory=lambda: {name: _default(name) for name in names()},
        metadata={_READ: lambda config: {name: config[name] for name in names()}},
    )


def _default(name: str) -> Any:
    key = broker_key(name)
    return key.parse(key.default)


def part_config(config_class: type[C], config: Mapping[str, Any]) -> C:
    """The configuration of a part, from that of the broker: all its fields are settings."""
    read = {each.name: each.metadata[_READ](config) for each in fields(config_class)}  # type: ignore[arg-type]
    return config_class(**read)
