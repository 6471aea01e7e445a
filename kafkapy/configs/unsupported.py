"""Settings that Kafka has and this broker does not act on, and what setting them does.

Refused are those whose absence would surprise: a cluster through ZooKeeper, access control, code to load.
Accepted without effect are those that tune Kafka's own threads, caches, KRaft quorum and metrics, so that a
stock server.properties starts. The log names those that were set, and those that are changed while the broker
runs. Any of them may be set to its default. What is refused may be set to nothing, which takes it out of a
file: `--set zookeeper.connect=`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import Final

from kafkapy.configs.keys import UNKNOWN, ConfigError, ConfigKey, listener_setting

_NO_CLASSES: Final = "this broker loads no Java classes; remove the setting"

REFUSED: Final = {
    "zookeeper.connect": "this broker keeps its metadata in its data directory; remove the setting",
    "authorizer.class.name": "access control is not supported yet: every client may do everything; "
    "remove the setting if that is what you want",
    "security.inter.broker.protocol": "only PLAINTEXT is supported yet",
    "control.plane.listener.name": "there is no separate control plane; remove the setting",
    "remote.log.storage.system.enable": "tiered storage is not supported; remove the setting",
    "cordoned.log.dirs": "log directories cannot be cordoned; remove the setting",
    "config.providers": _NO_CLASSES,
    "security.providers": _NO_CLASSES,
    "*.policy.class.name": _NO_CLASSES,
    "client.quota.callback.class": _NO_CLASSES,
    "principal.builder.class": _NO_CLASSES,
    "replica.selector.class": _NO_CLASSES,
}

NO_EFFECT: Final = (
    # KRaft: this broker is its own controller.
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "broker.id.generation.enable",
    "controller.quorum.*",
    "controller.quota.*",
    "controller.socket.timeout.ms",
    "early.start.listeners",
    "initial.broker.registration.timeout.ms",
    "metadata.*",
    "reserved.broker.max.id",
    "socket.connection.setup.*",
    # Threads and queues of Kafka's: one event loop serves all connections here.
    "*.purgatory.purge.interval.requests",
    "group.coordinator.*",
    "log.cleaner.io.buffer.size",
    "offsets.commit.*",
    "offsets.load.buffer.size",
    "offsets.topic.compression.codec",
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "queued.max.requests",
    # Replication: one node.
    "auto.leader.rebalance.enable",
    "controlled.shutdown.*",
    "eligible.leader.replicas.enable",
    "follower.fetch.last.tiered.offset.enable",
    "*.replication.throttled.rate",
    "inter.broker.listener.name",
    "leader.imbalance.*",
    "log.dir.failure.timeout.ms",
    "min.insync.replicas",
    "replica.fetch.*",
    "replica.lag.time.max.ms",
    "replica.socket.*",
    "*.replication.quota.*",
    "replication.quota.*",
    "request.timeout.ms",
    "unclean.leader.election.enable",
    # Metrics.
    "auto.include.jmx.reporter",
    "kafka.metrics.*",
    "metric.reporters",
    "metrics.*",
    "telemetry.max.bytes",
    # Settings of single listeners: all listeners share the limits, and none needs more.
    "listener.name.*",
    # Inert without the listeners and features they belong to, as in Kafka.
    "add.partitions.to.txn.*",
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "delegation.token.*",
    "group.consumer.*",
    "group.share.*",
    "group.streams.*",
    "inter.broker.protocol.version",
    "log.local.*",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "password.encoder.*",
    "quota.window.*",
    "remote.*",
    "sasl.*",
    "share.*",
    "ssl.*",
    "transaction.*",
    "transactional.*",
    "zookeeper.*",
)

NO_EFFECT_ON_TOPICS: Final = (
    # Replication: one node.
    "*.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    # Tiered storage.
    "local.retention.*",
    "remote.*",
)


def check_supported(key: ConfigKey, text: str) -> None:
    """Refuse what this broker must not pretend to do.

    Raises:
        ConfigError: `key` set to `text` asks for it.
    """
    if key.type == UNKNOWN or not text.strip() or key.parse(text) == key.parse(key.default):
        return
    remedy = refusal(listener_setting(key.name) or key.name)
    if remedy is not None:
        raise ConfigError(f"{key.name}={text}: {remedy}")


def refusal(name: str) -> str | None:
    """Why a setting can only have its default, None if it can have other values."""
    return next((remedy for pattern, remedy in REFUSED.items() if fnmatchcase(name, pattern)), None)


def without_effect(names: Iterable[str]) -> list[str]:
    """Those of `names` that this broker accepts and does nothing with."""
    return [name for name in names if _any_of(NO_EFFECT).fullmatch(name)]


def topic_settings_without_effect(names: Iterable[str]) -> list[str]:
    """Those settings of a topic that this broker accepts and does nothing with."""
    return [name for name in names if _any_of(NO_EFFECT_ON_TOPICS).fullmatch(name)]


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Matches what one of the patterns does: names may come by the thousand."""
    return re.compile("|".join(map(translate, patterns)))
