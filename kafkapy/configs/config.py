"""The broker's settings by Kafka's names, from a file, `--set` and dynamic changes.

`config["log.retention.ms"]` is the typed value in effect: the dynamic value, else the configured one, else
the default. Some settings fall back to others, as in Kafka's KafkaConfig: log.retention.ms to .minutes, then
to .hours; log.roll.ms to .hours; log.dirs to log.dir. `config.text(name)` is the setting as it was written,
for DescribeConfigs.

Unknown names are kept and have no effect, as in Kafka: a file may have settings of another program.

Some settings mean something only in a cluster, and some have other defaults there (`clustered`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafkapy.configs.cluster_settings import check_cluster_settings
from kafkapy.configs.connection_overrides import parse_overrides
from kafkapy.configs.keys import (
    UNKNOWN,
    ConfigError,
    ConfigKey,
    broker_key,
    broker_keys,
    cluster_defaults,
    topic_keys,
    value_text,
)
from kafkapy.configs.listeners import Listener, check_listeners, parse_listeners, parse_protocol_map
from kafkapy.configs.properties import read_properties
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.configs.unsupported import IGNORED_NAMES, check_supported, require_alone, without_effect

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
NO_LIMIT: Final = 2**63 - 1
MISSPELT: Final = 0.8
"""The similarity (difflib) from which an unknown name is taken for a misspelt known one."""
LONGEST_MISSPELT: Final = 100
"""The longest name that is compared with the known ones, which are all much shorter."""
CANDIDATES: Final = 8
"""The number of known names that are compared in full: those with the longest common start and end."""
CLEANER_THREAD_BYTES: Final = 1024 * 1024
"""The part of log.cleaner.dedupe.buffer.size of each cleaner thread must be larger than this."""

FALLBACKS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", HOUR_MS),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", HOUR_MS),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}
"""For a setting that is null, the settings it falls back to, each with a factor.

