"""What Apache Kafka and its tools write into nodes is understood, whatever its version."""

from __future__ import annotations

import json

import pytest

from kafkapy.metadata import znodes
from kafkapy.metadata.znodes import (
    GAP,
    BrokerInfo,
    DamagedNodeError,
    Endpoint,
    ReplicaAssignment,
)
from kafkapy.protocol.types import uuid_from_text

TOPIC_ID = "mJ8a4l9tQ3iXoZ3pK5rT1w"


@pytest.mark.parametrize(
    ("fields", "topic_id", "assignment"),
    [
        ({"version": 1, "partitions": {"0": [1, 2]}}, None, [ReplicaAssignment((1, 2))]),
        (
            {
                "version": 2,
                "partitions": {"0": [1, 2]},
                "adding_replicas": {"0": [2]},
                "removing_replicas": {},
            },
            None,
            [ReplicaAssignment((1, 2), (2,))],
        ),
        (
            {
                "removing_replicas": {"1": [3]},
                "partitions": {"1": [2, 3], "0": [1]},
                "topic_id": TOPIC_ID,
                "adding_replicas": {},
                "version": 3,
            },
            TOPIC_ID,
            [ReplicaAssignment((1,)), ReplicaAssignment((2, 3), (), (3,))],
        ),
        ({"version": 1, "partitions": {}}, None, []),
        ({"version": 1, "partitions": {"2": [1]}}, None, [GAP, GAP, ReplicaAssignment((1,))]),
    ],
)
def test_a_topic_of_every_version(
    fields: dict[str, object], topic_id: str | None, assignment: list[ReplicaAssignment]
) -> None:
    found_id, found = znodes.decode_topic("/brokers/topics/t", json.dumps(fields).encode())
    assert found_id == (None if topic_id is None else uuid_from_text(topic_id))
    assert found == tuple(assignment)


def test_a_gap_is_not_written() -> None:
    data = znodes.encode_topic(
        uuid_from_text(TOPIC_ID), [ReplicaAssignment((1,)), GAP, ReplicaAssignment((2,))]
    )
    assert json.loads(data)["partitions"] == {"0": [1], "2": [2]}


@pytest.mark.parametrize(
    "partitions", ['{"-1":[1]}', '{"x":[1]}', '{"2000000000":[1]}', '{"0":["a"]}', '{"0":1}', "[]"]
)
def test_a_topic_that_cannot_be_is_damaged(partitions: str) -> None:
    with pytest.raises(DamagedNodeError, match="/brokers/topics/t cannot be understood"):
        znodes.decode_topic("/brokers/topics/t", b'{"version":1,"partitions":%s}' % partitions.encode())


@pytest.mark.parametrize(
    ("fields", "broker"),
    [
        ({"version": 1}, BrokerInfo((Endpoint("PLAINTEXT", "h", 9, "PLAINTEXT"),), None)),
        (
            {"version": 2, "endpoints": ["PLAINTEXT://h:9", "SSL://[::1]:10"]},
            BrokerInfo((Endpoint("PLAINTEXT", "h", 9, "PLAINTEXT"), Endpoint("SSL", "::1", 10, "SSL")), None),
        ),
        (
            {"version": 3, "endpoints": ["PLAINTEXT://h:9"], "rack": "r"},
            BrokerInfo((Endpoint("PLAINTEXT", "h", 9, "PLAINTEXT"),), "r"),
        ),
        *(
            (
                {
                    "version": version,
                    "endpoints": ["REPLICATION://h:9"],
                    "rack": "r",
                    "listener_security_protocol_map": {"REPLICATION": "PLAINTEXT"},
                    "features": {},
                },
                BrokerInfo((Endpoint("REPLICATION", "h", 9, "PLAINTEXT"),), "r"),
            )
            for version in (4, 5)
        ),
    ],
)
def test_a_broker_of_every_version(fields: dict[str, object], broker: BrokerInfo) -> None:
    common = {"host": "h", "port": 9, "jmx_port": 9999, "timestamp": "2233345666"}
    assert znodes.decode_broker("/brokers/ids/1", json.dumps({**common, **fields}).encode()) == broker


def test_a_partition_may_have_no_leader() -> None:
    data = (
        b'{"controller_epoch":4,"leader":-1,"version":1,"leader_epoch":7,"isr":[2],"leader_recovery_state":1}'
    )
    assert znodes.decode_state("/x", data) == (-1, 7, (2,), 4, 1)


def test_the_controller_of_a_migration_is_a_controller() -> None:
    data = b'{"version":2,"brokerid":3000,"timestamp":"-1","kraftControllerEpoch":5}'
    assert znodes.decode_controller(data) == 3000


@pytest.mark.parametrize("path", ["/config/users/alice", "/config/brokers/1", "/delegation_token/tokens/id"])
def test_a_damaged_node_with_secrets_is_not_shown(path: str) -> None:
    with pytest.raises(DamagedNodeError, match=r"cannot be understood: \[hidden\]$"):
        znodes.decode_config(path, b'{"config":{"SCRAM-SHA-256":"salt=a secret')


def test_settings_may_have_no_content() -> None:
    assert znodes.decode_config("/config/topics/t", b"") == {}
    assert znodes.decode_config("/config/topics/t", b'{"version":1}') == {}


@pytest.mark.parametrize("name", [".", "..", "...", "a.b", "a/b", "../x", "%2E", "~", "<default>", "😀"])
def test_any_name_of_a_client_is_that_of_a_node(name: str) -> None:
    node = znodes.sanitize(name)
    assert node not in (".", "..")
    assert "/" not in node
    assert znodes.desanitize(node) == name
