"""Settings of Apache Kafka's as this broker takes them, and what becomes of those that are not found.

Topics whose settings nobody can tell get those of logs that are found without metadata. A topic that
Kafka's cleaner has worked on (its `cleaner-offset-checkpoint` names it) is a compacted one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.config_keys import ConfigError, ConfigKey, broker_keys, topic_keys
from kafkapy.controller.adoption import guessed_settings
from kafkapy.topic_names import is_internal
from kafkapy.unsupported import check_supported

_TIERED: Final = "remote.storage.enable"
_INTERNAL: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 << 20)}
"""What Kafka gives its internal topics, as far as it matters to files."""


def topic_settings(name: str, found: Mapping[str, str], not_carried: list[str]) -> dict[str, str]:
    """The settings of a topic that it can have here; the others are added to `not_carried`, in words."""
    taken: dict[str, str] = {}
    for key, value in found.items():
        if key == _TIERED and value == "true":
            not_carried.append(
                f"what {name} has in tiered storage: only what is in the directory is taken over"
            )
        elif key == _TIERED:
            continue
        elif reason := _refusal(topic_keys().get(key), value):
            not_carried.append(f"{name}: {key}={value} ({reason})")
        else:
            taken[key] = value
    return taken


def broker_settings(
    found: Mapping[str, Mapping[str, str]], node_id: int, not_carried: list[str]
) -> dict[str, dict[str, str]]:
    """The dynamic settings of all brokers ("") and of this one that it can have here."""
    taken: dict[str, dict[str, str]] = {}
    for name, configs in found.items():
        if name not in ("", str(node_id)):
            continue
        for key, value in configs.items():
            setting = broker_keys().get(key)
            if setting is not None and (setting.sensitive or not setting.dynamic):
                not_carried.append(f"broker setting {key} (set it in the file)")
            elif reason := _refusal(setting, value):
                not_carried.append(f"broker setting {key}={value} ({reason})")
            else:
                taken.setdefault(name, {})[key] = value
    return taken


def unknown_settings(name: str, cleaned: Iterable[str]) -> dict[str, str]:
    """Settings for a topic whose own cannot be known; `cleaned` are the topics that Kafka compacted."""
    return dict(_INTERNAL) if is_internal(name) else guessed_settings(compacted=name in cleaned)


def _refusal(key: ConfigKey | None, value: str) -> str | None:
    """Why a setting cannot be had here."""
    if key is None:
        return "not known here"
    try:
        key.parse(value)
        check_supported(key, value)
    except ConfigError as error:
        return str(error).partition(": ")[2]
    return None
