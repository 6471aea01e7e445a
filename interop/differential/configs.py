"""Requests about settings, and their answers including the texts of messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from interop.differential.brokers import Broker
from interop.support.waiting import wait_until
from kafkapy.configs.changes import Operator
from kafkapy.configs.kind import ResourceType
from kafkapy.protocol.messages import alter_configs
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.list_config_resources import ListConfigResourcesRequest

NODE = "1"
SET, DELETE, APPEND, SUBTRACT = Operator
_WRAPPED = re.compile(
    r"Invalid value org\.apache\.kafka\.common\.config\.ConfigException: (.*)"
    r" for configuration Invalid dynamic configuration"
)
"""A message as Kafka wraps it when another part of Kafka refuses a setting."""

Changes = Sequence[tuple[str, int, str | None]]


def alter(resource_type: int, name: str, changes: Changes, *, validate_only: bool = True) -> Any:
    configs = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replace(resource_type: int, name: str, settings: dict[str, str], *, validate_only: bool = True) -> Any:
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in settings.items()]
    resource = alter_configs.AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=configs
    )
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def describe(resource_type: int, name: str, *keys: str, synonyms: bool = True) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)


def shown(broker: Broker, resource_type: int, name: str, *keys: str) -> dict[str, tuple[object, ...]]:
    """Settings by name: value, read only, source, type, sensitive, synonyms."""
    (result,) = broker.main.quietly(describe(resource_type, name, *keys), 4).results
    return {
        each.name: (
            each.value,
            each.read_only,
            each.config_source,
            each.config_type,
            each.is_sensitive,
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in result.configs
    }


def note_alter(
    broker: Broker, label: str, resource_type: int, name: str, *changes: tuple[str, int, str | None]
) -> None:
    """Note the answer to a change that is only validated, without the text that wraps it."""
    (answer,) = broker.main.quietly(alter(resource_type, name, changes), 1).responses
    words = answer.error_message
    if words is not None and (wrapped := _WRAPPED.fullmatch(words)):
        words = wrapped[1]
    broker.note(label, {"error_code": answer.error_code, "words": words})


def change(broker: Broker, resource_type: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    """Make a change, and wait until it is visible."""
    request = alter(resource_type, name, changes, validate_only=False)
    (answer,) = broker.main.quietly(request, 1).responses
    assert answer.error_code == 0, answer
    own = {
        ResourceType.TOPIC: 1,
        ResourceType.BROKER: 2 if name else 3,
        ResourceType.BROKER_LOGGER: 6,
        ResourceType.CLIENT_METRICS: 7,
        ResourceType.GROUP: 8,
    }[ResourceType(resource_type)]

    def is_shown() -> bool:
        found = shown(broker, resource_type, name, *(key for key, _, _ in changes))
        here = {key: setting for key, setting in found.items() if setting[2] == own}
        for key, operation, value in changes:
            if operation == DELETE:
                if key in here and resource_type != ResourceType.BROKER_LOGGER:
                    return False
            elif key not in here or here[key][0] not in (None, (value or "").replace(" ", "")):
                return False
        return True

    wait_until(is_shown)


def resources(broker: Broker, version: int, *types: int) -> dict[str, object]:
    """Return the resources that a broker lists, except topics."""
    answer = broker.main.quietly(ListConfigResourcesRequest(resource_types=list(types)), version)
    return {
        "error_code": answer.error_code,
        "resources": sorted(
            (each.resource_type, each.resource_name)
            for each in answer.config_resources
            if each.resource_type != ResourceType.TOPIC
        ),
    }
