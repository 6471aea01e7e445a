"""Configurations of parts of the broker: their fields are settings of the broker.

A field names its setting, and has its default from the table of settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, Final, TypeVar

from kafkapy.configs.keys import broker_key

C = TypeVar("C")

_SETTING: Final = "setting"
_CONVERT: Final = "convert"


def setting(name: str, convert: Callable[[Any], Any] = lambda value: value) -> Any:
    """A field whose value is `convert` of the value of this setting."""

    def default() -> Any:
        key = broker_key(name)
        return convert(key.parse(key.default))

    return field(default_factory=default, metadata={_SETTING: name, _CONVERT: convert})


def part_config(config_class: type[C], config: Mapping[str, Any]) -> C:
    """The configuration of a part, each of whose fields is a setting, as the broker has it."""
    values = {
        each.name: each.metadata[_CONVERT](config[each.metadata[_SETTING]])
        for each in fields(config_class)  # type: ignore[arg-type]
    }
    return config_class(**values)
