"""Changes of settings while the broker runs, of whatever has settings.

They are kept in the tree below `/config` (`kafkapy.metadata.znodes`), with a notice in `/config/changes`.
They take effect with the image that holds them: the log of a topic at once, a broker setting through
BrokerConfig. Brokers' loggers are not part of it (`kafkapy.configs.loggers`). Source: Kafka's
ConfigurationControlManager, ConfigAdminManager (KIP-226, KIP-339).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.configs.brokers import BrokerConfigs
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.groups import ClientMetricsConfigs, GroupConfigs
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.kind import ALL_BROKERS, ConfigKind, ResourceType
from kafkapy.configs.topics import TopicConfigs
from kafkapy.metadata import znodes
from kafkapy.metadata.change_notices import ChangeNotices
from kafkapy.metadata.image import NO_NODE, MetadataImage
from kafkapy.metadata.store import Create, Delete, Operation, SetData
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

MAX_NODE_BYTES: Final = 1 << 20
"""What one node may hold: ZooKeeper's jute.maxbuffer."""

MAX_SETTINGS: Final = 1000
"""How many settings one resource may have, and one change may name: several times those that are known."""


class Operator(IntEnum):
    """What to do with a setting (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one setting.

    `operator` is an `Operator`, unless the client sent something else.
    """

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

    def __init__(
        self, writer: MetadataWriter, config: BrokerConfig, notices: ChangeNotices, *, node_id: int
    ) -> None:
        self._writer = writer
        self._config = config
        self._node_id = node_id
        self._kinds: dict[int, ConfigKind] = {
            ResourceType.TOPIC: TopicConfigs(config),
            ResourceType.BROKER: BrokerConfigs(config, node_id),
            ResourceType.CLIENT_METRICS: ClientMetricsConfigs(),
            ResourceType.GROUP: GroupConfigs(config),
        }
        self._notices = notices

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
        check_changes(changes)
        # A request may name thousands of resources: others are served between two of them.
        await asyncio.sleep(0)
        async with self._writer.turn:
            kind = self._kind(resource_type, resource_name)

            async def attempt() -> None:
                before = kind.configs(self._writer.image, resource_name) or {}
                after = dict(before)
                for change in changes:
                    value = _apply(change, before.get(change.name), kind)
                    if value is None:
                        after.pop(change.name, None)
                    else:
                        after[change.name] = value
                touched = [change.name for change in changes]
                await self._replace(kind, resource_name, after, touched, validate_only)

            await self._writer.until_current(attempt)

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
        await asyncio.sleep(0)
        async with self._writer.turn:
            kind = self._kind(resource_type, resource_name)
            await self._writer.until_current(
                lambda: self._replace(kind, resource_name, configs, configs, validate_only)
            )

    # --- the steps of a change ----------------------------------------------------------------------------

    def _kind(self, resource_type: int, resource_name: str) -> ConfigKind:
        """What is particular to the type; raises KafkaError where there can be no such resource."""
        kind = self._kinds.get(resource_type)
        if kind is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
        kind.check_name(resource_name)
        return kind

    async def _replace(
        self,
        kind: ConfigKind,
        name: str,
        configs: Mapping[str, str],
        touched: Collection[str],
        validate_only: bool,
    ) -> None:
        """Check the settings that a resource shall have, commit and publish them."""
        if len(configs) > MAX_SETTINGS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{len(configs)} settings are too many: one resource may have {MAX_SETTINGS}.",
            )
        before = kind.configs(self._writer.image, name)
        kind.check(self._writer.image, name, configs, touched)
        absent = kind.version(self._writer.image, name) == NO_NODE
        if validate_only or (absent and not configs and not kind.keeps_empty):
            return
        version = await self._commit(kind, name, configs)
        self._writer.publish(kind.changed_image(self._writer.image, name, configs, version))
        changed = sorted(each for each in configs if configs[each] != (before or {}).get(each))
        if changed:
            kind.tell(name, changed)

    async def _commit(self, kind: ConfigKind, name: str, configs: Mapping[str, str]) -> int:
        """Write the settings of a resource; return the version of its node then."""
        path, version = kind.path(name), kind.version(self._writer.image, name)
        data = znodes.encode_config(configs)
        if len(data) > MAX_NODE_BYTES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The settings take {len(data)} bytes; one resource may have {MAX_NODE_BYTES} bytes of them.",
            )
        change: Operation
        if not configs and not kind.keeps_empty:
            change = Delete(path, version)
        else:
            change = Create(path, data) if version == NO_NODE else SetData(path, data, version)
        await self._notices.commit([change], [path])
        return NO_NODE if isinstance(change, Delete) else version + 1


def check_changes(changes: Sequence[Change]) -> None:
    """Refuse what cannot be meant, before looking at the resource. Raises KafkaError."""
    if len(changes) > MAX_SETTINGS:
        message = f"{len(changes)} changes are too many: one resource may have {MAX_SETTINGS} settings."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.operator != Operator.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for change in changes:
        if change.operator not in Operator.__members__.values():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operator}")


def _apply(change: Change, current: str | None, kind: ConfigKind) -> str | None:
    """The setting's text after `change`, None for none."""
    if change.operator == Operator.DELETE:
        return None
    value = change.value or ""
    if change.operator == Operator.SET:
        return value
    key = kind.list_key(change.name)
    if key is None or key.type != "LIST":
        message = kind.no_list(Operator(change.operator).name, change.name)
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    base = key.default if current is None else current
    items = [item for item in (base or "").split(",") if item]
    if change.operator == Operator.APPEND:
        items += [item for item in dict.fromkeys(value.split(",")) if item not in items]
    else:
        items = [item for item in items if item not in value.split(",")]
    return ",".join(items)
