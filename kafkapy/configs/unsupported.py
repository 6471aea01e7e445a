"""Settings of Kafka that this broker does not support: refused, or without effect.

A setting is refused if users rely on its effect: encryption, classes to load. A setting is
accepted without effect if it tunes Kafka's own threads, caches, KRaft quorum or metrics, so that the broker
starts with a stock server.properties. The log names those that are set or changed. A refused setting may be
set to its default, or to nothing, which overrides a file: `--set config.providers=`.

A broker of a cluster obeys settings that mean nothing to a sole broker, and refuses some that are inert
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import Any, Final

from kafkapy.configs.keys import UNKNOWN, ConfigError, ConfigKey, listener_setting
from kafkapy.operator_class import PYTHON_CLASS

_NO_CLASSES: Final = "this broker loads no Java classes; remove the setting"

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

AUTHORIZER: Final = "authorizer.class.name"

PYTHON_CLASSES: Final = (
    "alter.config.policy.class.name",
    AUTHORIZER,
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "sasl.server.callback.handler.class",
)
"""The settings that name a Python class (policies/, quotas/, logins.py, security/acls/)."""

_QUORUM: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
"""The settings that name the members of a KRaft quorum."""

TOKEN_VALIDATORS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's check of signed tokens, by its names in 4 and in 3."""

TOKEN_VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"

KNOWN_CLASSES: Final = {
    AUTHORIZER: (
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
    ),
    TOKEN_VALIDATOR: ("org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",),
    "sasl.server.callback.handler.class": TOKEN_VALIDATORS,
    "replica.selector.class": (RACK_AWARE_SELECTOR, "org.apache.kafka.common.replica.LeaderSelector"),
    "zookeeper.clientCnxnSocket": (
        "org.apache.zookeeper.ClientCnxnSocketNetty",
        "org.apache.zookeeper.ClientCnxnSocketNIO",
    ),
}
"""The Java classes whose work this broker does itself."""

REFUSED: Final = {
    AUTHORIZER: "expected Kafka's StandardAuthorizer or AclAuthorizer, or a Python class, as module:Class"
    " (docs/authorization.md); name one, or remove the setting",
    "control.plane.listener.name": "there is no separate control plane; remove the setting",
    "remote.log.storage.system.enable": "tiered storage is not supported; remove the setting",
    "cordoned.log.dirs": "log directories cannot be cordoned; remove the setting",
    "config.providers": _NO_CLASSES,
    "security.providers": _NO_CLASSES,
    "*.policy.class.name": "expected a Python class, as module:Class (docs/policies.md); name one, or remove"
    " the setting",
    "client.quota.callback.class": "expected a Python class, as module:Class (docs/quotas.md); name one, or"
    " remove the setting",
    "principal.builder.class": _NO_CLASSES,
    TOKEN_VALIDATOR: _NO_CLASSES,
    "sasl.server.callback.handler.class": "expected a Python class, as module:Class (docs/security.md)",
    "ssl.engine.factory.class": _NO_CLASSES,
    "group.share.assignors": "share groups have one assignor, simple, and this broker loads no Java classes; "
    "remove the setting",
    "replica.selector.class": "only Kafka's RackAwareReplicaSelector is supported",
}

REFUSED_IN_A_CLUSTER: Final = {
    "zookeeper.ssl.crl.enable": "lists of revoked certificates are not read; remove the setting",
    "zookeeper.ssl.ocsp.enable": "whether certificates are revoked is not asked; remove the setting",
    "zookeeper.clientCnxnSocket": _NO_CLASSES,
    "zookeeper.metadata.migration.enable": "there is no KRaft to migrate to; remove the setting",
}

IGNORED_NAMES: Final = frozenset(
    {
        # Kafka's own tests set these, which are internal or no release knew.
        "group.share.enable",
        "internal.metadata.log.segment.bytes",
        "log.unclean.leader.election.enable",
        "unclean.leader.election.interval.ms",
        # Kafka 0.7 to 3.9 and early forms of share groups.
        "brokerid",
        "group.share.record.lock.partition.limit",
        "log.cleanup.interval.mins",
        "log.default.flush.interval.ms",
        "log.default.flush.scheduler.interval.ms",
        "log.flush.interval",
        "log.retention.size",
        "metadata.log.segment.min.bytes",
        "num.threads",
        "replica.lag.max.messages",
        "socket.receive.buffer",
        "socket.send.buffer",
        "zk.connectiontimeout.ms",
        "zk.sessiontimeout.ms",
        "zookeeper.sync.time.ms",
    }
)
"""Names that somebody means though they look misspelt: Kafka 4.x ignores them, and so does this broker."""

