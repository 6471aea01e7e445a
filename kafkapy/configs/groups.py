"""Settings of groups and of subscriptions to metrics of clients.

They are stored, and checked and described as in Kafka. Those of groups take effect with the next request of
a member, those of metrics that clients push (KIP-714) when a client asks next what is wanted of it. A group
need not exist to have settings.

Settings of groups have limits, which the broker has as settings of its own: outside of them they are refused.
Of one that was stored while the broker had other limits, the nearest value within them counts; what is
stored, and described, remains. Source: Kafka's GroupConfig, ClientMetricsConfigs,
ControllerConfigurationValidator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigKey, broker_keys, client_metrics_keys, group_keys
from kafkapy.configs.kind import ConfigKind
from kafkapy.configs.values import value_error
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError

INTERVAL_MS: Final = (100, 3_600_000)
"""The shortest and the longest interval between two pushes of metrics."""

_PROTOCOLS: Final = ("consumer", "share", "streams")
"""The first words of the names of group settings."""

_LIMITS_OF_OTHER_NAMES: Final = {"streams.num.standby.replicas": "group.streams.max.standby.replicas"}
"""Highest values that are not named after their setting."""


class Limits(NamedTuple):
    """The broker settings with the bounds of a group's setting, None without one."""

    low: str | None
    high: str | None


@cache
def group_limits() -> dict[str, Limits]:
    """The limits of each setting of groups, by its name."""
    return {setting: _limits(setting) for setting in group_keys()}


def _limits(setting: str) -> Limits:
    protocol, _, rest = setting.partition(".")
    low = f"group.{protocol}.min.{rest}"
    high = _LIMITS_OF_OTHER_NAMES.get(setting, f"group.{protocol}.max.{rest}")
    return Limits(low if low in broker_keys() else None, high if high in broker_keys() else None)


def names_of_limits() -> list[str]:
    """The broker settings that limit those of groups."""
    return [name for limits in group_limits().values() for name in limits if name is not None]


def beyond_limits(
    groups: Mapping[str, Mapping[str, str]], broker: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """The settings of these groups that are outside of the limits: name, value and group.

    What somebody has written into the tree by hand may be no number; the group's requests will say so.
    """
    return [
        (name, text, group)
        for group, own in groups.items()
        for name, text in own.items()
        if any(group_limits().get(name, ())) and value_error(group_keys()[name], text) is None
        if within_limits(name, int(text), broker) != int(text)
    ]


def within_limits(setting: str, number: int, broker: Mapping[str, Any]) -> int:
    """The value of a group's setting that counts, with these settings of the broker."""
    low, high = group_limits()[setting]
    if low is not None and number < broker[low]:
        number = broker[low]
    elif high is not None and number > broker[high]:
        number = broker[high]
    return number


class _KeptConfigs(ConfigKind):
    """Settings of resources that have a node only while they have settings."""

    keeps_empty = False

    def list_key(self, setting: str) -> ConfigKey | None:
        return None

    def no_list(self, operation: str, setting: str) -> str:
        return f"Can't {operation} to key {setting} because its type is not LIST."

    @abstractmethod
    def keys(self) -> Mapping[str, ConfigKey]:
        """The known settings, by name."""

    def check_values(self, configs: Mapping[str, str]) -> None:
        """Raise KafkaError INVALID_CONFIG for a value that its setting cannot have."""
        for name, text in configs.items():
            message = value_error(self.keys()[name], text)
            if message is not None:
                raise _invalid(message)


class GroupConfigs(_KeptConfigs):
    """The settings of groups, which must be within the limits that broker settings give."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def keys(self) -> Mapping[str, ConfigKey]:
        return group_keys()

    def check_name(self, name: str) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")

    def configs(self, image: MetadataImage, name: str) -> Mapping[str, str] | None:
        return image.group_configs.get(name)

    def check(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], touched: Collection[str]
    ) -> None:
        for setting in configs:
            if setting not in group_keys():
                raise _invalid(f"Unknown group config name: {setting}")
        self.check_values(configs)
        for setting in configs:
            self._check_limits(setting, self._number(configs, setting))
        for protocol in _PROTOCOLS:
            session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
            if self._number(configs, session) <= self._number(configs, heartbeat):
                raise _invalid(f"{session} must be greater than {heartbeat}")

    def path(self, name: str) -> str:
        return znodes.group_config_path(name)

    def changed_image(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], version: int
    ) -> MetadataImage:
        return image.with_group_config(name, configs).with_settings_versions({self.path(name): version})

    def tell(self, name: str, changed: Collection[str]) -> None:
        pass  # all have one

    def _number(self, configs: Mapping[str, str], setting: str) -> int:
        """The value in effect of a setting of type INT; 0 for other types."""
        key = group_keys()[setting]
        if key.type != "INT":
            return 0
        number: int = key.parse(configs[setting]) if setting in configs else self._config[key.synonyms[0]]
        return number

    def _check_limits(self, setting: str, number: int) -> None:
        low, high = group_limits()[setting]
        if low is not None and number < self._config[low]:
            raise _invalid(f"{setting} must be greater than or equal to {low}")
        if high is not None and number > self._config[high]:
            raise _invalid(f"{setting} must be less than or equal to {high}")


class ClientMetricsConfigs(_KeptConfigs):
    """The settings of subscriptions to metrics of clients."""

    def keys(self) -> Mapping[str, ConfigKey]:
        return client_metrics_keys()

    def check_name(self, name: str) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")

    def configs(self, image: MetadataImage, name: str) -> Mapping[str, str] | None:
        return image.client_metrics_configs.get(name)

    def check(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], touched: Collection[str]
    ) -> None:
        keys = client_metrics_keys()
        for setting in configs:
            if setting not in keys:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {setting}"
                )
        self.check_values(configs)
        values = {setting: keys[setting].parse(text) for setting, text in configs.items()}
        for setting in ("match", "metrics"):
            if "" in values.get(setting, ()):
                raise _invalid(f"Configuration '{setting}' values must not be empty.")
        low, high = INTERVAL_MS
        if not low <= values.get("interval.ms", low) <= high:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {values['interval.ms']} for interval.ms, "
                f"interval must be between {low} and {high} (1 hour)",
            )
        from kafkapy.configs.client_match import ClientMatch  # and the library of expressions

        ClientMatch(values.get("match", ()))

    def path(self, name: str) -> str:
        return znodes.client_metrics_config_path(name)

    def changed_image(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], version: int
    ) -> MetadataImage:
        return image.with_client_metrics_config(name, configs).with_settings_versions(
            {self.path(name): version}
        )

    def tell(self, name: str, changed: Collection[str]) -> None:
        pass  # clients are told when they ask next


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
