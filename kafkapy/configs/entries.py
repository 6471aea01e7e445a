"""Settings as DescribeConfigs shows them: the value in effect, its source and its synonyms.

A *synonym* is a place that gives a setting a value: the topic or group, the broker's own dynamic settings,
those of all brokers, the file, the default. Some settings are also given by other names: log.retention.ms by
.minutes and .hours, the setting of one listener by that of all listeners. Synonyms are listed in order of
precedence. The first one is the source of the setting.

Source: Kafka's ConfigHelper, DynamicBrokerConfig.brokerConfigSynonyms.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.configs.config import FALLBACKS, BrokerConfig, broker_synonym
from kafkapy.configs.docs import documentation
from kafkapy.configs.keys import (
    UNKNOWN,
    ConfigKey,
    broker_key,
    broker_keys,
    client_metrics_keys,
    group_keys,
    listener_setting,
    topic_keys,
    value_text,
)
from kafkapy.configs.kind import ALL_BROKERS
from kafkapy.metadata.cache import MetadataCache


class Source(IntEnum):
    """Where a value comes from (DescribeConfigsResponse.ConfigSource)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


TYPES: Final = {
    UNKNOWN: 0,
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}
"""DescribeConfigsResponse.ConfigType."""


_SHOWN_WHERE_SET: Final = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Settings that Kafka has only as dynamic settings, and shows without a default (DynamicConfig.Broker)."""

_IDS: Final = ("broker.id", "node.id")
"""The two names of one setting: if one is given, both are shown with its value."""


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """One setting; `value` is None if it is null or must not be shown."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: int
    synonyms: list[Synonym]
    documentation: str | None


