"""An operator's policies decide which topics are created and which settings changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

import kafkapy
from kafkapy.broker.core import StartError
from kafkapy.configs.keys import ConfigError
from kafkapy.policies import ConfigRequest, TopicRequest
from kafkapy.policies import ConfigResource as Resource
from kafkapy.policies.calls import PolicyCalls
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tests.broker import operator_rules
from tests.broker.operator_rules import Breaks, Waits
from tests.network.raw_client import RawClient

RULES = "tests.broker.operator_rules"
CREATE, ALTER = "create.topic.policy.class.name", "alter.config.policy.class.name"


@pytest.fixture
def broker() -> Iterator[kafkapy.Broker]:
    operator_rules.asked.clear()
    operator_rules.closed.clear()
    settings = {CREATE: f"{RULES}:Prefix", ALTER: f"{RULES}:ShortRetention", "topic.prefix": "app."}
    with kafkapy.Broker(config=settings) as started:
        yield started


@pytest.fixture
def admin(broker: kafkapy.Broker) -> AdminClient:
    return client(broker)


def client(broker: kafkapy.Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def outcome(futures: dict[Any, Any]) -> list[tuple[int, str] | None]:
    """The error of each, or None."""
    errors: list[tuple[int, str] | None] = []
    for future in futures.values():
        try:
            future.result()
            errors.append(None)
        except KafkaException as error:
            errors.append((error.args[0].code(), error.args[0].str()))
    return errors


def refused(message: str) -> tuple[int, str]:
    return KafkaError.POLICY_VIOLATION, message


def test_a_topic_that_violates_the_policy_is_refused_with_its_message(admin: AdminClient) -> None:
    topics = [NewTopic("app.a", 1, 1), NewTopic("b", 1, 1)]
    assert outcome(admin.create_topics(topics)) == [None, refused("b does not begin with app.")]
    assert set(admin.list_topics(timeout=10).topics) == {"app.a"}


def replace_retention(
    broker: kafkapy.Broker, retention_ms: str, *, validate_only: bool = False
) -> str | None:
    """Ask for the only setting of app.a by AlterConfigs.

    Returns the message of a violated policy.
    """
    configs = [AlterableConfig(name="retention.ms", value=retention_ms)]
    resources = [AlterConfigsResource(resource_type=2, resource_name="app.a", configs=configs)]
    with RawClient(broker.bootstrap_servers) as raw:
        request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
        (answer,) = raw.ask(request, 1).responses
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.POLICY_VIOLATION)
    message: str | None = answer.error_message
    return message


def test_a_policy_is_asked_of_what_is_only_validated(broker: kafkapy.Broker, admin: AdminClient) -> None:
    futures = admin.create_topics([NewTopic("b", 1, 1)], validate_only=True)
    assert outcome(futures) == [refused("b does not begin with app.")]
    admin.create_topics([NewTopic("app.a", 1, 1)])["app.a"].result()
    assert replace_retention(broker, "5000", validate_only=True) == "retention.ms is too long"
    assert replace_retention(broker, "500", validate_only=True) is None


def test_a_policy_sees_what_kafkas_would(admin: AdminClient) -> None:
    topics = [
        NewTopic("app.a", 2, 1, config={"retention.ms": "5"}),
        NewTopic("app.b", -1, -1),
        NewTopic("app.c", 2, replica_assignment=[[1], [1]]),
    ]
    assert outcome(admin.create_topics(topics)) == [None] * 3
    assert operator_rules.asked == [
        TopicRequest("app.a", 2, 1, None, {"retention.ms": "5"}),
        TopicRequest("app.b", 1, 1, None, {}),
        TopicRequest("app.c", None, None, {0: (1,), 1: (1,)}, {}),
    ]


def test_a_policy_is_not_asked_of_what_is_wrong_anyway(admin: AdminClient) -> None:
    (error,) = outcome(admin.create_topics([NewTopic("b", 1, 5)]))
    assert error is not None
    assert error[0] == KafkaError.INVALID_REPLICATION_FACTOR
    assert operator_rules.asked == []


def test_topics_created_on_demand_need_the_policys_consent(admin: AdminClient) -> None:
    found = admin.list_topics("app.wanted", timeout=10).topics["app.wanted"]
    assert len(found.partitions) == 1
    refusal = admin.list_topics("other", timeout=10).topics["other"].error
    assert refusal is not None
    assert refusal.code() == KafkaError.POLICY_VIOLATION
    assert "other" not in admin.list_topics(timeout=10).topics


def test_a_change_of_settings_that_violates_the_policy_is_refused_with_its_message(
    broker: kafkapy.Broker, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("app.a", 1, 1)])["app.a"].result()
    operator_rules.asked.clear()
    assert replace_retention(broker, "2000") == "retention.ms is too long"
    entry = ConfigEntry("retention.ms", "3000", incremental_operation=AlterConfigOpType.SET)
    incremental = ConfigResource(ResourceType.TOPIC, "app.a", incremental_configs=[entry])
    assert outcome(admin.incremental_alter_configs([incremental])) == [refused("retention.ms is too long")]
    described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "app.a")])
    (configs,) = [future.result() for future in described.values()]
    assert configs["retention.ms"].value == "604800000"
    resource = Resource("TOPIC", "app.a")
    assert operator_rules.asked == [
        ConfigRequest(resource, {"retention.ms": "2000"}),
        ConfigRequest(resource, {"retention.ms": "3000"}),
    ]


def test_a_policy_sees_the_value_that_a_setting_is_to_get(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("app.a", 1, 1)])["app.a"].result()
    operator_rules.asked.clear()
    entries = [
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
    ]
    topic = ConfigResource(ResourceType.TOPIC, "app.a", incremental_configs=entries)
    number = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    of_broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[number])
    assert outcome(admin.incremental_alter_configs([topic])) == [None]
    assert outcome(admin.incremental_alter_configs([of_broker])) == [None]
    assert operator_rules.asked == [
        ConfigRequest(Resource("TOPIC", "app.a"), {"cleanup.policy": "delete,compact", "retention.ms": None}),
        ConfigRequest(Resource("BROKER", "1"), {"log.cleaner.threads": "2"}),
    ]


def test_policies_are_closed_when_the_broker_stops(
    broker: kafkapy.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.stop()
    assert operator_rules.closed == ["Prefix"]
    assert f"The policy of {ALTER} cannot be closed" in caplog.text


def test_a_policy_that_fails_refuses_the_topic_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with kafkapy.Broker(config={CREATE: f"{RULES}:Breaks"}) as broker:
        admin = client(broker)
        for _ in range(2):
            ((code, _),) = [error or (0, "") for error in outcome(admin.create_topics([NewTopic("a")]))]
            assert code == KafkaError.UNKNOWN
        assert admin.list_topics(timeout=10).topics == {}
    assert "SystemExit: 3" in caplog.text


def test_a_policy_that_takes_long_holds_up_no_other_request() -> None:
    operator_rules.hold.clear()
    operator_rules.held.clear()
    with kafkapy.Broker(config={CREATE: f"{RULES}:Waits"}) as broker:
        admin, other = client(broker), client(broker)
        creation = admin.create_topics([NewTopic("slow", 1, 1)])["slow"]
        assert operator_rules.held.wait(20)
        entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        assert outcome(other.incremental_alter_configs([change])) == [None]
        assert not creation.done()
        operator_rules.hold.set()
        creation.result()
        assert set(admin.list_topics(timeout=10).topics) == {"slow"}


async def test_requests_do_not_wait_for_ever_for_a_policy_that_hangs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    operator_rules.hold.clear()
    calls = PolicyCalls(Waits(), CREATE, patience=0.05, close_seconds=0.01)
    requests = [TopicRequest("a", 1, 1, None), TopicRequest("b", 1, 1, None)]
    first, second = await asyncio.gather(calls.refusals(requests), calls.refusals(requests))
    assert [error and error.code for error in [*first, *second]] == [ErrorCode.REQUEST_TIMED_OUT] * 4
    await calls.close()
    operator_rules.hold.set()
    assert f"The policy of {CREATE} has not closed; it is left" in caplog.text


async def test_what_a_policy_raises_stays_in_its_thread() -> None:
    calls = PolicyCalls(Breaks(), CREATE)
    (error,) = await calls.refusals([TopicRequest("a", 1, 1, None)])
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    await calls.close()


@pytest.mark.parametrize(
    ("setting", "name", "why"),
    [
        (CREATE, "no_such_module:Policy", "there is no Python module no_such_module; install it"),
        (CREATE, f"{RULES}:Missing", f"the module {RULES} has no class Missing; name one"),
        (CREATE, f"{RULES}:NOT_A_CLASS", f"the module {RULES} has no class NOT_A_CLASS; name one"),
        (ALTER, f"{RULES}:Prefix", "Prefix is not a subclass of AlterConfigPolicy; derive it from"),
        (CREATE, f"{RULES}:Abstract", "Abstract needs a method validate(self, request)"),
        (
            CREATE,
            f"{RULES}:Coroutine",
            "Coroutine needs a method validate(self, request), which is not a coroutine",
        ),
        (
            CREATE,
            f"{RULES}:RefusesSettings",
            "the policy cannot be configured: ValueError: topic.prefix is missing; correct its settings",
        ),
    ],
)
def test_a_policy_that_cannot_be_used_ends_the_start_with_one_line(setting: str, name: str, why: str) -> None:
    with pytest.raises(StartError) as failure, kafkapy.Broker(config={setting: name}):
        pass
    message = str(failure.value)
    assert message.startswith(f"{setting}={name}: {why}")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["com.example.Policy", "policies:", ":Policy", "a b:Policy"])
def test_what_is_no_python_class_is_a_wrong_setting(name: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a Python class, as module:Class"):
        kafkapy.Broker(config={CREATE: name}).start()
