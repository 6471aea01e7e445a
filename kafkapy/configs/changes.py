"""Changes settings of all types of resources while the broker runs.

The settings are stored in the metadata tree below `/config` (`kafkapy.metadata.znodes`), with a notice in
`/config/changes`. They take effect when the image that has them is published. Levels of loggers are not
stored (`kafkapy.configs.loggers`). Source: Kafka's ConfigurationControlManager, ConfigAdminManager (KIP-226,
KIP-339).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
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
from kafkapy.metadata.writer import ATTEMPTS, MetadataWriter
from kafkapy.policies import ConfigRequest, ConfigResource
from kafkapy.policies.calls import PolicyCalls
from kafkapy.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

MAX_NODE_BYTES: Final = 1 << 20
"""The most bytes of one node: ZooKeeper's jute.maxbuffer."""

MAX_SETTINGS: Final = 1000
"""The most settings of one resource, and of one change: several times as many as are known."""


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
    """Give `config` the dynamic settings of this broker; log an error if one is wrong."""
    everyone, own = image.broker_configs.get(ALL_BROKERS, {}), image.broker_configs.get(str(node_id), {})
    try:
        config.set_dynamic({**everyone, **own})
    except ConfigError as error:
        logger.error("dynamic broker settings are ignored: %s", error)


class ConfigAdmin:
    """Changes settings and puts them into effect."""

    def __init__(
        self,
        writer: MetadataWriter,
        config: BrokerConfig,
        notices: ChangeNotices,
        *,
        node_id: int,
        check_listeners: Callable[[BrokerConfig], None],
        policy: PolicyCalls | None = None,
    ) -> None:
        """`policy` decides which settings may be changed.

        `check_listeners` raises ConfigError if keys, certificates or JAAS lines cannot be used.
        """
        self._writer = writer
        self._config = config
        self._node_id = node_id
        self._policy = policy
        self._kinds: dict[int, ConfigKind] = {
            ResourceType.TOPIC: TopicConfigs(config),
            ResourceType.BROKER: BrokerConfigs(config, node_id, check_listeners),
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
        check_changes(changes)
        kind = self._kind(resource_type, resource_name)
        touched = [change.name for change in changes]

        def wanted() -> dict[str, str]:
            before = kind.configs(self._writer.image, resource_name) or {}
            after = dict(before)
            for change in changes:
                value = _apply(change, before.get(change.name), kind)
                if value is None:
                    after.pop(change.name, None)
                else:
                    after[change.name] = value
            return after

        await self._change(kind, resource_type, resource_name, wanted, touched, validate_only)

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
        kind = self._kind(resource_type, resource_name)
        await self._change(kind, resource_type, resource_name, lambda: configs, configs, validate_only)

    # --- the steps of a change ----------------------------------------------------------------------------

    def _kind(self, resource_type: int, resource_name: str) -> ConfigKind:
        """The rules of a type of resource.

        Raises:
            KafkaError: there is no such type, or a resource of this name cannot have settings.
        """
        kind = self._kinds.get(resource_type)
        if kind is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
        kind.check_name(resource_name)
        return kind

    async def _change(
        self,
        kind: ConfigKind,
        resource_type: int,
        name: str,
        wanted: Callable[[], Mapping[str, str]],
        touched: Collection[str],
        validate_only: bool,
    ) -> None:
        """Give a resource the settings that are `wanted()`, if the policy allows it.

        The policy may take long, so it is asked before the turn. What it has allowed are the new values of
        the settings that are touched. If those are others by the time of the change, because somebody else
        has changed a list, it is asked again.
        """

        async def attempt() -> None:
            configs = wanted()
            if self._policy is not None and _values(configs, touched) != allowed:
                raise _OvertakenError
            await self._replace(kind, name, configs, touched, validate_only)

        for _ in range(ATTEMPTS):
            allowed = await self._allowed(kind, resource_type, name, wanted, touched)
            try:
                async with self._writer.turn:
                    await self._writer.until_current(attempt)
            except _OvertakenError:
                continue
            return
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Others keep changing the settings; try again.")

    async def _allowed(
        self,
        kind: ConfigKind,
        resource_type: int,
        name: str,
        wanted: Callable[[], Mapping[str, str]],
        touched: Collection[str],
    ) -> dict[str, str | None] | None:
        """The values that the policy allows: those of `touched`.

        None if there is no policy.

        Raises:
            KafkaError: the settings are wrong, or the policy refuses them.
        """
        if self._policy is None:
            return None
        configs = wanted()
        kind.check(self._writer.image, name, configs, touched)
        values = _values(configs, touched)
        resource = ConfigResource(ResourceType(resource_type).name, name)
        for refusal in await self._policy.refusals([ConfigRequest(resource, values)]):
            if refusal is not None:
                raise refusal
        return values

    async def _replace(
        self,
        kind: ConfigKind,
        name: str,
        configs: Mapping[str, str],
        touched: Collection[str],
        validate_only: bool,
    ) -> None:
        """Check the new settings of a resource, commit and publish them."""
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
        """Write the settings of a resource; return the new version of its node."""
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


class _OvertakenError(Exception):
    """Others have changed the settings since the policy was asked."""


def _values(configs: Mapping[str, str], touched: Collection[str]) -> dict[str, str | None]:
    return {setting: configs.get(setting) for setting in touched}


def check_changes(changes: Sequence[Change]) -> None:
    """Refuse changes that are wrong for any resource.

    Raises:
        KafkaError: a setting is named twice, or lacks a value or a known operation; or there are too many.
    """
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
    """The setting's text after `change`; None if it is deleted."""
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
