"""Paths and contents of the metadata tree's nodes, as in ZooKeeper with Kafka 3.9.

    /cluster/id                     {"version":"1","id":"<22 characters>"}
    /controller                     ephemeral: {"version":2,"brokerid":1,"timestamp":"…",…}
    /controller_epoch               "1"
    /brokers/ids/<id>               ephemeral: endpoints, rack, features (version 5)
    /brokers/seqid                  its version counts the generated broker ids
    /brokers/topics/<topic>         {"version":3,"topic_id":…,"partitions":{"0":[1]},"adding_replicas":{},…}
      …/partitions/<n>/state        {"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}
    /config/topics/<topic>          {"version":1,"config":{name: text}}
    /config/brokers/<id>            the same; <default> in place of the id: all brokers
    /config/groups/<group>          the same
    /config/client-metrics/<name>   the same, for a subscription to metrics of clients
    /config/users/<user>            quotas, the same form; <default>: users without quotas of their own
      …/clients/<client id>         quotas of a client of that user
    /config/users_salt_secret       64 digits that make the salts of users who do not exist. Apache Kafka
                                    does not know this node; its tool for access rights protects it
    /config/clients/<client id>     quotas of a client, for all of its users
    /config/ips/<address>           quotas of an address
    /config/changes/config_change_<n>   {"version":2,"entity_path":"topics/<topic>"}
    /admin/delete_topics/<topic>    marked for deletion
    /admin/preferred_replica_election   {"version":1,"partitions":[{"topic":…,"partition":0}]}: by hand
    /admin/reassign_partitions      the same, each with "replicas":[1,2]: by hand
    /feature                        {"version":2,"status":1,"features":{}}, see controller/feature_node.py
    /log_dir_event_notification/log_dir_event_<n>   {"version":1,"broker":1,"event":1}: a directory failed
    /isr_change_notification/isr_change_<n>   {"version":1,"partitions":[{"topic":…,"partition":0}]}: changed
                                    by their leaders, brokers that know no AlterPartition
    /controller_broker_epochs       {"version":1,"brokers":{"1":27}}: see encode_broker_epochs
    /latest_producer_id_block       {"version":1,"broker":1,"block_start":"0","block_end":"999"}
    /kafka-acl/<Type>/<name>        {"version":1,"acls":[…]}, see kafkapy/security/acls/nodes.py
    /kafka-acl-extended/prefixed/<Type>/<prefix>   the same, for names that begin so
    /kafka-acl-changes/acl_changes_<n>             notices for brokers of Apache Kafka, and
    /kafka-acl-extended-changes/acl_changes_<n>    those for prefixes
    /delegation_token/tokens/<id>   see metadata/delegation_tokens.py
    /delegation_token/token_changes/token_change_<n>   notices for brokers of Apache Kafka
    /consumers/<group>/…            those of consumers of Kafka 0.8 (kafkapy/groups/offsets/zookeeper.py)

Everything is UTF-8 JSON except the controller epoch, the secret and offsets. Below `/config`, names of
groups, subscriptions, users, clients and addresses are URL-encoded. Source: Kafka's ZkData.scala, ConfigType
and Sanitizer. Groups and client metrics have these names in ConfigType; Apache Kafka does not store them in
ZooKeeper.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from kafkapy.metadata.store import MetadataStoreError
from kafkapy.protocol.types import TopicPartition, Uuid, uuid_from_text, uuid_to_text

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
BROKER_SEQUENCE = "/brokers/seqid"
CONFIG = "/config"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
USER_CONFIGS = "/config/users"
SALT_SECRET = "/config/users_salt_secret"
CLIENT_CONFIGS = "/config/clients"
IP_CONFIGS = "/config/ips"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
FEATURE = "/feature"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
BROKER_EPOCHS = "/controller_broker_epochs"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
ACLS = "/kafka-acl"
EXTENDED_ACLS = "/kafka-acl-extended"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
DELEGATION_TOKEN = "/delegation_token"
DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES = "/delegation_token/token_changes"
DELEGATION_TOKEN_CHANGE_PREFIX = "/delegation_token/token_changes/token_change_"
DELEGATION_TOKEN_PARENTS = (DELEGATION_TOKEN, DELEGATION_TOKENS, DELEGATION_TOKEN_CHANGES)
CHANGES = (CONFIG_CHANGES, ACL_CHANGES, EXTENDED_ACL_CHANGES, DELEGATION_TOKEN_CHANGES)
"""Where notices tell brokers what to read again."""

SENSITIVE = (USER_CONFIGS, BROKER_CONFIGS, DELEGATION_TOKENS)
"""What begins with these holds what passwords and keys are made of. Source: ZkData.SensitiveRootPaths."""

PLAINTEXT = "PLAINTEXT"

DEFAULT_ENTITY = "<default>"
"""The name of the node with the settings of all brokers, or with the default quotas of a type."""

PERSISTENT_PATHS = (
    "/consumers",
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    BROKER_SEQUENCE,
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
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PRODUCER_ID_BLOCK,
)
"""The nodes of a new tree, parents first (ZkData.PersistentZkPaths, without access control)."""


class DamagedNodeError(MetadataStoreError):
    """The content of a node is not what Kafka writes there."""

    def __init__(self, path: str, data: bytes) -> None:
        shown = "[hidden]" if path.startswith(SENSITIVE) else repr(data[:80])
        super().__init__(f"the metadata node {path} cannot be understood: {shown}")
        self.path = path


class ReplicaAssignment(NamedTuple):
    """A partition's replicas, the preferred leader first.

    `adding` and `removing` are not empty during a reassignment.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


