"""IncrementalAlterConfigs of a broker: which values are taken. DescribeConfigs: how they show."""

from __future__ import annotations

from typing import Any

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.support.waiting import wait_until
from kafkapy.config_keys import broker_keys
from kafkapy.controller.configs import Operator, ResourceType
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.jvm

NODE = "1"
TOGETHER = (
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097153"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.9:3"},
    {"max.connections.per.ip.overrides": "127.0.0.9"},
    {"log.cleaner.io.buffer.load.factor": "nan"},
)


def alter(
    name: str | None, settings: dict[str, str], *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=key, config_operation=Operator.SET, value=value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=name or "", configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def test_broker_settings_around_their_lowest_values(pair: Pair) -> None:
    def settings(broker: Broker) -> None:
        for key in broker_keys().values():
            if key.dynamic and key.type in ("SHORT", "INT", "LONG", "DOUBLE"):
                for value in ("-2", "-1", "0", "1"):
                    broker.ask(f"{key.name}={value}", alter(NODE, {key.name: value}, validate_only=True), 1)
        for index, several in enumerate(TOGETHER):
            for name in (NODE, ""):
                broker.ask(f"{index} for {name or 'all'}", alter(name, several, validate_only=True), 1)

    code = "responses[0].error_code"
    half = "Apache Kafka refuses to change its thread pools to less than half at once"
    pair.compare(
        settings,
        Differs("background.threads=1", code, half),
        Differs("num.io.threads=1", code, half),
        Differs("remote.log.*.size=1", code, half),
        Differs("remote.log.reader.threads=1", code, half),
        Differs("log.local.retention.ms=-1", code, "nothing is tiered here"),
        Differs("min.insync.replicas=1", code, "eligible leader replicas forbid it; kafkapy has none"),
        Differs("*load.factor=-*", code, "nothing is compacted with it"),
        Differs("*load.factor=0", code, "nothing is compacted with it"),
    )


def test_flushes_without_a_limit_are_accepted_and_shown(pair: Pair) -> None:
    def described(broker: Broker, resource_type: ResourceType, name: str, setting: str) -> Any:
        resource = DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=[setting]
        )
        (result,) = broker.main.quietly(DescribeConfigsRequest(resources=[resource]), 4).results
        return result.configs[0].value if result.configs else result.error_code

    def flushes(broker: Broker) -> None:
        topic, setting = broker.topic(), "log.flush.interval.ms"
        broker.ask("alter", alter(NODE, {setting: "-1"}, validate_only=False), 1)
        try:
            wait_until(lambda: described(broker, ResourceType.BROKER, NODE, setting) == "-1")
            broker.note("topic", {"value": described(broker, ResourceType.TOPIC, topic, "flush.ms")})
        finally:
            undo = alter(NODE, {setting: ""}, validate_only=False)
            undo.resources[0].configs[0].config_operation = Operator.DELETE
            broker.ask("undo", undo, 1)

    pair.compare(flushes, Differs("topic", "value", "kafkapy shows no limit as a topic may set it itself"))
