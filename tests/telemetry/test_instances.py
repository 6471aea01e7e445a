"""When a client may ask for its subscription, and push."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.telemetry.instances import ClientInstance, ClientInstances
from kafkapy.telemetry.subscriptions import Asked, Subscriptions

NOW = 1_000_000_000
ALL = Subscriptions({"all": {"metrics": "*"}})
ASKED = Asked(("*",), 1_000)


class FakeConnection:
    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def when_closed(self, call: Callable[[], object]) -> None:
        self.calls.append(call)

    def close(self) -> None:
        for call in self.calls:
            call()


def client(number: int) -> bytes:
    return number.to_bytes(16)


def push(instance: ClientInstance, now_ms: int, *, terminating: bool = False, other: int = 0) -> ErrorCode:
    number = instance.subscription_id + other
    return instance.refusal(now_ms, subscription_id=number, terminating=terminating)


@pytest.fixture
def instance() -> ClientInstance:
    made = ClientInstance(client(7), ALL, ASKED)
    assert made.may_get(NOW)
    return made


def test_a_client_may_ask_again_after_its_interval(instance: ClientInstance) -> None:
    assert not instance.may_get(NOW + 999)
    assert instance.may_get(NOW + 1_000)


def test_the_first_push_may_be_early_and_the_next_ones_may_not(instance: ClientInstance) -> None:
    assert push(instance, NOW + 1) is ErrorCode.NONE
    assert push(instance, NOW + 1_000) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(instance, NOW + 1_001) is ErrorCode.NONE
    assert not instance.may_get(NOW + 2_000)


def test_the_last_push_may_be_early_and_nothing_comes_after_it(instance: ClientInstance) -> None:
    assert push(instance, NOW + 1) is ErrorCode.NONE
    assert push(instance, NOW + 2, terminating=True) is ErrorCode.NONE
    assert push(instance, NOW + 9_000) is ErrorCode.INVALID_REQUEST


def test_another_subscription_is_unknown(instance: ClientInstance) -> None:
    assert push(instance, NOW + 1, other=1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_an_instance_is_forgotten_with_its_connection() -> None:
    all_instances, connection = ClientInstances(), FakeConnection()
    all_instances.put(client(7), connection, ClientInstance(client(7), ALL, ASKED), NOW)
    assert client(7) in all_instances
    connection.close()
    assert len(all_instances) == 0


def test_a_connection_has_one_instance() -> None:
    all_instances, connection = ClientInstances(), FakeConnection()
    for number in range(1_000):
        all_instances.put(client(number), connection, ClientInstance(client(number), ALL, ASKED), NOW)
    assert len(all_instances) == 1
    assert len(connection.calls) == 1


def test_the_one_that_asked_least_recently_gives_way() -> None:
    all_instances = ClientInstances()
    all_instances.most = 2
    for number in (1, 2):
        made = ClientInstance(client(number), ALL, ASKED)
        all_instances.put(client(number), FakeConnection(), made, NOW)
    assert all_instances.find(client(1), ALL, NOW + 1) is not None
    all_instances.put(client(3), FakeConnection(), ClientInstance(client(3), ALL, ASKED), NOW)
    assert [client(number) in all_instances for number in (1, 2, 3)] == [True, False, True]


def test_an_instance_is_forgotten_after_a_silence() -> None:
    all_instances = ClientInstances()
    all_instances.put(client(7), FakeConnection(), ClientInstance(client(7), ALL, ASKED), NOW)
    assert all_instances.find(client(7), ALL, NOW + 50_000) is not None
    all_instances.expire(NOW + 109_999)
    assert client(7) in all_instances
    assert all_instances.find(client(7), ALL, NOW + 110_000) is None
    all_instances.expire(NOW + 110_000)
    assert client(7) not in all_instances


def test_with_other_subscriptions_an_instance_is_made_anew() -> None:
    all_instances = ClientInstances()
    all_instances.put(client(7), FakeConnection(), ClientInstance(client(7), ALL, ASKED), NOW)
    assert all_instances.find(client(7), Subscriptions({}), NOW) is None
