"""ApiVersions, and the table that it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from kafkapy import handlers
from kafkapy.handlers.api_versions import unsupported_version
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_partition import AlterPartitionRequest
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.types import ApiKey
from tests.network.harness import Harness, serving
from tests.network.raw_client import RawClient


@pytest.fixture
def client() -> Iterator[RawClient]:
    harness: Harness
    with serving() as harness, RawClient(harness.address) as connected:
        yield connected


def ask(client: RawClient, version: int, **fields: object) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    for name, value in fields.items():
        setattr(request, name, value)
    response = client.ask(request, version)
    assert isinstance(response, ApiVersionsResponse)
    return response


def test_the_table_is_sorted_and_its_versions_exist() -> None:
    assert all(one.key < other.key for one, other in pairwise(handlers.APIS))
    for api in handlers.APIS:
        endpoint = handlers.endpoint(api.key)
        for message_class in (endpoint.request_class, endpoint.response_class):
            versions = schema_of(message_class).versions
            assert api.min_version in versions, api
            assert api.max_version in versions, api


def test_a_broker_of_a_cluster_serves_more_than_a_sole_one() -> None:
    assert all(one.key < other.key for one, other in pairwise(handlers.IN_CLUSTER))
    assert set(handlers.APIS) < set(handlers.IN_CLUSTER)
    sole, clustered = (unsupported_version(clustered=each, telemetry=True).api_keys for each in (False, True))
    assert [each.api_key for each in sole] == [api.key for api in handlers.APIS]
    assert [each.api_key for each in clustered] == [api.key for api in handlers.IN_CLUSTER]
    for api in handlers.BETWEEN_BROKERS:
        endpoint = handlers.endpoint(api.key)
        for message_class in (endpoint.request_class, endpoint.response_class):
            assert {api.min_version, api.max_version} <= set(schema_of(message_class).versions), api


def test_a_sole_broker_does_not_answer_what_brokers_ask_each_other(client: RawClient) -> None:
    with pytest.raises(ConnectionError):
        client.ask(AlterPartitionRequest(), 3)


@pytest.mark.parametrize("version", range(2))
def test_a_sasl_handshake_is_answered_with_an_error(client: RawClient, version: int) -> None:
    answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert ask(client, 4).error_code == ErrorCode.NONE, "the connection stays"


@pytest.mark.parametrize("version", range(3))
def test_a_sasl_login_is_answered_with_an_error(client: RawClient, version: int) -> None:
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), version)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")


@pytest.mark.parametrize("version", range(6))
def test_every_version_is_answered_with_the_whole_table(client: RawClient, version: int) -> None:
    response = ask(client, version)
    assert response.error_code == ErrorCode.NONE
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [
        (api.key, api.min_version, api.max_version)
        for api in handlers.served(clustered=False, telemetry=False).values()
    ]


@pytest.mark.parametrize("version", range(6))
def test_features_have_the_levels_of_kafka_4_3(client: RawClient, version: int) -> None:
    response = ask(client, version)
    supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    metadata, replicas = "metadata.version", "eligible.leader.replicas.version"
    groups, shares, streams = "group.version", "share.version", "streams.version"
    transactions = "transaction.version"
    levels = {metadata: 30, replicas: 1, groups: 1, shares: 1, streams: 1, transactions: 2}
    assert finalized == ({} if version < 3 else levels)
    # Clients of before v4 take a lowest level of 0 for a mistake.
    from_0 = {replicas: (0, 1), groups: (0, 1), shares: (0, 1), streams: (0, 1), transactions: (0, 2)}
    lowest = from_0 if version >= 4 else {}
    assert supported == ({} if version < 3 else {metadata: (7, 30), **lowest})


def test_librdkafka_finds_the_produce_versions_without_which_it_does_not_produce(client: RawClient) -> None:
    (produce,) = (api for api in ask(client, 0).api_keys if api.api_key == ApiKey.PRODUCE)
    assert produce.min_version == 0


@pytest.mark.parametrize("name", ["", "-raw", "raw!", "a b", "raw-", "r\0"])
def test_client_software_must_be_named_like_software(client: RawClient, name: str) -> None:
    assert ask(client, 3, client_software_name=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(client, 3, client_software_version=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(client, 2).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("test-cluster", 1, ErrorCode.NONE),
        ("test-cluster", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("test-cluster", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_that_means_another_broker_is_told_so(
    client: RawClient, cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    assert ask(client, 5, cluster_id=cluster_id, node_id=node_id).error_code == error
