"""Paths and contents of the metadata tree's nodes, as Kafka 3.9 keeps them in ZooKeeper.

    /cluster/id                     {"version":"1","id":"<22 characters>"}
    /controller                     ephemeral: {"version":2,"brokerid":1,"timestamp":"…",…}
    /controller_epoch               "1"
    /brokers/ids/<id>               ephemeral: endpoints, rack, features (version 5)
    /brokers/topics/<topic>         {"version":3,"topic_id":…,"partitions":{"0":[1]},"adding_replicas":{},…}
      …/partitions/<n>/state        {"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}
    /config/topics/<topic>          {"version":1,"config":{name: text}}
    /config/brokers/<id>            the same; <default> in place of the id: all brokers
    /config/groups/<group>          the same
    /config/client-metrics/<name>   the same, for a subscription to metrics of clients
    /config/users/<user>            quotas, the same form; <default>: users that have none of their own
      …/clients/<client id>         quotas of a client of that user
    /config/clients/<client id>     quotas of a client, whoever its user is
    /config/ips/<address>           quotas of an address
    /config/changes/config_change_<n>   {"version":2,"entity_path":"topics/<topic>"}
    /admin/delete_topics/<topic>    marked for deletion
    /latest_producer_id_block       {"version":1,"broker":1,"block_start":"0","block_end":"999"}

Everything is UTF-8 JSON except the controller epoch. Names of groups, subscriptions, users, clients and
addresses are URL-encoded. Source: Kafka's ZkData.scala, ConfigType and Sanitizer; groups and client metrics
have these names in ConfigType, and no place in a ZooKeeper of Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from kafkapy.metadata.store import MetadataStoreError
from kafkapy.protocol.types import Uuid, uuid_from_text, uuid_to_text

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIG = "/config"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
USER_CONFIGS = "/config/users"
CLIENT_CONFIGS = "/config/clients"
IP_CONFIGS = "/config/ips"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

DEFAULT_ENTITY = "<default>"
"""The name of the node with the configs of all brokers."""

PERSISTENT_PATHS = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    CONFIG,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    IP_CONFIGS,
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    "/isr_change_notification",
    "/log_dir_event_notification",
    PRODUCER_ID_BLOCK,
)
"""What a cluster's tree starts with, parents first (ZkData.PersistentZkPaths, without access control)."""


class DamagedNodeError(MetadataStoreError):
    """A node holds something other than what Kafka writes there."""

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(f"the metadata node {path} cannot be understood: {data[:80]!r}")


class ReplicaAssignment(NamedTuple):
    """A partition's replicas, the preferred leader first.

    `adding` and `removing` are set while it is moved.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class LeaderAndIsr(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


PRODUCER_ID_BLOCK_SIZE = 1000
UNKNOWN_PRODUCER_IDS = 1_000_000
"""How many ids after the highest one in the logs may belong to producers that no log knows any more."""


class ProducerIdBlock(NamedTuple):
    broker_id: int
    first: int
    last: int


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        return f"{self.listener}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class BrokerInfo(NamedTuple):
    endpoints: tuple[Endpoint, ...]
    rack: str | None


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(name: str) -> str:
    """`name` is a broker id as text, or "" for the defaults of all brokers."""
    return f"{BROKER_CONFIGS}/{name or DEFAULT_ENTITY}"


def group_config_path(group: str) -> str:
    return f"{GROUP_CONFIGS}/{sanitize(group)}"


def client_metrics_config_path(subscription: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}/{sanitize(subscription)}"


def sanitize(name: str) -> str:
    """A name as that of a node: URL-encoded as Kafka's Sanitizer does it."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The name that the name of a node stands for."""
    return unquote(name)


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def _encode(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError:
        raise DamagedNodeError(path, data) from None
    if not isinstance(fields, dict):
        raise DamagedNodeError(path, data)
    return fields


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    cluster_id = _decode(CLUSTER_ID, data).get("id")
    if not isinstance(cluster_id, str):
        raise DamagedNodeError(CLUSTER_ID, data)
    return cluster_id


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return _encode(
        {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    broker_id = _decode(CONTROLLER, data).get("brokerid")
    if not isinstance(broker_id, int):
        raise DamagedNodeError(CONTROLLER, data)
    return broker_id


def encode_broker(info: BrokerInfo, now_ms: int) -> bytes:
    plaintext = next((e for e in info.endpoints if e.security_protocol == "PLAINTEXT"), None)
    fields: dict[str, Any] = {
        "version": 5,
        "host": plaintext.host if plaintext else None,
        "port": plaintext.port if plaintext else -1,
        "endpoints": [str(endpoint) for endpoint in info.endpoints],
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in info.endpoints},
        "features": {},
    }
    if info.rack is not None:
        fields["rack"] = info.rack
    return _encode(fields)


def decode_broker(path: str, data: bytes) -> BrokerInfo:
    fields = _decode(path, data)
    try:
        protocols = fields.get("listener_security_protocol_map", {})
        endpoints = []
        for text in fields["endpoints"]:
            listener, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            endpoints.append(
                Endpoint(listener, host.strip("[]"), int(port), protocols.get(listener, listener))
            )
        return BrokerInfo(tuple(endpoints), fields.get("rack"))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedNodeError(path, data) from None


def encode_topic(topic_id: Uuid, assignment: Sequence[ReplicaAssignment]) -> bytes:
    return _encode(
        {
            "version": 3,
            "topic_id": uuid_to_text(topic_id),
            "partitions": {str(n): partition.replicas for n, partition in enumerate(assignment)},
            "adding_replicas": {str(n): p.adding for n, p in enumerate(assignment) if p.adding},
            "removing_replicas": {str(n): p.removing for n, p in enumerate(assignment) if p.removing},
        }
    )


def decode_topic(path: str, data: bytes) -> tuple[Uuid | None, tuple[ReplicaAssignment, ...]]:
    """The topic's id and the assignment of its partitions 0, 1, 2 …

    A node that somebody wrote by hand, or a tool of Kafka before 2.8, has no id.
    """
    fields = _decode(path, data)
    try:
        adding, removing = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
        assignment = {
            int(n): ReplicaAssignment(_ids(replicas), _ids(adding.get(n, ())), _ids(removing.get(n, ())))
            for n, replicas in fields["partitions"].items()
        }
        topic_id = fields.get("topic_id")
        return (
            None if topic_id is None else uuid_from_text(topic_id),
            tuple(assignment[n] for n in range(len(assignment))),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedNodeError(path, data) from None


def encode_state(state: LeaderAndIsr) -> bytes:
    return _encode(
        {
            "version": 1,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "controller_epoch": state.controller_epoch,
            "isr": state.isr,
        }
    )


def decode_state(path: str, data: bytes) -> LeaderAndIsr:
    fields = _decode(path, data)
    try:
        return LeaderAndIsr(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            _ids(fields["isr"]),
            int(fields["controller_epoch"]),
        )
    except (KeyError, TypeError, ValueError):
        raise DamagedNodeError(path, data) from None


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    config = _decode(path, data).get("config", {})
    if not isinstance(config, dict) or not all(isinstance(value, str) for value in config.values()):
        raise DamagedNodeError(path, data)
    return config


def encode_config_change(entity_path: str) -> bytes:
    return _encode({"version": 2, "entity_path": entity_path})


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    fields = _decode(PRODUCER_ID_BLOCK, data)
    try:
        return ProducerIdBlock(int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"]))
    except (KeyError, TypeError, ValueError):
        raise DamagedNodeError(PRODUCER_ID_BLOCK, data) from None


def _ids(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
