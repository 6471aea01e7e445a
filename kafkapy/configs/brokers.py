"""Dynamic settings of brokers.

A broker's own settings have precedence over those of all brokers, and these have precedence over the file.
Unknown names are stored too, as in Kafka, where plug-ins read them. For a sole broker, `min.insync.replicas`
can be set for all brokers only, and always has a value: eligible leader replicas (KIP-966) rely on it. In a
cluster, which has none of these, it is a setting like others. Source: Kafka's DynamicBrokerConfig,
ConfigAdminManager, ConfigurationControlManager (KIP-226).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from kafkapy.configs.config import BrokerConfig, nearest
from kafkapy.configs.keys import UNKNOWN, ConfigError, ConfigKey, broker_key, broker_keys, listener_setting
from kafkapy.configs.kind import ALL_BROKERS, ConfigKind, check_broker_id
from kafkapy.configs.unsupported import may_be_of_listener, without_effect
from kafkapy.configs.values import value_error
from kafkapy.logs.text import listed
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

HINTED: Final = 5
"""The most unknown names for which the nearest known name is searched, which takes 1 ms."""

_FILE_ONLY: Final = frozenset(
    {"listeners", "listener.security.protocol.map", "advertised.listeners", "config.providers"}
)
"""Kafka changes these while it runs; this broker reads them when it starts."""
_OF_ALL_LISTENERS: Final = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)
"""The settings of a single listener that may be set for all brokers."""
_NETWORK_THREADS: Final = "num.network.threads"
_THREAD_COUNTS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    _NETWORK_THREADS,
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Settings that one change may at most halve or double (Kafka's DynamicThreadPool, LogCleaner)."""


class BrokerConfigs(ConfigKind):
    """The dynamic settings of one broker, by its id, and of all brokers."""

    def __init__(
        self, config: BrokerConfig, node_id: int, check_listeners: Callable[[BrokerConfig], None]
    ) -> None:
        """`check_listeners` raises ConfigError if keys or lines that settings name cannot be used."""
        self._config = config
        self._node_id = node_id
        self._check_listeners = check_listeners

    def check_name(self, name: str) -> None:
        if name != ALL_BROKERS:
            check_broker_id(name, self._node_id)

    def list_key(self, setting: str) -> ConfigKey | None:
        return broker_keys().get(setting)

    def no_list(self, operation: str, setting: str) -> str:
        if setting not in broker_keys():
            return f"Unknown config name: {setting}"
        return f"Config value {operation.lower()} is not allowed for config key: {setting}"

    def configs(self, image: MetadataImage, name: str) -> Mapping[str, str] | None:
        return image.broker_configs.get(name)

    def check(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], touched: Collection[str]
    ) -> None:
        """Refuse wrong broker settings with INVALID_REQUEST, as Kafka does (KAFKA-13609)."""
        _check_names(configs, for_all=name == ALL_BROKERS)
        for setting, text in configs.items():
            message = value_error(broker_key(setting), text)
            if message is not None:
                raise _refused(message)
        before = image.broker_configs
        levels = {level: before.get(level, {}) for level in (ALL_BROKERS, str(self._node_id))}
        levels[name] = configs
        settings = {**self._config.originals, **levels[ALL_BROKERS], **levels[str(self._node_id)]}
        try:
            new = BrokerConfig(settings, clustered=self._config.clustered)
            if any((listener_setting(setting) or "").startswith(("ssl.", "sasl.")) for setting in touched):
                self._check_listeners(new)
        except ConfigError as error:
            raise _refused(str(error)) from None
        self._check_thread_counts(new, before.get(name, {}), configs)
        if not self._config.clustered:
            _check_min_insync_replicas(name, before.get(name, {}), configs, touched)

    def path(self, name: str) -> str:
        return znodes.broker_config_path(name)

    def changed_image(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], version: int
    ) -> MetadataImage:
        return image.with_broker_config(name, configs).with_settings_versions({self.path(name): version})

    def tell(self, name: str, changed: Collection[str]) -> None:
        unknown = [setting for setting in changed if broker_key(setting).type == UNKNOWN]
        if unknown:
            logger.warning("These broker settings are not known and have no effect: %s", hints(unknown))
        if idle := without_effect(set(changed).difference(unknown), clustered=self._config.clustered):
            logger.warning("These broker settings have no effect in this broker: %s", listed(sorted(idle)))

    def _check_thread_counts(
        self, new: BrokerConfig, before: Mapping[str, str], configs: Mapping[str, str]
    ) -> None:
        for name in _THREAD_COUNTS:
            _check_thread_count(name, new[name], self._config[name])
        for name, text in configs.items():
            if listener_setting(name) == _NETWORK_THREADS:
                now = before.get(name, str(self._config[_NETWORK_THREADS]))
                _check_thread_count(name, int(text), int(now))