GAP = ReplicaAssignment(())
"""Stands for a partition that does not exist, between others that do."""

HIGHEST_PARTITION = 999_999
"""A node of 1 MB has room for fewer partitions, so a higher number is a mistake."""


class LeaderAndIsr(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery_state: int = 0
    """1 while the leader recovers from an unclean election (KIP-704), else 0."""


PRODUCER_ID_BLOCK_SIZE = 1000
UNKNOWN_PRODUCER_IDS = 1_000_000
"""How many ids after the highest one in the logs may belong to producers that the logs have forgotten."""


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
    """The name of the node for `name`: URL-encoded as by Kafka's Sanitizer.

    So are "." and "..", which no path of ZooKeeper may have; Apache Kafka fails with these.
    """
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The inverse of `sanitize`."""
    return unquote(name)


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


_to_json: Final = json.JSONEncoder(separators=(",", ":")).encode


def _encode(fields: Mapping[str, Any]) -> bytes:
    return _to_json(fields).encode()


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
    plaintext = next((e for e in info.endpoints if e.security_protocol == PLAINTEXT), None)
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
    """The broker in a node of version 1 (one endpoint) or 2 to 5."""
    fields = _decode(path, data)
    try:
        if "endpoints" not in fields:
            only = Endpoint(PLAINTEXT, str(fields["host"]), int(fields["port"]), PLAINTEXT)
            return BrokerInfo((only,), None)
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
    partitions, adding, removing = {}, {}, {}
    for number, each in enumerate(assignment):
        if each.replicas:
            partitions[str(number)] = each.replicas
        if each.adding:
            adding[str(number)] = each.adding
        if each.removing:
            removing[str(number)] = each.removing
    return _encode(
        {
            "version": 3,
            "topic_id": uuid_to_text(topic_id),
            "partitions": partitions,
            "adding_replicas": adding,
            "removing_replicas": removing,
        }
    )


def decode_topic(path: str, data: bytes) -> tuple[Uuid | None, tuple[ReplicaAssignment, ...]]:
    """The topic's id and the assignment of its partitions 0, 1, 2 …

    Versions 1 and 2, which somebody wrote by hand or a tool of Kafka before 2.8, have no id. A number without
    a partition has the assignment GAP.
    """
    fields = _decode(path, data)
    try:
        adding, removing = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
        assignment = {
            int(n): ReplicaAssignment(_ids(replicas), _ids(adding.get(n, ())), _ids(removing.get(n, ())))
            for n, replicas in fields["partitions"].items()
        }
        topic_id = fields.get("topic_id")
        highest = max(assignment, default=-1)
        if min(assignment, default=0) < 0 or highest > HIGHEST_PARTITION:
            raise DamagedNodeError(path, data)
        return (
            None if topic_id is None else uuid_from_text(topic_id),
            tuple(assignment.get(n, GAP) for n in range(highest + 1)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedNodeError(path, data) from None


@lru_cache(maxsize=256)
def encode_state(state: LeaderAndIsr) -> bytes:
    """The content of a partition's state; many partitions have the same."""
    fields: dict[str, Any] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": state.isr,
    }
    if state.recovery_state:
        fields["leader_recovery_state"] = state.recovery_state
    return _encode(fields)


