"""The rules for the settings of topics."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigKey, topic_keys
from kafkapy.configs.kind import ConfigKind
from kafkapy.configs.unsupported import topic_settings_without_effect
from kafkapy.configs.values import check_topic_configs
from kafkapy.logs.text import listed
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_NODE, MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.topic_names import why_invalid

logger = logging.getLogger(__name__)


class TopicConfigs(ConfigKind):
    """The settings of topics."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def check_name(self, name: str) -> None:
        """Do nothing: `check` refuses wrong names after wrong settings, as in Kafka."""

    def list_key(self, setting: str) -> ConfigKey | None:
        return topic_keys().get(setting)

    def no_list(self, operation: str, setting: str) -> str:
        return f"Can't {operation} to key {setting} because its type is not LIST."

    def configs(self, image: MetadataImage, name: str) -> Mapping[str, str] | None:
        topic = image.topics.get(name)
        return None if topic is None else topic.configs

    def check(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], touched: Collection[str]
    ) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        message = why_invalid(name)
        if message is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        check_topic_configs(configs, self._config.topic_defaults())
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def path(self, name: str) -> str:
        return znodes.topic_config_path(name)

    def version(self, image: MetadataImage, name: str) -> int:
        topic = image.topics.get(name)
        return NO_NODE if topic is None else topic.config_version

    def changed_image(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], version: int
    ) -> MetadataImage:
        return image.with_topics([replace(image.topics[name], configs=configs, config_version=version)])

    def tell(self, name: str, changed: Collection[str]) -> None:
        if idle := topic_settings_without_effect(changed, clustered=self._config.clustered):
            logger.warning("Topic %s: these settings have no effect in this broker: %s", name, listed(idle))


def guessed_settings(*, compacted: bool) -> dict[str, str]:
    """Settings for a topic whose own settings are not known.

    The default retention of seven days could delete the records of an old topic at once.
    """
    return {"cleanup.policy": "compact"} if compacted else {"retention.ms": "-1"}