def with_min_insync_replicas(
    configs: Mapping[str, Mapping[str, str]], number: str
) -> dict[str, Mapping[str, str]]:
    """The changes, by name, that make min.insync.replicas a setting of all brokers only.

    `configs` are the dynamic settings by resource name. `number` is the value if all brokers have none yet.
    Kafka does the same when eligible leader replicas are enabled, or a cluster is created with them.
    """
    changed: dict[str, Mapping[str, str]] = {
        name: {setting: value for setting, value in own.items() if setting != MIN_INSYNC_REPLICAS}
        for name, own in configs.items()
        if name != ALL_BROKERS and MIN_INSYNC_REPLICAS in own
    }
    everyone = configs.get(ALL_BROKERS, {})
    if MIN_INSYNC_REPLICAS not in everyone:
        changed[ALL_BROKERS] = {**everyone, MIN_INSYNC_REPLICAS: number}
    return changed


def hints(names: Sequence[str]) -> str:
    """Unknown names for a log line; the first few have a hint with the most similar known name."""
    first = [f"{name} (did you mean {near}?)" if (near := nearest(name)) else name for name in names[:HINTED]]
    return listed([*first, *names[HINTED:]])


def _is_fixed(name: str) -> bool:
    """Whether a setting can be set in the file only.

    As in Apache Kafka, any other may be given to a listener, without effect.
    """
    setting = listener_setting(name)
    if setting is not None and not may_be_of_listener(setting):
        return False
    key = broker_keys().get(setting or name)
    return key is not None and (not key.dynamic or name in _FILE_ONLY)


def _check_names(configs: Mapping[str, str], *, for_all: bool) -> None:
    """Refuse settings that can be set only in the file, or only for one listener or one broker."""
    known = broker_keys()
    fixed = [name for name in configs if _is_fixed(name)]
    if fixed:
        raise _refused(f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]")
    security = [name for name in configs if name in known and name.startswith("ssl.")]
    if security:
        raise _refused(
            "These security configs can be dynamically updated only per-listener using the listener "
            f"prefix: [{', '.join(sorted(security))}]"
        )
    if not for_all:
        return
    single = [
        name
        for name in configs
        if (setting := listener_setting(name)) is not None and setting not in _OF_ALL_LISTENERS
    ]
    if single:
        raise _refused(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(sorted(single))}]"
        )


def _check_thread_count(name: str, new: int, now: int) -> None:
    failed = f"Dynamic thread count update validation failed for {name}={new}, value should "
    if new < now // 2:
        raise _refused(f"{failed}be at least half the current value {now}")
    if new > now * 2:
        raise _refused(f"{failed}not be greater than double the current value {now}")


def _check_min_insync_replicas(
    name: str, before: Mapping[str, str], after: Mapping[str, str], touched: Collection[str]
) -> None:
    if name != ALL_BROKERS and MIN_INSYNC_REPLICAS in touched:
        message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if name == ALL_BROKERS and MIN_INSYNC_REPLICAS in before.keys() - after.keys():
        message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
