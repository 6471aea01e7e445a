"""How many connections an address may make in a second (KIP-612)."""

from __future__ import annotations

import time
from contextlib import ExitStack

import kafkapy
from kafkapy.network.connection_rates import MOST, ConnectionRates
from kafkapy.network.server import MOST_HELD
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually
from tests.quotas.quota_client import set_quota

HERE = "127.0.0.1"


def test_an_address_may_come_as_often_as_its_rate_allows_in_all_windows_but_one() -> None:
    rates = ConnectionRates(11, 1)
    rates.set_limits({HERE: 2, None: 1})
    assert [rates.seconds_to_wait(HERE, 100.0) for _ in range(21)] == [0.0] * 20 + [0.5]
    assert [rates.seconds_to_wait("10.0.0.1", 100.0) for _ in range(11)] == [0.0] * 10 + [1.0]
    assert rates.seconds_to_wait(HERE, 100.0) == 0.5  # those that were refused do not count
    assert rates.seconds_to_wait(HERE, 112.0) == 0.0


def test_an_address_has_one_rate_however_it_is_written() -> None:
    rates = ConnectionRates(2, 1)
    rates.set_limits({"0:0:0:0:0:0:0:1": 1})
    assert [rates.seconds_to_wait("::1", 100.0) for _ in range(2)] == [0.0, 1.0]
    assert rates.seconds_to_wait("::2", 100.0) == 0.0
    assert len(rates) == 1


def test_many_addresses_let_nothing_grow() -> None:
    rates = ConnectionRates(11, 1)
    rates.set_limits({None: 1})
    for number in range(MOST + 100):
        rates.seconds_to_wait(f"fe80::{number:x}", 100.0)
    assert len(rates) == MOST
    rates.seconds_to_wait(HERE, 100.0 + 3600)
    assert len(rates) == 1


def test_a_connection_beyond_the_rate_is_held_and_closed(kafka_broker: kafkapy.Broker) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as admin, ExitStack() as stack:
        set_quota(admin, "connection_creation_rate", 1, {"ip": HERE})
        served = [stack.enter_context(RawClient(kafka_broker.bootstrap_servers)) for _ in range(10)]
        for client in served:
            client.send(api_versions())
            assert correlation_ids(client, 1) == [7]
        began = time.monotonic()
        refused = stack.enter_context(RawClient(kafka_broker.bootstrap_servers))
        assert refused.is_closed()
        assert time.monotonic() - began > 0.9
        eventually(lambda: not kafka_broker.core.server.held, "it is let go")
        set_quota(admin, "connection_creation_rate", None, {"ip": HERE})
        client = stack.enter_context(RawClient(kafka_broker.bootstrap_servers))
        client.send(api_versions())
        assert correlation_ids(client, 1) == [7]


def test_a_flood_of_connections_is_held_up_to_a_number(kafka_broker: kafkapy.Broker) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as admin, ExitStack() as stack:
        set_quota(admin, "connection_creation_rate", 1, {"ip": None})
        most = 0
        for _ in range(MOST_HELD + 60):
            stack.enter_context(RawClient(kafka_broker.bootstrap_servers))
            most = max(most, len(kafka_broker.core.server.held))
        assert 0 < most <= MOST_HELD
        assert len(kafka_broker.core.server.connections) <= 12