def decode_state(path: str, data: bytes) -> LeaderAndIsr:
    fields = _decode(path, data)
    try:
        return LeaderAndIsr(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            _ids(fields["isr"]),
            int(fields["controller_epoch"]),
            int(fields.get("leader_recovery_state", 0)),
        )
    except (KeyError, TypeError, ValueError):
        raise DamagedNodeError(path, data) from None


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)}) if config else _NO_CONFIG


_NO_CONFIG: Final = _encode({"version": 1, "config": {}})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """The settings in a node; a tool may have made it without data."""
    config = _decode(path, data).get("config", {}) if data else {}
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


def decode_preferred_replica_election(data: bytes) -> list[TopicPartition]:
    """The partitions whose preferred replicas somebody wants to lead."""
    return list(_decode_partitions(PREFERRED_REPLICA_ELECTION, data))


def encode_reassignment(wanted: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    partitions = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for (topic, index), replicas in wanted.items()
    ]
    return _encode({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas that somebody wants for partitions."""
    try:
        found = _decode_partitions(REASSIGN_PARTITIONS, data)
        return {partition: _ids(fields["replicas"]) for partition, fields in found.items()}
    except (KeyError, TypeError, ValueError):
        raise DamagedNodeError(REASSIGN_PARTITIONS, data) from None


def _decode_partitions(path: str, data: bytes) -> dict[TopicPartition, dict[str, Any]]:
    try:
        return {
            TopicPartition(str(fields["topic"]), int(fields["partition"])): fields
            for fields in _decode(path, data)["partitions"]
        }
    except (KeyError, TypeError, ValueError):
        raise DamagedNodeError(path, data) from None


def encode_log_dir_event(broker_id: int) -> bytes:
    """The notice that a log directory of a broker failed."""
    return _encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> int:
    """The broker of which a log directory failed."""
    broker_id = _decode(path, data).get("broker")
    if not isinstance(broker_id, int):
        raise DamagedNodeError(path, data)
    return broker_id


def decode_isr_changes(path: str, data: bytes) -> list[TopicPartition]:
    """The partitions whose leaders have changed the in-sync replicas, says a notice."""
    return list(_decode_partitions(path, data))


def encode_broker_epochs(epochs: Mapping[int, int]) -> bytes:
    """The epochs of the brokers whose last registration the controllers have acted on.

    The next controller reads them. A broker with another epoch has started since then, so each partition that
    it is shown to lead needs a new leader epoch. Apache Kafka does not know this node.
    """
    return _encode({"version": 1, "brokers": {str(broker): epoch for broker, epoch in epochs.items()}})


def decode_broker_epochs(data: bytes) -> dict[int, int]:
    try:
        found = _decode(BROKER_EPOCHS, data)["brokers"]
        return {int(broker): int(epoch) for broker, epoch in found.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedNodeError(BROKER_EPOCHS, data) from None


def _ids(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
