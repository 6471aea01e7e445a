"""DescribeConfigs, AlterConfigs and their kin answer resource by resource.

The others are IncrementalAlterConfigs and ListConfigResources.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkapy import handlers
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import alter_configs, incremental_alter_configs
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkapy.protocol.types import ApiKey

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
SESSION = "consumer.session.timeout.ms"


def versions(key: ApiKey) -> list[int]:
    api = handlers.BY_KEY[key]
    return list(range(api.min_version, api.max_version + 1))


@pytest.fixture
async def world(start_world: Any) -> Any:
    """A world with a topic `t` that sets retention.ms."""
    world = await start_world()
    await world.admin.topics.create_topics([NewTopic("t", configs={"retention.ms": "5"})])
    return world


def describe(
    resource_type: int, name: str, *keys: str, all_keys: list[str] | None = None, **options: bool
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or all_keys
    )
    return DescribeConfigsRequest(resources=[resource], **options)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
async def test_every_version_describes_a_topic(world: Any, version: int) -> None:
    (result,) = (await world.ask(describe(TOPIC, "t", "retention.ms", "segment.ms"), version)).results
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    assert (result.resource_type, result.resource_name) == (TOPIC, "t")
    retention, segment = result.configs
    assert (retention.name, retention.value, retention.read_only) == ("retention.ms", "5", False)
    assert (segment.name, segment.value, segment.is_sensitive) == ("segment.ms", "604800000", False)
    if version == 0:
        assert (retention.is_default, segment.is_default) == (False, True)
    else:
        assert (retention.config_source, segment.config_source) == (1, 5)
        assert retention.synonyms == []
    if version >= 3:
        assert (retention.config_type, retention.documentation) == (5, None)


@pytest.mark.parametrize("all_keys", [None, []])
async def test_no_keys_ask_for_all_settings(world: Any, all_keys: list[str] | None) -> None:
    (result,) = (await world.ask(describe(TOPIC, "t", all_keys=all_keys), 4)).results
    assert len(result.configs) == 33


async def test_synonyms_and_documentation_are_told_when_asked_for(world: Any) -> None:
    request = describe(TOPIC, "t", "cleanup.policy", include_synonyms=True, include_documentation=True)
    (config,) = (await world.ask(request, 4)).results[0].configs
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [("log.cleanup.policy", "delete", 5)]
    assert config.documentation.startswith("Whether old segments are deleted")


async def test_this_broker_is_described_by_its_id(world: Any) -> None:
    (result,) = (await world.ask(describe(BROKER, "1", "log.dir", "log.retention.ms", "node.id"), 4)).results
    assert [(c.name, c.value, c.read_only) for c in result.configs] == [
        ("log.dir", "kafkapy-data", True),
        ("log.retention.ms", None, False),
        ("node.id", "1", True),
    ]


@pytest.mark.parametrize("name", ["01", " 1", "+1", "1\n"])
@pytest.mark.parametrize("resource_type", [BROKER, LOGGER])
async def test_this_broker_has_one_name(world: Any, resource_type: int, name: str) -> None:
    (result,) = (await world.ask(describe(resource_type, name), 4)).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.configs == []


@pytest.mark.parametrize("resource_type", [GROUP, METRICS])
async def test_only_some_resources_that_set_nothing_are_described(world: Any, resource_type: int) -> None:
    resources = [
        DescribeConfigsResource(resource_type=resource_type, resource_name=f"invented{number}")
        for number in range(1_002)
    ]
    results = (await world.ask(DescribeConfigsRequest(resources=resources), 4)).results
    assert all(result.configs and result.error_code == ErrorCode.NONE for result in results[:1_000])
    for result in results[1_000:]:
        assert (result.error_code, result.configs) == (ErrorCode.INVALID_REQUEST, [])
        assert result.error_message.endswith("ask for fewer")


async def test_all_brokers_are_described_by_no_name(world: Any) -> None:
    (result,) = (await world.ask(describe(BROKER, ""), 4)).results
    assert result.error_code == ErrorCode.NONE
    assert [(config.name, config.value, config.config_source) for config in result.configs] == [
        ("min.insync.replicas", "1", 3)
    ]


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            TOPIC,
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            BROKER,
            "7",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 7",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (99, "x", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 99"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "7", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 7"),
    ],
)
async def test_what_has_no_settings_is_refused(
    world: Any, resource_type: int, name: str, code: ErrorCode, message: str
) -> None:
    (result,) = (await world.ask(describe(resource_type, name), 4)).results
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


async def test_a_resource_that_is_named_twice_is_described_once(world: Any) -> None:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1") for _ in range(3)]
    )
    (result,) = (await world.ask(request, 4)).results
    assert (result.error_code, result.resource_name) == (0, "1")


def alter(
    resource_type: int, name: str, *changes: tuple[str, int, str | None]
) -> incremental_alter_configs.AlterConfigsResource:
    return incremental_alter_configs.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
async def test_every_version_changes_settings_at_once(world: Any, version: int) -> None:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            alter(TOPIC, "t", ("segment.ms", SET, "7")),
            alter(TOPIC, "absent", ("segment.ms", SET, "7")),
            alter(BROKER, "1", ("log.roll.ms", SET, "9")),
        ]
    )
    response = await world.ask(request, version)
    assert [
        (r.resource_type, r.resource_name, r.error_code, r.error_message) for r in response.responses
    ] == [
        (TOPIC, "t", ErrorCode.NONE, None),
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'absent' does not exist."),
        (BROKER, "1", ErrorCode.NONE, None),
    ]
    assert world.metadata.image.topics["t"].configs == {"retention.ms": "5", "segment.ms": "7"}
    assert world.replicas.partition("t", 0).log.config.segment_ms == 7
    assert world.config["log.roll.ms"] == 9


async def test_a_resource_that_comes_twice_is_refused_twice(world: Any) -> None:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[alter(TOPIC, "t", ("segment.ms", SET, value)) for value in "78"]
    )
    response = await world.ask(request, 1)
    assert [(r.error_code, r.error_message) for r in response.responses] == [
        (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    ] * 2
    assert world.metadata.image.topics["t"].configs == {"retention.ms": "5"}


async def change(world: Any, *resources: incremental_alter_configs.AlterConfigsResource) -> list[int]:
    """The error codes of changes."""
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=list(resources))
    return [each.error_code for each in (await world.ask(request, 1)).responses]


async def listed(world: Any, *types: int, version: int = 1) -> list[tuple[int, str]]:
    response = await world.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


async def test_settings_of_groups_and_client_metrics_are_kept_shown_and_listed(world: Any) -> None:
    codes = await change(
        world,
        alter(GROUP, "g/ü", (SESSION, SET, "50000")),
        alter(METRICS, "m", ("interval.ms", SET, "1000")),
        alter(GROUP, "other", (SESSION, SET, "1")),
    )
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
    (result,) = (await world.ask(describe(GROUP, "g/ü", SESSION), 4)).results
    assert [(each.name, each.value, each.config_source) for each in result.configs] == [(SESSION, "50000", 8)]
    (result,) = (await world.ask(describe(METRICS, "m", "interval.ms"), 4)).results
    assert [(each.value, each.config_source) for each in result.configs] == [("1000", 7)]
    assert await listed(world, GROUP, METRICS) == [(METRICS, "m"), (GROUP, "g/ü")]
    assert await listed(world, version=0) == [(METRICS, "m")]
    gone = [alter(GROUP, "g/ü", (SESSION, DELETE, None)), alter(METRICS, "m", ("interval.ms", DELETE, None))]
    assert await change(world, *gone) == [ErrorCode.NONE, ErrorCode.NONE]
    assert await listed(world, GROUP, METRICS) == []


async def test_a_group_that_nobody_has_made_shows_the_defaults(world: Any) -> None:
    (result,) = (await world.ask(describe(GROUP, "nobody"), 4)).results
    assert (result.error_code, len(result.configs)) == (ErrorCode.NONE, 17)
    assert {each.config_source for each in result.configs} == {5}


async def test_levels_of_loggers_change_and_show(world: Any) -> None:
    name = "kafkapy.configs.changes"
    logger = logging.getLogger(name)
    assert await change(world, alter(LOGGER, "1", (name, SET, "ERROR"))) == [ErrorCode.NONE]
    try:
        assert logger.getEffectiveLevel() == logging.ERROR
        (result,) = (await world.ask(describe(LOGGER, "1", name), 4)).results
        assert [(each.name, each.value, each.config_source) for each in result.configs] == [
            (name, "ERROR", 6)
        ]
        assert await change(world, alter(LOGGER, "2", (name, SET, "INFO"))) == [ErrorCode.INVALID_REQUEST]
    finally:
        assert await change(world, alter(LOGGER, "1", (name, DELETE, None))) == [ErrorCode.NONE]
    assert logger.level == logging.NOTSET


def replacement(name: str, *configs: tuple[str, str | None]) -> alter_configs.AlterConfigsResource:
    return alter_configs.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs],
    )


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
async def test_every_version_replaces_all_settings(world: Any, version: int) -> None:
    request = alter_configs.AlterConfigsRequest(
        resources=[replacement("t", ("segment.ms", "7")), replacement("absent", ("segment.ms", "7"))]
    )
    response = await world.ask(request, version)
    assert [(r.resource_name, r.error_code) for r in response.responses] == [
        ("t", ErrorCode.NONE),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert world.metadata.image.topics["t"].configs == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([("segment.ms", None)], "Null value not supported for : segment.ms"),
        ([("segment.ms", "1"), ("segment.ms", "2")], "Error due to duplicate config keys"),
    ],
)
async def test_a_malformed_replacement_is_refused(
    world: Any, configs: list[tuple[str, str | None]], message: str
) -> None:
    request = alter_configs.AlterConfigsRequest(resources=[replacement("t", *configs)])
    (response,) = (await world.ask(request, 2)).responses
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, message)


async def test_a_replacement_with_validation_alone_changes_nothing(world: Any) -> None:
    request = alter_configs.AlterConfigsRequest(resources=[replacement("t")], validate_only=True)
    (response,) = (await world.ask(request, 2)).responses
    assert response.error_code == ErrorCode.NONE
    assert world.metadata.image.topics["t"].configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("types", "resources"),
    [
        ([], [(2, "t"), (4, "1"), (8, "1")]),
        ([2], [(2, "t")]),
        ([16, 32], []),
    ],
)
async def test_resources_with_settings_are_listed_by_type(
    world: Any, types: list[int], resources: list[tuple[int, str]]
) -> None:
    response = await world.ask(ListConfigResourcesRequest(resource_types=types), 1)
    assert response.error_code == ErrorCode.NONE
    assert [(r.resource_type, r.resource_name) for r in response.config_resources] == resources


async def test_a_resource_type_that_does_not_exist_is_refused(world: Any) -> None:
    response = await world.ask(ListConfigResourcesRequest(resource_types=[2, 99]), 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
