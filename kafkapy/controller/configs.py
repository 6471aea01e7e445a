"""Changes of settings while the broker runs: of topics, of one broker, of all brokers.

They live in `/config/topics/<t>` and `/config/brokers/<id or <default>>` with a notice in
`/config/changes`, and take effect with the image that holds them: the log of a topic at once, a broker
setting through BrokerConfig. Precedence: the broker's own, the default of all brokers, the file. Source:
Kafka's ConfigurationControlManager, ConfigAdminManager, DynamicBrokerConfig (KIP-226, KIP-339).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.clock import Clock
from kafkapy.config import BrokerConfig
from kafkapy.config_keys import ConfigError, ConfigKey, broker_keys, topic_keys
from kafkapy.controller.config_values import check_topic_configs, value_error
from kafkapy.controller.writer import MetadataWriter
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.metadata.store import Create, Delete, Operation, SetData
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.topic_names import why_invalid

logger = logging.getLogger(__name__)

NOTICE_LIFETIME_MS: Final = 15 * 60 * 1000
"""How long a notice in /config/changes stays (Kafka's ZkNodeChangeNotificationListener)."""

ALL_BROKERS: Final = ""
"""The resource name of settings of all brokers."""

_PER_BROKER: Final = ("listeners", "listener.security.protocol.map", "advertised.listeners")
_FILE_ONLY: Final = frozenset({*_PER_BROKER, "config.providers"})
"""Kafka changes these while it runs; this broker reads them when it starts."""


class ResourceType(IntEnum):
    """What settings belong to (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operator(IntEnum):
    """What to do with a setting (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one setting; `operator` is an `Operator` unless the client sent something else."""

    name: str
    operator: int
    value: str | None


def put_in_effect(config: BrokerConfig, image: MetadataImage, node_id: int) -> None:
    """Have `config` take over the dynamic settings of this broker, unless one of them is wrong."""
    everyone, own = image.broker_configs.get(ALL_BROKERS, {}), image.broker_configs.get(str(node_id), {})
    try:
        config.set_dynamic({**everyone, **own})
    except ConfigError as error:
        logger.error("dynamic broker settings are ignored: %s", error)


class ConfigAdmin:
    """Changes settings and puts them into effect."""

    def __init__(self, writer: MetadataWriter, config: BrokerConfig, *, node_id: int, clock: Clock) -> None:
        self._writer = writer
        self._config = config
        self._node_id = node_id
        self._clock = clock
        self._notices: deque[tuple[int, str]] = deque()

    def dynamic_configs(self, name: str) -> Mapping[str, str]:
        """The dynamic settings of a broker id (as text) or of ALL_BROKERS."""
        return self._writer.image.broker_configs.get(name, {})

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        """Put changed broker settings into effect."""
        if old.broker_configs is new.broker_configs:
            return
        put_in_effect(self._config, new, self._node_id)

    async def alter(
        self,
        resource_type: int,
        resource_name: str,
        changes: Sequence[Change],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some settings of a resource, all or none of `changes`.

        Raises:
            KafkaError: refused.
        """
        self._writer.require_controller()
        _check_changes(changes)
        async with self._writer.turn:
            keys = self._keys(resource_type, resource_name)
            before = self._overrides(resource_type, resource_name)
            after = dict(before)
            for change in changes:
                value = _apply(change, before.get(change.name), keys.get(change.name), resource_type)
                if value is None:
                    after.pop(change.name, None)
                else:
                    after[change.name] = value
            await self._replace(resource_type, resource_name, after, validate_only)

    async def replace(
        self,
        resource_type: int,
        resource_name: str,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Give a resource exactly these settings.

        Raises:
            KafkaError: refused.
        """
        self._writer.require_controller()
        async with self._writer.turn:
            self._keys(resource_type, resource_name)
            await self._replace(resource_type, resource_name, configs, validate_only)

    # --- the steps of a change ----------------------------------------------------------------------------

    def _keys(self, resource_type: int, resource_name: str) -> Mapping[str, ConfigKey]:
        """The settings that the resource may have. Raises KafkaError for a resource that cannot have any."""
        if resource_type == ResourceType.TOPIC:
            return topic_keys()
        if resource_type == ResourceType.BROKER:
            self._check_broker_name(resource_name)
            return broker_keys()
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")

    def _check_broker_name(self, name: str) -> None:
        if name == ALL_BROKERS:
            return
        try:
            broker_id = int(name)
        except ValueError:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
            ) from None
        if broker_id != self._node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._node_id}, but received {name}",
            )

    def _overrides(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        image = self._writer.image
        if resource_type == ResourceType.BROKER:
            return image.broker_configs.get(resource_name, {})
        topic = image.topics.get(resource_name)
        return {} if topic is None else topic.configs

    async def _replace(
        self, resource_type: int, name: str, configs: Mapping[str, str], validate_only: bool
    ) -> None:
        """Check the settings that a resource shall have, commit and publish them."""
        if resource_type == ResourceType.TOPIC:
            topic = self._checked_topic(name, configs)
            if not validate_only:
                await self._commit(znodes.topic_config_path(name), f"topics/{name}", configs)
                self._writer.publish(self._writer.image.with_topics([replace(topic, configs=configs)]))
        else:
            self._check_broker_configs(name, configs)
            if not validate_only:
                entity = name or znodes.DEFAULT_ENTITY
                await self._commit(znodes.broker_config_path(name), f"brokers/{entity}", configs)
                self._writer.publish(self._writer.image.with_broker_config(name, configs))

    def _checked_topic(self, name: str, configs: Mapping[str, str]) -> Topic:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        message = why_invalid(name)
        if message is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        check_topic_configs(configs, self._config.topic_defaults())
        topic = self._writer.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    def _check_broker_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Kafka answers INVALID_REQUEST, not INVALID_CONFIG, to wrong broker settings (KAFKA-13609)."""
        keys = broker_keys()
        unknown = sorted(config for config in configs if config not in keys)
        if unknown:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown config name: {unknown[0]}")
        fixed = sorted(config for config in configs if not keys[config].dynamic or config in _FILE_ONLY)
        if fixed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
            )
        security = sorted(config for config in configs if config.startswith("ssl."))
        if security:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "These security configs can be dynamically updated only per-listener using the listener "
                f"prefix: [{', '.join(security)}]",
            )
        for config, text in configs.items():
            message = value_error(keys[config], text)
            if message is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        levels = {level: self.dynamic_configs(level) for level in (ALL_BROKERS, str(self._node_id))}
        levels[name] = configs
        try:
            BrokerConfig({**self._config.originals, **levels[ALL_BROKERS], **levels[str(self._node_id)]})
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None

    async def _commit(self, path: str, entity_path: str, configs: Mapping[str, str]) -> None:
        data = znodes.encode_config(configs)
        now = self._clock.now_ms()
        exists = path.startswith(znodes.TOPIC_CONFIGS) or self._is_written(path)
        operations: list[Operation] = [
            SetData(path, data) if exists else Create(path, data),
            Create(znodes.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), sequence=True),
        ]
        while self._notices and self._notices[0][0] <= now - NOTICE_LIFETIME_MS:
            operations.append(Delete(self._notices.popleft()[1]))
        _, notice, *_ = await self._writer.commit(operations)
        self._notices.append((now, str(notice)))

    def _is_written(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return ("" if name == znodes.DEFAULT_ENTITY else name) in self._writer.image.broker_configs


def _check_changes(changes: Sequence[Change]) -> None:
    """Refuse what cannot be meant, before looking at the resource."""
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.operator != Operator.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for change in changes:
        if change.operator not in Operator.__members__.values():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operator}")


def _not_a_list(change: Change, key: ConfigKey | None, resource_type: int) -> str:
    """Kafka's words for a list operation on what is no list, of which it has several."""
    name = Operator(change.operator).name
    if resource_type == ResourceType.TOPIC:
        return f"Can't {name} to key {change.name} because its type is not LIST."
    if key is None:
        return f"Unknown config name: {change.name}"
    return f"Config value {name.lower()} is not allowed for config key: {change.name}"


def _apply(change: Change, current: str | None, key: ConfigKey | None, resource_type: int) -> str | None:
    """The setting's text after `change`, None for none."""
    if change.operator == Operator.DELETE:
        return None
    value = change.value or ""
    if change.operator == Operator.SET:
        return value
    if key is None or key.type != "LIST":
        raise KafkaError(ErrorCode.INVALID_CONFIG, _not_a_list(change, key, resource_type))
    base = key.default if current is None else current
    items = [item for item in (base or "").split(",") if item]
    if change.operator == Operator.APPEND:
        items += [item for item in dict.fromkeys(value.split(",")) if item not in items]
    else:
        items = [item for item in items if item not in value.split(",")]
    return ",".join(items)
