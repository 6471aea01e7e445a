"""Requests of any API and version that name one topic, one group and one transactional id.

They are built from the schemas, so that an API that is added to the table is tried too.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.schema import Struct
from kafkapy.protocol.types import ZERO_UUID, ApiKey
from tests.handlers.produce_client import batch


class Names(NamedTuple):
    topic: str
    group: str
    transactional_id: str
    topic_id: bytes = ZERO_UUID
    owner: str = "nobody"
    """The owner of a delegation token."""


TOPIC_FIELDS = {"name", "topic", "topic_name", "resource_name"}
OF_CONFIGS = {"configs.name": "retention.ms", "configs.value": "1000"}
OF_API: dict[int, dict[str, Any]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: {"entity_type": "user", "entity_name": "u", "key": "producer_byte_rate"},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entity_type": "user", "match_type": 2},
    ApiKey.CREATE_ACLS: {"resource_type": 2, "operation": 3, "permission_type": 3, "principal": "User:x"},
    ApiKey.DELETE_ACLS: {"resource_type_filter": 3, "operation": 1, "permission_type": 1},
    ApiKey.DESCRIBE_ACLS: {"resource_type_filter": 3, "operation": 1, "permission_type": 1},
    ApiKey.UPDATE_FEATURES: {"feature": "metadata.version", "max_version_level": 1},
    ApiKey.API_VERSIONS: {"client_software_name": "n", "client_software_version": "1"},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"path": "/nowhere"},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {"topology": None},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": [2]},
}
VALUES: dict[str, Any] = {
    "acks": -1,
    "assignments": [],
    "allow_auto_topic_creation": False,
    "acknowledgement_batches": [],
    "aborted_transactions": [],
    "forgotten_topics_data": [],
    "generation_id_or_member_epoch": -1,
    "isr": [0],
    "current_leader_epoch": -1,
    "member_id": "member",
    "metadata": b"",
    "num_partitions": 1,
    "partition_max_bytes": 1_000,
    "max_bytes": 1_000,
    "producer_id": -1,
    "producer_epoch": -1,
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 10_000,
    "replica_id": -1,
    "replication_factor": 1,
    "replicas": [1],
    "resource_type": 2,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "server_assignor": None,
    "state_filters": [],
    "states_filter": [],
    "types_filter": [],
    "producer_id_filters": [],
    "timestamp": -1,
    "timeout_ms": 1_000,
    "transaction_timeout_ms": 60_000,
    "validate_only": True,
    "configuration_keys": None,
    "log_start_offset": -1,
    "rack_id": "",
    "topology": None,
    "subscribed_topic_regex": None,
    "broker_epoch": -1,
    "replica_epoch": -1,
}


def sample(api_key: int, version: int, names: Names, *, by_id: bool = False, **values: Any) -> TopMessage:
    """A request that names these; by the topic's id instead of its name if it can."""
    cls = request_class(ApiKey(api_key))
    values = {
        **VALUES,
        "group_id": names.group,
        "groups": [names.group],
        "group_ids": [names.group],
        "groups_names": [names.group],
        "key": names.group,
        "coordinator_keys": [names.group],
        "transactional_id": names.transactional_id,
        "v3_and_below_transactional_id": names.transactional_id,
        "transactional_ids": [names.transactional_id],
        "owner_principal_type": "User",
        "owner_principal_name": names.owner,
        "owners": None,
        "renewers": [],
        "topic_names": [] if by_id else [names.topic],
        "subscribed_topic_names": [names.topic],
        "records": batch(b"v"),
        **OF_API.get(api_key, {}),
        **values,
    }
    made = _struct(import_module(cls.__module__), schema_of(cls).root, version, names, by_id, values, "")
    assert isinstance(made, TopMessage)
    return made


def _struct(
    module: Any, struct: Struct, version: int, names: Names, by_id: bool, values: dict[str, Any], parent: str
) -> Message:
    made: Message = getattr(module, struct.class_name)()
    fields = [field for field in struct.fields if version in field.versions]
    has_name = any(field.name in TOPIC_FIELDS and not field.is_array for field in fields)
    for field in fields:
        of_configs = OF_CONFIGS.get(f"{parent}.{field.name}")
        if of_configs is not None:
            setattr(made, field.name, of_configs)
        elif field.name == "groups" and field.struct is not None:
            setattr(
                made, field.name, [_struct(module, field.struct, version, names, by_id, values, "groups")]
            )
        elif field.name in values:
            setattr(made, field.name, values[field.name])
        elif field.name == "topic_id":
            setattr(made, field.name, names.topic_id if by_id or not has_name else ZERO_UUID)
        elif field.name in TOPIC_FIELDS and not field.is_array:
            has_id = any(each.name == "topic_id" for each in fields)
            name = None if by_id and has_id else names.topic
            setattr(made, field.name, name)
        elif field.is_array and field.struct is not None:
            element = _struct(module, field.struct, version, names, by_id, values, field.name)
            setattr(made, field.name, [element])
        elif field.is_array:
            setattr(made, field.name, [0] if field.type.startswith("int") else [])
    return made


def codes(response: Any) -> set[int]:
    """All errors in an answer."""
    return {value for name, value in _values(response) if name.endswith("error_code")}


def _values(message: Any) -> Iterator[tuple[str, Any]]:
    for name in type(message).__slots__:
        value = getattr(message, name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Message):
                yield from _values(each)
            else:
                yield name, each