The first of them that is set applies; if none is set, the default of the last one.
"""

_TOPIC_SYNONYMS: Final = {
    "retention.ms": "log.retention.ms",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "flush.ms": "log.flush.interval.ms",
}
"""Broker settings that the table of topic settings leaves out, as they fall back to others."""
REBALANCE_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"

_GROUP_LIMITS: Final = (
    (
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    (
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    (
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    (
        "group.share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    (
        "group.share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    (
        "group.share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    (
        "group.share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    (
        "group.share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    (
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    (
        "group.streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    (
        "group.streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    (
        "group.streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
)
"""Settings of groups, each with its lower and upper limit."""
_HEARTBEATS_AND_SESSIONS: Final = (
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
)


def broker_synonym(topic_setting: str) -> str | None:
    """The broker setting that is the default of a topic setting; None if there is none."""
    key = topic_keys()[topic_setting]
    if key.synonyms:
        return key.synonyms[0]
    if topic_setting in _TOPIC_SYNONYMS:
        return _TOPIC_SYNONYMS[topic_setting]
    return topic_setting if topic_setting in broker_keys() else None


def _default(key: ConfigKey, *, clustered: bool) -> str | None:
    return cluster_defaults().get(key.name, key.default) if clustered else key.default


@cache
def _default_values(*, clustered: bool) -> Mapping[str, Any]:
    """The typed defaults of all settings that need not be set."""
    keys = broker_keys().values()
    return {
        key.name: key.parse(_default(key, clustered=clustered)) for key in keys if key.default != "(required)"
    }


class BrokerConfig(Mapping[str, Any]):
    """The settings in effect.

    Reading one is a dictionary lookup.
    """

    def __init__(self, originals: Mapping[str, str], *, clustered: bool = False) -> None:
        """Raises ConfigError for a wrong setting."""
        self.originals = dict(originals)
        """The configured settings as text, by name."""
        self.clustered = clustered or bool(originals.get("zookeeper.connect", "").strip())
        """Whether the broker shares the metadata tree with others."""
        self._dynamic: dict[str, str] = {}
        self._listening: list[Callable[[], object]] = []
        for name, text in self.originals.items():
            check_supported(broker_key(name), text, clustered=self.clustered)
        self._values = self._resolve()
        self._validate()

    @classmethod
    def from_properties(
        cls,
        source: Path | Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        clustered: bool = False,
    ) -> BrokerConfig:
        """The settings of a file or mapping; `overrides` have precedence.

        Raises:
            ConfigError: a setting is wrong, or the name of an override looks misspelt.
        """
        for name in overrides or ():
            _check_spelling(name)
        if isinstance(source, Path):
            source = given_properties(source)
        return cls({**(source or {}), **(overrides or {})}, clustered=clustered)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str) -> str | None:
        """The setting as it was written, in a dynamic change or in the file; else its default.

        It does not fall back to other settings.
        """
        if name in self._dynamic:
            return self._dynamic[name]
        return self.originals[name] if name in self.originals else self.default(name)

    def default(self, name: str) -> str | None:
        """The default of a setting, as text."""
        return _default(broker_key(name), clustered=self.clustered)

    def set_dynamic(self, values: Mapping[str, str]) -> None:
        """Replace the dynamic settings, and call what `on_change` was given.

        Raises:
            ConfigError: a setting is wrong or contradicts another; nothing has changed.
        """
        previous = self._dynamic, self._values
        try:
            self._dynamic = dict(values)
            self._values = self._resolve()
            self._validate()
        except ConfigError:
            self._dynamic, self._values = previous
            raise
        for call in self._listening:
            call()

    def on_change(self, call: Callable[[], object]) -> None:
        """Have `call()` called after each change of dynamic settings."""
        self._listening.append(call)

    @property
    def node_id(self) -> int:
        """node.id, else broker.id; -1 if neither is set."""
        node_id: int = self["node.id"]
        return node_id if node_id >= 0 else int(self["broker.id"])

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """The log directories."""
        return tuple(Path(directory) for directory in self["log.dirs"])

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners, without KRaft's controller listeners: there is no quorum."""
        return self._broker_listeners("listeners")

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener to which other brokers connect."""
        name: str = self["inter.broker.listener.name"] or self["security.inter.broker.protocol"]
        return name.upper()

    @property
    def inter_broker_protocol(self) -> SecurityProtocol:
        """The security protocol by which other brokers connect to a broker of a cluster."""
        name = self.inter_broker_listener
        return next(each.protocol for each in self.listeners if each.name == name)

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The advertised listeners that are set; port 0 stands for the listener's own port."""
        return self._broker_listeners("advertised.listeners")

    def without_effect(self) -> list[str]:
        """The configured settings that this broker accepts without effect."""
        changed = (
            name
            for name in self.originals
            if broker_key(name).type != UNKNOWN and self.text(name) not in ("", self.default(name))
        )
        return without_effect(changed, clustered=self.clustered)

    def unknown(self) -> list[str]:
        """The configured settings with unknown names."""
        return [name for name in self.originals if broker_key(name).type == UNKNOWN]

    def topic_defaults(self) -> dict[str, str]:
        """The settings of a topic that overrides none, as text."""
        defaults = {}
        for name, key in topic_keys().items():
            synonym = broker_synonym(name)
            value = key.default if synonym is None else value_text(self[synonym])
            if value is not None:
                defaults[name] = value
        return defaults

    def _broker_listeners(self, setting: str) -> tuple[Listener, ...]:
        controllers = {name.upper() for name in self["controller.listener.names"]}
        protocols = parse_protocol_map(self["listener.security.protocol.map"])
        return tuple(
            replace(listener, protocol=protocols.get(listener.name, listener.protocol))
            for listener in parse_listeners(setting, self[setting] or ())
            if listener.name not in controllers
        )

    def _resolve(self) -> dict[str, Any]:
        texts = {**self.originals, **self._dynamic}
        values = dict(_default_values(clustered=self.clustered))
        for name, text in texts.items():
            value = broker_key(name).parse(text)
            if name in values:
                values[name] = value
        for name, fallbacks in FALLBACKS.items():
            if values[name] is None:
                values[name] = next(
                    (values[other] * factor for other, factor in fallbacks if other in texts),
                    values[fallbacks[-1][0]] * fallbacks[-1][1],
                )
        if values["log.retention.ms"] < 0:
            values["log.retention.ms"] = -1
        if values["log.flush.interval.ms"] < 0:
            values["log.flush.interval.ms"] = NO_LIMIT
        if values["log.dirs"] is None:
            values["log.dirs"] = values["log.dir"]
        return values

    def _validate(self) -> None:
        if "broker" not in self["process.roles"]:
            raise ConfigError("process.roles: a broker is needed; there is no separate controller")
        if self["log.retention.ms"] == 0:
            raise self._wrong("log.retention.ms", "must be -1, for no limit, or at least 1")
        self._require_at_least("log.roll.ms", 1)
        self._require_at_least("log.roll.jitter.ms", 0)
        self._validate_cleaner()
        self._validate_connection_limits()
        if not self["log.dirs"] or not all(self["log.dirs"]):
            raise ConfigError("log.dirs: name at least one directory, without empty entries")
        limit = self["queued.max.request.bytes"]
        if 0 < limit < self["socket.request.max.bytes"]:
            raise ConfigError(
                f"queued.max.request.bytes={limit}: must be -1 or at least socket.request.max.bytes"
            )
        if self["group.min.session.timeout.ms"] > self["group.max.session.timeout.ms"]:
            raise ConfigError("group.min.session.timeout.ms: must not be above group.max.session.timeout.ms")
        self._validate_ids()
        self._validate_groups()
        check_listeners(
            self.listeners,
            self.advertised_listeners,
            parse_protocol_map(self["listener.security.protocol.map"]),
        )
        if self.originals.get("inter.broker.listener.name") and self.originals.get(
            "security.inter.broker.protocol"
        ):
            raise ConfigError(
                "inter.broker.listener.name, security.inter.broker.protocol: both say where other brokers"
                " connect; set one of them"
            )
        if self.clustered:
            names = [listener.name for listener in self.listeners]
            check_cluster_settings(self, self.inter_broker_listener, names)
        else:
            require_alone(self)

    def _validate_ids(self) -> None:
        broker_id, node_id = self["broker.id"], self["node.id"]
        if broker_id < -1:
            raise self._wrong("broker.id", "expected at least -1, with which the broker chooses its id")
        if -1 not in (broker_id, node_id) and broker_id != node_id:
            raise self._wrong("broker.id", f"must be the same as node.id ({node_id}); set one of them")

    def _validate_groups(self) -> None:
        """Check the settings of groups whose coordinator makes the assignments."""
        for name, low, high in _GROUP_LIMITS:
            if not self[low] <= self[name] <= self[high]:
                raise self._wrong(name, f"must be between {low} and {high} ({self[low]} to {self[high]})")
        for heartbeat, session in _HEARTBEATS_AND_SESSIONS:
            if self[heartbeat] >= self[session]:
                raise self._wrong(heartbeat, f"must be less than {session}")
        standbys, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
        if self[standbys] > self[most]:
            raise self._wrong(standbys, f"must not be above {most} ({self[most]})")
        if self["group.share.max.share.sessions"] < self["group.share.max.size"]:
            raise self._wrong("group.share.max.share.sessions", "must be at least group.share.max.size")
        if "classic" not in self[REBALANCE_PROTOCOLS]:
            raise self._wrong(REBALANCE_PROTOCOLS, "must have classic, which cannot be disabled")

    def _validate_cleaner(self) -> None:
        self._require_at_least("log.cleaner.threads", 1)
        if self["log.cleaner.dedupe.buffer.size"] // self["log.cleaner.threads"] <= CLEANER_THREAD_BYTES:
            raise self._wrong(
                "log.cleaner.dedupe.buffer.size",
                f"must be above {CLEANER_THREAD_BYTES} for each of log.cleaner.threads "
                f"({self['log.cleaner.threads']})",
            )
        if self["log.cleaner.io.buffer.load.factor"] <= 0:
            raise self._wrong("log.cleaner.io.buffer.load.factor", "must be above 0")

    def _validate_connection_limits(self) -> None:
        """Refuse limits that allow no connection at all: nobody could connect to change them."""
        self._require_at_least("max.connections", 1)
        self._require_at_least("max.connection.creation.rate", 1)
        if (
            not parse_overrides(self["max.connections.per.ip.overrides"])
            and not self["max.connections.per.ip"]
        ):
            raise self._wrong(
                "max.connections.per.ip",
                "must be at least 1 where max.connections.per.ip.overrides is not set",
            )

    def _require_at_least(self, name: str, low: int) -> None:
        if self[name] < low:
            raise self._wrong(name, f"must be at least {low}")

    def _wrong(self, name: str, reason: str) -> ConfigError:
        """The error for the value of `name`; it names the setting that was in fact set."""
        names = (name, *(other for other, _ in FALLBACKS.get(name, ())))
        written = next((each for each in names if each in self._dynamic or each in self.originals), name)
        return ConfigError(f"{written}={self.text(written)}: {reason}")


