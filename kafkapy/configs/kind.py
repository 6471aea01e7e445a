"""The rules for the settings of one type of resource."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import IntEnum

from kafkapy.configs.keys import ConfigKey
from kafkapy.metadata.image import NO_NODE, MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError

ALL_BROKERS = ""
"""The resource name of settings of all brokers."""


class ResourceType(IntEnum):
    """The types of resources that have settings (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_broker_id(name: str, node_id: int) -> None:
    """Raise KafkaError INVALID_REQUEST unless `name` is the id `node_id`."""
    try:
        broker_id = int(name)
    except ValueError:
        message = f"Node id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    if broker_id != node_id:
        message = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


class ConfigKind(ABC):
    """The settings of one type of resource."""

    keeps_empty = True
    """Whether a resource without settings keeps its node."""

    @abstractmethod
    def check_name(self, name: str) -> None:
        """Raise KafkaError if a resource of this name cannot have settings."""

    @abstractmethod
    def list_key(self, setting: str) -> ConfigKey | None:
        """The key of a setting, for list operations; None if the type has no list operations."""

    @abstractmethod
    def no_list(self, operation: str, setting: str) -> str:
        """Kafka's message for a list operation on a setting that is not a list; it differs by type."""

    @abstractmethod
    def configs(self, image: MetadataImage, name: str) -> Mapping[str, str] | None:
        """The settings of a resource; None if it has no node."""

    @abstractmethod
    def check(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], touched: Collection[str]
    ) -> None:
        """Check the new settings of a resource.

        `touched` are the settings that the client names.

        Raises:
            KafkaError: the settings are refused.
        """

    @abstractmethod
    def path(self, name: str) -> str:
        """The node of a resource."""

    def version(self, image: MetadataImage, name: str) -> int:
        """The version of the node of a resource, or NO_NODE."""
        return image.settings_versions.get(self.path(name), NO_NODE)

    @abstractmethod
    def changed_image(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], version: int
    ) -> MetadataImage:
        """`image` with these settings, in a node of this version."""

    @abstractmethod
    def tell(self, name: str, changed: Collection[str]) -> None:
        """Log which of the `changed` settings have no effect."""
