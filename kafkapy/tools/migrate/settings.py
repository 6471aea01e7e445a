"""Apache Kafka's settings as this broker keeps them, and settings for topics without any.

If a topic's settings are unknown, it gets those of a log that is found without metadata. A topic is compacted
if Kafka's `cleaner-offset-checkpoint` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from kafkapy.configs.brokers import MIN_INSYNC_REPLICAS
from kafkapy.configs.keys import (
    UNKNOWN,
    ConfigError,
    ConfigKey,
    broker_key,
    broker_keys,
    client_metrics_keys,
    group_keys,
    topic_keys,
)
from kafkapy.configs.kind import ALL_BROKERS
from kafkapy.configs.quotas import quota_text
from kafkapy.configs.topics import guessed_settings
from kafkapy.configs.unsupported import check_supported
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.quotas import ClientQuotas, QuotaEntity, user_above
from kafkapy.protocol.topic_names import is_internal
from kafkapy.tools.migrate.acls import unknown_entries

_TIERED: Final = "remote.storage.enable"
_INTERNAL: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 << 20)}
"""The settings that Kafka gives its internal topics, if they concern log files."""


def topic_settings(name: str, found: Mapping[str, str], not_carried: list[str]) -> dict[str, str]:
    """Return the settings of a topic that this broker supports.

    The others are added to `not_carried`, in words.
    """
    taken: dict[str, str] = {}
    for key, value in found.items():
        if key == _TIERED and value == "true":
            not_carried.append(
                f"records of {name} in tiered storage: only those in the directory are imported"
            )
        elif key == _TIERED:
            continue
        elif reason := _refusal(topic_keys().get(key), value):
            not_carried.append(f"{name}: {key}={value} ({reason})")
        else:
            taken[key] = value
    return taken


def group_settings(
    found: Mapping[str, Mapping[str, str]], not_carried: list[str]
) -> dict[str, dict[str, str]]:
    """Return the settings of groups that this broker supports; add the others to `not_carried`."""
    return _settings_of("group", group_keys(), found, not_carried)


def client_metrics_settings(
    found: Mapping[str, Mapping[str, str]], not_carried: list[str]
) -> dict[str, dict[str, str]]:
    """Return the settings of subscriptions to metrics of clients, as `group_settings` does."""
    return _settings_of("client metrics", client_metrics_keys(), found, not_carried)


def _settings_of(
    what: str,
    keys: Mapping[str, ConfigKey],
    found: Mapping[str, Mapping[str, str]],
    not_carried: list[str],
) -> dict[str, dict[str, str]]:
    taken: dict[str, dict[str, str]] = {}
    for name, configs in found.items():
        for key, value in configs.items():
            if reason := _refusal(keys.get(key), value):
                not_carried.append(f"{what} {name}: {key}={value} ({reason})")
            else:
                taken.setdefault(name, {})[key] = value
    return taken


def kept_quotas(found: Mapping[QuotaEntity, Mapping[str, float]]) -> tuple[ClientQuotas, int]:
    """Return the quotas that this broker supports, and how many others there are."""
    nodes: dict[QuotaEntity, Mapping[str, str] | None] = {}
    unknown = 0
    for entity, values in found.items():
        texts = {name: quota_text(name, value) for name, value in values.items()}
        known = {name: text for name, text in texts.items() if text is not None}
        unknown += len(texts) - len(known)
        if known:
            nodes[entity] = known
            if len(entity) > 1:
                nodes.setdefault(user_above(entity), {})
    return ClientQuotas().with_changes(nodes), unknown


def exported_image(image: MetadataImage, left: list[str], *, zookeeper: bool) -> MetadataImage:
    """Return `image` with the settings that Kafka 3.9 has; add the others to `left`, in words.

    min.insync.replicas is left out if it has the default value: Kafka would prefer it to the value in
    server.properties.
    """
    if image.group_configs:
        left.append(f"settings of groups ({len(image.group_configs)})")
    if zookeeper and image.client_metrics_configs:
        left.append(f"subscriptions to metrics of clients ({len(image.client_metrics_configs)})")
    if not zookeeper and (unknown := unknown_entries(image.acls)):
        left.append(f"access control entries that this release does not know ({unknown})")
    everyone = dict(image.broker_configs.get(ALL_BROKERS, {}))
    if everyone.get(MIN_INSYNC_REPLICAS) == broker_keys()[MIN_INSYNC_REPLICAS].default:
        del everyone[MIN_INSYNC_REPLICAS]
    return replace(
        image.with_broker_config(ALL_BROKERS, everyone),
        group_configs={},
        client_metrics_configs={} if zookeeper else image.client_metrics_configs,
    )


def broker_settings(
    found: Mapping[str, Mapping[str, str]], node_id: int, not_carried: list[str]
) -> dict[str, dict[str, str]]:
    """Return the dynamic settings of all brokers ("") and of this one that it supports."""
    taken: dict[str, dict[str, str]] = {}
    for name, configs in found.items():
        if name not in ("", str(node_id)):
            continue
        for key, value in configs.items():
            setting = broker_key(key)
            fixed = key in broker_keys() and not setting.dynamic
            if fixed or (setting.sensitive and setting.type != UNKNOWN):
                not_carried.append(f"broker setting {key} (set it in server.properties)")
            elif reason := _refusal(setting, value):
                not_carried.append(f"broker setting {key}={value} ({reason})")
            else:
                taken.setdefault(name, {})[key] = value
    return taken


def unknown_settings(name: str, cleaned: Iterable[str]) -> dict[str, str]:
    """Return settings for a topic whose own settings are unknown.

    `cleaned` are the topics that Kafka compacted.
    """
    return dict(_INTERNAL) if is_internal(name) else guessed_settings(compacted=name in cleaned)


def _refusal(key: ConfigKey | None, value: str) -> str | None:
    """Return why this broker does not take a setting; None if it does."""
    if key is None:
        return "unknown setting"
    try:
        key.parse(value)
        check_supported(key, value)
    except ConfigError as error:
        return str(error).partition(": ")[2]
    return None
