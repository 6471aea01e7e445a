"""FindCoordinator: this broker coordinates every group and every transactional id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from tests.handlers.group_client import find_coordinator
from tests.network.raw_client import RawClient

TRANSACTION, SHARE = 1, 2


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_where_the_client_is_already(
    kafka_broker: kafkapy.Broker, client: RawClient, version: int
) -> None:
    response = find_coordinator(client, "g", version=version)
    coordinator = response.coordinators[0] if version >= 4 else response
    assert coordinator.error_code == ErrorCode.NONE
    assert f"{coordinator.host}:{coordinator.port}" == kafka_broker.bootstrap_servers
    assert coordinator.node_id == kafka_broker.core.node_id


def test_several_groups_are_found_at_once(client: RawClient) -> None:
    coordinators = find_coordinator(client, "a", "b", "").coordinators
    assert [(each.key, each.error_code) for each in coordinators] == [("a", 0), ("b", 0), ("", 0)]


@pytest.mark.parametrize("version", [1, 6])
def test_a_transactional_id_has_a_coordinator_too(
    kafka_broker: kafkapy.Broker, client: RawClient, version: int
) -> None:
    response = find_coordinator(client, "tx", version=version, key_type=TRANSACTION)
    coordinator = response.coordinators[0] if version >= 4 else response
    assert coordinator.error_code == ErrorCode.NONE
    assert f"{coordinator.host}:{coordinator.port}" == kafka_broker.bootstrap_servers
    assert "__transaction_state" in kafka_broker.core.metadata.image.topics


@pytest.mark.parametrize("key_type", [SHARE, 3, -1])
def test_other_coordinators_do_not_exist(client: RawClient, key_type: int) -> None:
    (coordinator,) = find_coordinator(client, "x", version=6, key_type=key_type).coordinators
    assert coordinator.error_code == ErrorCode.INVALID_REQUEST
