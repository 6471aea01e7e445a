"""What the log shows of messages: no secrets, no records, and no more than a bound."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kafkapy.network.shown_message import ELEMENTS, HIDDEN, MOST_VALUES, shown_message
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkapy.protocol.schema import Field, Secret, Struct, load, modules

BROKER = 4

LOOKS_SECRET = re.compile(
    r"(?i)salt|passw|secret|hmac|auth|token|credential|key|private|signature|certificate"
)

NO_SECRETS = {
    "ApiKey",
    "ApiKeys",
    "AuthorizedOperations",
    "ClusterAuthorizedOperations",
    "ConfigurationKeys",
    "CoordinatorKeys",
    "CredentialInfos",
    "IncludeAuthorizedOperations",
    "IncludeClusterAuthorizedOperations",
    "IncludeTopicAuthorizedOperations",
    "IsFutureKey",
    "Key",  # the name of a group, of a quota, of a tag
    "key",
    "KeyType",
    "RequestApiKey",
    "TokenAuthenticated",
    "TokenId",  # the user name of a token; its HMAC is the password
    "TokenRequesterPrincipalName",
    "TokenRequesterPrincipalType",
    "Tokens",
    "TopicAuthorizedOperations",
}
"""The names that look like those of secrets, and are none."""


def every_struct() -> Iterator[tuple[str, Struct]]:
    """Each struct of each message, with its path."""

    def walk(path: str, struct: Struct) -> Iterator[tuple[str, Struct]]:
        yield path, struct
        for field in struct.fields:
            if field.struct is not None:
                yield from walk(f"{path}.{field.kafka_name}", field.struct)

    for module in modules():
        for name, schema in load(module).items():
            yield from walk(name, schema.root)


def every_field() -> Iterator[tuple[str, Field]]:
    for path, struct in every_struct():
        for field in struct.fields:
            yield f"{path}.{field.kafka_name}", field


def test_each_field_that_looks_like_a_secret_is_marked() -> None:
    unmarked = [
        path
        for path, field in every_field()
        if LOOKS_SECRET.search(field.kafka_name) and not field.secret and field.kafka_name not in NO_SECRETS
    ]
    assert unmarked == []
    names = {field.kafka_name for _, field in every_field()}
    assert names >= NO_SECRETS


def test_each_value_of_a_setting_is_marked() -> None:
    """Values of quotas are numbers; the topics of Streams have only settings of topics."""
    unmarked = [
        f"{path}.{field.kafka_name}"
        for path, struct in every_struct()
        for field in struct.fields
        if field.kafka_name.lower() == "value"
        and field.type == "string"
        and any(other.kafka_name == "Name" for other in struct.fields)
        and field.secret is not Secret.BY_NAME
    ]
    assert unmarked == []
    marked = [path for path, field in every_field() if field.secret is Secret.BY_NAME]
    assert len(marked) == 7


def shown(message: TopMessage, version: int) -> Any:
    return json.loads(json.dumps(shown_message(message, version)))


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2),
        (SaslAuthenticateResponse(auth_bytes=b"secret"), 2),
        (RenewDelegationTokenRequest(hmac=b"secret"), 2),
        (
            AlterUserScramCredentialsRequest(
                upsertions=[ScramCredentialUpsertion(name="a", salt=b"secret", salted_password=b"secret")]
            ),
            0,
        ),
    ],
)
def test_secrets_are_hidden_with_their_size(message: TopMessage, version: int) -> None:
    text = json.dumps(shown(message, version))
    assert HIDDEN in text
    assert "secret" not in text
    assert "bytes)" not in text


def test_values_of_settings_are_hidden_by_their_names() -> None:
    configs = [
        AlterableConfig(name="ssl.key.password", value="secret"),
        AlterableConfig(name="listener.name.ssl.ssl.keystore.key", value="secret"),
        AlterableConfig(name="of.a.plugin", value="secret"),
        AlterableConfig(name="log.retention.ms", value="7"),
        AlterableConfig(name="retention.ms", value="8"),
        AlterableConfig(name="consumer.session.timeout.ms", value="9"),
        AlterableConfig(name="sasl.jaas.config", value=None),
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
    (found,) = shown(AlterConfigsRequest(resources=[resource]), 2)["resources"]
    assert [each["value"] for each in found["configs"]] == [HIDDEN, HIDDEN, HIDDEN, "7", "8", "9", None]


def test_records_are_shown_by_their_size() -> None:
    data = [PartitionProduceData(index=3, records=memoryview(b"secret"))]
    request = ProduceRequest(
        acks=-1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    assert shown(request, 9) == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 5,
        "topicData": [{"name": "t", "partitionData": [{"index": 3, "records": "(6 bytes)"}]}],
    }


def test_a_message_has_the_fields_of_its_version() -> None:
    assert shown(MetadataRequest(topics=None), 1) == {"topics": None}
    assert shown(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 0).keys() == {"topics", "timeoutMs"}


def test_long_arrays_and_texts_are_shortened() -> None:
    topics = [MetadataRequestTopic(name=f"{index}" + "x" * 5000) for index in range(1000)]
    found = shown(MetadataRequest(topics=topics), 1)["topics"]
    assert found[ELEMENTS:] == ["… (1000 in all)"]
    assert len(found[0]["name"]) < 250


def test_a_message_has_a_bound_however_it_nests() -> None:
    partitions = [PartitionProduceData(index=index) for index in range(100)]
    topics = [TopicProduceData(name="t", partition_data=partitions) for _ in range(100)]
    text = json.dumps(shown(ProduceRequest(topic_data=topics), 9))
    assert text.count(":") < MOST_VALUES
    names = [AlterableConfig(name="x" * 5000, value="y") for _ in range(100)]
    resources = [AlterConfigsResource(resource_name="z" * 5000, configs=names) for _ in range(100)]
    assert len(json.dumps(shown(AlterConfigsRequest(resources=resources), 2))) < MOST_VALUES * 300