def given_settings(texts: Iterable[str]) -> dict[str, str]:
    """The settings of options `--set KEY=VALUE`; raises ConfigError."""
    settings = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"--set {text}: expected KEY=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def given_properties(path: Path) -> dict[str, str]:
    """The properties of a file that the operator has named.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return read_properties(path)
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None


def _check_spelling(name: str) -> None:
    """Refuse an unknown name that looks like a misspelt known one, and that nobody means.

    Raises:
        ConfigError: it does.
    """
    if name in IGNORED_NAMES or broker_key(name).type != UNKNOWN:
        return
    if (known := nearest(name, MISSPELT)) is not None:
        raise ConfigError(f"unknown setting {name}: did you mean {known}?")


def nearest(name: str, likeness: float = 0.6) -> str | None:
    """The known broker setting with the most similar name; None if none is similar (difflib)."""
    if len(name) > LONGEST_MISSPELT:
        return None

    def shared_ends(known: str) -> int:
        return _shared_start(name, known) + _shared_start(name[::-1], known[::-1])

    import difflib  # here, since few need it

    # It takes 10 ms for all of them.
    candidates = heapq.nlargest(CANDIDATES, broker_keys(), key=shared_ends)
    return next(iter(difflib.get_close_matches(name, candidates, n=1, cutoff=likeness)), None)


def _shared_start(one: str, other: str) -> int:
    """The number of characters at the start that both have in common."""
    return next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
