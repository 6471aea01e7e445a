from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.network.raw_client import RawClient

SHA_256, SHA_512 = 1, 2


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"password"
    )


def deletion(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    client: RawClient,
    *upsertions: ScramCredentialUpsertion,
    deletions: Sequence[ScramCredentialDeletion] = (),
) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    return [(each.user, each.error_code) for each in client.ask(request, 0).results]


def described(client: RawClient) -> dict[str, list[tuple[int, int]]]:
    answer = client.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


def test_a_user_has_a_credential_for_each_mechanism(client: RawClient) -> None:
    assert alter(client, upsertion("both")) == [("both", ErrorCode.NONE)]
    assert alter(client, upsertion("both", SHA_512, 8192)) == [("both", ErrorCode.NONE)]
    assert described(client)["both"] == [(SHA_256, 4096), (SHA_512, 8192)]
    assert alter(client, deletions=[deletion("both")]) == [("both", ErrorCode.NONE)]
    assert described(client)["both"] == [(SHA_512, 8192)]
    assert alter(client, deletions=[deletion("both", SHA_512)]) == [("both", ErrorCode.NONE)]
    assert "both" not in described(client)


def test_wrong_changes_are_refused_each_with_its_error(client: RawClient) -> None:
    wrong = [upsertion("few", iterations=4095), upsertion("many", iterations=16385), upsertion("x", 3)]
    assert alter(client, *wrong, upsertion(""), upsertion("right"), deletions=[deletion("gone")]) == [
        ("gone", ErrorCode.RESOURCE_NOT_FOUND),
        ("few", ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("many", ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("x", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ("", ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("right", ErrorCode.NONE),
    ]
    assert described(client)["right"] == [(SHA_256, 4096)]


def test_a_user_is_named_once(client: RawClient) -> None:
    twice = alter(client, upsertion("twice"), upsertion("twice", SHA_512))
    assert twice == [("twice", ErrorCode.DUPLICATE_RESOURCE)]
    assert "twice" not in described(client)


def test_of_a_user_that_is_named_twice_the_first_mistake_is_answered(client: RawClient) -> None:
    unknown, missing = (
        alter(client, upsertion("twice", 10), upsertion("twice")),
        alter(client, upsertion("twice"), deletions=[deletion("twice")]),
    )
    assert unknown == [("twice", ErrorCode.UNSUPPORTED_SASL_MECHANISM)]
    assert missing == [("twice", ErrorCode.RESOURCE_NOT_FOUND)]
    assert alter(client, upsertion(""), upsertion("")) == [("", ErrorCode.UNACCEPTABLE_CREDENTIAL)]
    assert alter(client, upsertion("twice"), upsertion("twice", 10)) == [
        ("twice", ErrorCode.DUPLICATE_RESOURCE)
    ]
