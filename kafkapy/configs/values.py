"""Checks the values of settings, with the messages of Kafka's ConfigDef."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkapy.configs.keys import RANGE, ConfigError, ConfigKey, topic_keys
from kafkapy.protocol.errors import ErrorCode, KafkaError

_HIDDEN: Final = "[hidden]"


def check_topic_configs(configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Refuse settings that a topic cannot have.

    `defaults` are the broker's values of the settings that `configs` leaves out.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    for name in configs:
        if name not in topic_keys():
            raise _invalid(f"Unknown topic config name: {name}")
    for name, text in configs.items():
        message = value_error(topic_keys()[name], text)
        if message is not None:
            raise _invalid(message)

    def value(name: str) -> Any:
        return topic_keys()[name].parse(configs.get(name, defaults.get(name)))

    if value("min.compaction.lag.ms") > value("max.compaction.lag.ms"):
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({value('min.compaction.lag.ms')})"
            f" > max.compaction.lag.ms ({value('max.compaction.lag.ms')})"
        )
    if value("remote.storage.enable"):
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def value_error(key: ConfigKey, text: str) -> str | None:
    """The error of a value; None if it is valid."""
    try:
        key.parse(text)
    except ConfigError:
        if key.type == "LIST" and "" in (item.strip() for item in text.split(",")):
            return f"Configuration '{key.name}' values must not be empty."
        shown, reason = _reason(key, text)
        return f"Invalid value {_HIDDEN if key.sensitive else shown} for configuration {key.name}: {reason}"
    return None


def _reason(key: ConfigKey, text: str) -> tuple[str, str]:
    """The part of a wrong value to show, and the reason."""
    if key.type == "BOOLEAN":
        return text, "Expected value to be either true or false"
    bounds = RANGE.fullmatch(key.valid)
    if key.type in ("SHORT", "INT", "LONG", "DOUBLE"):
        number = _number(key, text)
        if number is None or bounds is None:
            return text, f"Not a number of type {key.type}"
        low, high, other = bounds.groups()
        if other is not None:
            return str(number), f"Value must be between {low} and {high} or equal to {other}"
        if number < float(low):
            return str(number), f"Value must be at least {low}"
        return str(number), f"Value must be no more than {high}"
    items = [item.strip() for item in (text.split(",") if key.type == "LIST" else [text])]
    if key.valid.startswith("[partitionId]"):
        return (
            f"[{', '.join(items)}]",
            f"{key.name} must be the literal '*' or a list of replicas in the following format: {key.valid}",
        )
    if key.valid.startswith("["):
        allowed = key.valid[1:-1].split(", ")
        wrong = next((item for item in items if item not in allowed), text)
        return wrong, f"String must be one of: {', '.join(allowed)}"
    return text, f"Value must be {key.valid}"


def _number(key: ConfigKey, text: str) -> int | float | None:
    """The number in `text`, allowed or not; None if it is not a number of the key's type."""
    try:
        return ConfigKey(key.name, key.type, None, "", False, False, ()).parse(text)  # type: ignore[no-any-return]
    except ConfigError:
        return None