NO_EFFECT: Final = (
    # KRaft: this broker is its own controller.
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "controller.quorum.*",
    "early.start.listeners",
    "initial.broker.registration.timeout.ms",
    "metadata.*",
    "socket.connection.setup.*",
    # Threads and queues of Kafka's: one event loop serves all connections here.
    "*.purgatory.purge.interval.requests",
    "group.coordinator.append.linger.ms",
    "group.coordinator.background.threads",
    "group.coordinator.cached.buffer.max.bytes",
    "group.coordinator.threads",
    "log.cleaner.io.buffer.size",
    "offsets.commit.required.acks",
    "offsets.load.buffer.size",
    "offsets.topic.compression.codec",
    "num.io.threads",
    "num.network.threads",
    "queued.max.requests",
    # Replication.
    "eligible.leader.replicas.enable",
    "follower.fetch.last.tiered.offset.enable",
    "log.dir.failure.timeout.ms",
    "replica.socket.receive.buffer.bytes",
    "*.replication.quota.*",
    # Metrics.
    "auto.include.jmx.reporter",
    "kafka.metrics.*",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    # Inert without the features they belong to, as in Kafka.
    "group.share.max.groups",
    "log.local.*",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "password.encoder.*",
    "remote.*",
    # Clients' settings, and those of logins that this broker does not do.
    "sasl.client.*",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.*",
    "sasl.login.*",
    "sasl.mechanism.controller.protocol",
    "sasl.oauthbearer.assertion.*",
    "sasl.oauthbearer.client.credentials.*",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope*",
    "share.coordinator.append.linger.ms",
    "share.coordinator.cached.buffer.max.bytes",
    "share.coordinator.load.buffer.size",
    "share.coordinator.state.topic.compression.codec",
    "share.coordinator.threads",
    # Java's providers of encryption, and clients' settings.
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.protocol",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "transaction.state.log.load.buffer.size",
    "transaction.two.phase.commit.enable",
)

OF_LISTENERS: Final = (
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
    "sasl.*",
    "ssl.*",
)
"""The settings that one listener may have for itself."""

NO_EFFECT_ALONE: Final = (
    "auto.leader.rebalance.enable",
    "broker.id.generation.enable",
    "controlled.shutdown.*",
    "controller.socket.timeout.ms",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "leader.imbalance.*",
    "min.insync.replicas",
    "num.replica.fetchers",
    "*.replication.throttled.rate",
    "replica.fetch.*",
    "replica.lag.time.max.ms",
    "replica.socket.timeout.ms",
    "replication.quota.*",
    "reserved.broker.max.id",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.token.endpoint.url",
    "security.inter.broker.protocol",
    "ssl.endpoint.identification.algorithm",
    "unclean.leader.election.enable",
    "zookeeper.*",
)
"""Without effect on a sole broker."""

NO_EFFECT_ON_TOPICS: Final = (
    # Tiered storage.
    "local.retention.*",
    "remote.*",
)

NO_EFFECT_ON_TOPICS_ALONE: Final = (
    "*.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
"""Without effect on the topics of a sole broker."""


def check_supported(key: ConfigKey, text: str, *, clustered: bool = False) -> None:
    """Refuse a setting that this broker does not support.

    Raises:
        ConfigError: `key` may not be set to `text`.
    """
    if key.type == UNKNOWN or not text.strip() or key.parse(text) == key.parse(key.default):
        return
    name = listener_setting(key.name) or key.name
    if text.strip() in KNOWN_CLASSES.get(name, ()):
        return
    if name in PYTHON_CLASSES and PYTHON_CLASS.fullmatch(text.strip()):
        return
    remedy = refusal(name, clustered=clustered)
    if remedy is not None:
        shown = "[hidden]" if key.sensitive else text
        raise ConfigError(f"{key.name}={shown}: {remedy}")


def require_alone(config: Mapping[str, Any]) -> None:
    """Refuse settings that make the broker one of several around a KRaft quorum.

    It would be a cluster of its own, as would each of the others.

    Raises:
        ConfigError: a quorum has several members, or is another process than this broker.
    """
    for name in _QUORUM:
        members = {member.strip() for member in config[name] or () if member.strip()}
        if len(members) > 1:
            found = f"the quorum has {len(members)} members"
        elif members and "controller" not in config["process.roles"]:
            found = "process.roles has no controller, so the quorum is another process"
        else:
            continue
        raise ConfigError(
            f"{name}: {found}, and this broker does not speak KRaft: it would be a cluster of its own."
            " Brokers form a cluster with zookeeper.connect (docs/cluster.md). If this one is alone, add"
            f" {' '.join(f'--set {each}=' for each in _QUORUM if config[each])}"
        )


def refusal(name: str, *, clustered: bool = False) -> str | None:
    """The reason why a setting can have only its default; None if it can have other values."""
    refused = {**REFUSED, **(REFUSED_IN_A_CLUSTER if clustered else {})}
    return next((remedy for pattern, remedy in refused.items() if fnmatchcase(name, pattern)), None)


def without_effect(names: Iterable[str], *, clustered: bool = False) -> list[str]:
    """Those of `names` that this broker accepts without effect."""
    patterns = NO_EFFECT if clustered else NO_EFFECT + NO_EFFECT_ALONE
    return [
        name
        for name in names
        if _is_any_of(patterns, setting := listener_setting(name) or name)
        or (setting != name and not may_be_of_listener(setting))
    ]


def may_be_of_listener(setting: str) -> bool:
    """Whether a listener may have a setting of this name for itself."""
    return _is_any_of(OF_LISTENERS, setting)


def topic_settings_without_effect(names: Iterable[str], *, clustered: bool = False) -> list[str]:
    """Those settings of a topic that this broker accepts without effect."""
    patterns = NO_EFFECT_ON_TOPICS if clustered else NO_EFFECT_ON_TOPICS + NO_EFFECT_ON_TOPICS_ALONE
    return [name for name in names if _is_any_of(patterns, name)]


def _is_any_of(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a name is one of `patterns`, or matches one; there may be thousands of names."""
    names, others = _compiled(patterns)
    return name in names or others.fullmatch(name) is not None


@cache
def _compiled(patterns: tuple[str, ...]) -> tuple[frozenset[str], re.Pattern[str]]:
    """Those that are names, and a pattern that matches what any of the others matches."""
    names = frozenset(pattern for pattern in patterns if "*" not in pattern)
    return names, re.compile("|".join(translate(pattern) for pattern in patterns if pattern not in names))