class ConfigDescriber:
    """Describes the settings of topics, groups, client metrics and this broker."""

    def __init__(self, config: BrokerConfig, cache: MetadataCache, node_id: int) -> None:
        self._config = config
        self._cache = cache
        self._node_id = node_id
        self._static = dict(config.originals)
        """The settings with which the broker was started."""
        if any(name in self._static for name in _IDS):
            self._static.update(dict.fromkeys(_IDS, str(node_id)))
        self._plain_topic: dict[str, ConfigEntry] = {}
        """The settings of a topic that sets none, computed on first use. CreateTopics answers have them."""
        self._broker: tuple[Mapping[str, Mapping[str, str]], list[ConfigEntry]] | None = None
        """The settings of this broker, and the dynamic ones in the metadata of which they were computed."""
        config.on_change(self._forget)

    def _forget(self) -> None:
        """Compute again what was computed from the settings in effect."""
        self._plain_topic.clear()
        self._broker = None

    def _places(self, name: str) -> list[Synonym]:
        """The places that give the broker setting `name` a value, under whichever name.

        The first one is in effect.
        """
        names = _names(name)
        dynamic = self._cache.image.broker_configs
        levels = (
            (Source.DYNAMIC_BROKER, dynamic.get(str(self._node_id), {})),
            (Source.DYNAMIC_DEFAULT_BROKER, dynamic.get(ALL_BROKERS, {})),
            (Source.STATIC_BROKER, self._static),
        )
        found = [
            Synonym(each, None if broker_key(each).sensitive else level[each], source)
            for source, level in levels
            for each in names
            if each in level
        ]
        return found + [
            Synonym(each, default, Source.DEFAULT)
            for each in names
            if each not in _SHOWN_WHERE_SET and (default := self._config.default(each)) is not None
        ]

    def topic_entries(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """All settings of a topic that sets `overrides`, by name."""
        if not self._plain_topic:
            defaults = self._config.topic_defaults()
            for name, key in sorted(topic_keys().items()):
                broker_name = broker_synonym(name)
                places = [] if broker_name is None else self._places(broker_name)
                # Not parsed: a broker setting may have values that the topic setting may not.
                entry = _entry(key, defaults.get(name), _from(broker_name, places), read_only=False)
                # log.retention.hours may be the source of retention.ms, but is not listed as its synonym.
                self._plain_topic[name] = entry._replace(
                    source=places[0].source if places else Source.DEFAULT
                )
        entries = self._plain_topic
        if overrides:
            entries = dict(entries)
            for name in overrides:
                entries[name] = _override(entries[name], topic_keys()[name], overrides, Source.TOPIC)
        return list(entries.values())

    def broker_entries(self) -> list[ConfigEntry]:
        """All settings of this broker, by name, with unknown ones."""
        dynamic = self._cache.image.broker_configs
        if self._broker is not None and self._broker[0] is dynamic:
            return self._broker[1]
        given = {*self._static, *dynamic.get(ALL_BROKERS, {}), *dynamic.get(str(self._node_id), {})}
        entries = []
        for name in sorted((broker_keys().keys() - _SHOWN_WHERE_SET) | given):
            key = broker_key(name)
            value = value_text(key.parse(self._text(name)))
            entries.append(_entry(key, value, _from(name, self._places(name)), read_only=not key.dynamic))
        self._broker = dynamic, entries
        return entries

    def _text(self, name: str) -> str | None:
        """A setting as it was written; the broker's id is known even if it is not set."""
        return str(self._node_id) if name in _IDS else self._config.text(name)

    def cluster_entries(self) -> list[ConfigEntry]:
        """The dynamic settings of all brokers, by name."""
        entries = []
        for name, value in sorted(self._cache.image.broker_configs.get(ALL_BROKERS, {}).items()):
            synonyms = [s for s in self._places(name) if s.source is Source.DYNAMIC_DEFAULT_BROKER]
            key = broker_key(name)
            read_only = name not in broker_keys()
            entries.append(_entry(key, value, synonyms, read_only=read_only))
        return entries

    def group_entries(self, group: str) -> list[ConfigEntry]:
        """All settings of a group, by name; the group need not exist."""
        overrides = self._cache.image.group_configs.get(group, {})
        entries = []
        for name, key in sorted(group_keys().items()):
            if key.synonyms:
                places = self._places(key.synonyms[0])
            else:
                places = [Synonym(name, key.default, Source.DEFAULT)]
            entry = _entry(key, value_text(key.parse(places[0].value)), places, read_only=False)
            entries.append(_override(entry, key, overrides, Source.GROUP))
        return entries

    def client_metrics_entries(self, subscription: str) -> list[ConfigEntry]:
        """All settings of a subscription to metrics of clients, by name."""
        overrides = self._cache.image.client_metrics_configs.get(subscription, {})
        return [
            _override(_entry(key, key.default, [], read_only=False), key, overrides, Source.CLIENT_METRICS)
            for _, key in sorted(client_metrics_keys().items())
        ]


def _override(
    entry: ConfigEntry, key: ConfigKey, overrides: Mapping[str, str], source: Source
) -> ConfigEntry:
    """The entry with the resource's own value, if it sets one."""
    if key.name not in overrides:
        return entry
    value = value_text(key.parse(overrides[key.name]))
    synonyms = [Synonym(key.name, value, source), *entry.synonyms]
    return entry._replace(value=value, source=source, synonyms=synonyms)


def _entry(key: ConfigKey, value: str | None, synonyms: list[Synonym], *, read_only: bool) -> ConfigEntry:
    return ConfigEntry(
        key.name,
        None if key.sensitive else value,
        synonyms[0].source if synonyms else Source.DEFAULT,
        read_only,
        key.sensitive,
        TYPES[key.type],
        synonyms,
        documentation(key.name),
    )


def _from(name: str | None, places: list[Synonym]) -> list[Synonym]:
    """The synonyms to show: as in Kafka, from the first one that has the setting's own name."""
    start = next((index for index, place in enumerate(places) if place.name == name), len(places))
    return places[start:]


def _names(name: str) -> tuple[str, ...]:
    """The names that can give a setting its value, in order of precedence."""
    if (setting := listener_setting(name)) is not None:
        return (name, setting)
    return _FALLBACK_NAMES.get(name, (name,))


def _fallback_names() -> dict[str, tuple[str, ...]]:
    """The names of settings that take each other's values, by each of them."""
    found: dict[str, tuple[str, ...]] = {}
    for first, fallbacks in FALLBACKS.items():
        names = (first, *(other for other, _ in fallbacks))
        # Not for log.flush.scheduler.interval.ms: Kafka shows no synonym of it.
        for name in names[:1] if first == "log.flush.interval.ms" else names:
            found.setdefault(name, names)
    return found


_FALLBACK_NAMES: Final = _fallback_names()
