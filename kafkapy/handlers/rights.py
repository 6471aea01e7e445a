"""What a client needs for each request, if there is an authorizer: the only table of it.

A rule has two parts. Its `gate` is checked in front of the handler (dispatch.py), by what the request itself
names: a group, a transactional id, or the cluster. A request without the right gets the answer of
refusals.py, and no handler sees it. Its `items` are what the handler asks for each topic or group that it
finds in the request, or would show in the answer, by `RequestContext.may`.

An API that is not in the table is refused. Source: Kafka's KafkaApis, ControllerApis, AclApis, ConfigHelper.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import ApiKey
from kafkapy.security.acls.model import CLUSTER_NAME, REFUSALS, Operation, ResourceType

LAST_VERSION: Final = 1_000

FIRST_VERSION_WITH_OWNER: Final = 3
"""The first version of CreateDelegationToken that can name another owner (KIP-373)."""


class Need(NamedTuple):
    """An operation on a resource."""

    resource_type: ResourceType
    operation: Operation
    field: str = ""
    """At the gate, the field of the request with the resource's name; a null in it needs nothing."""
    instead: Operation | None = None
    """Another operation that is enough."""
    first_version: int = 0
    last_version: int = LAST_VERSION

    @property
    def error(self) -> ErrorCode:
        """The answer to a client without the right."""
        return REFUSALS[self.resource_type]


class Rule(NamedTuple):
    """What one API needs."""

    gate: tuple[Need, ...] = ()
    items: tuple[Need, ...] = ()


def _cluster(operation: Operation, **options: Any) -> Need:
    return Need(ResourceType.CLUSTER, operation, **options)


def _topic(operation: Operation, **options: Any) -> Need:
    return Need(ResourceType.TOPIC, operation, **options)


def _group(operation: Operation, field: str = "") -> Need:
    return Need(ResourceType.GROUP, operation, field)


def _transactional_id(operation: Operation, field: str = "", **options: Any) -> Need:
    return Need(ResourceType.TRANSACTIONAL_ID, operation, field, **options)


_MEMBER: Final = _group(Operation.READ, "group_id")
_OPEN: Final = Rule()
_BETWEEN_BROKERS: Final = Rule(gate=(_cluster(Operation.CLUSTER_ACTION),))

RULES: Final[dict[int, Rule]] = {
    ApiKey.PRODUCE: Rule(items=(_transactional_id(Operation.WRITE), _topic(Operation.WRITE))),
    # A follower needs CLUSTER_ACTION, and is answered as a consumer without READ (CVE-2018-1288).
    ApiKey.FETCH: Rule(items=(_topic(Operation.READ),)),
    ApiKey.LIST_OFFSETS: Rule(items=(_topic(Operation.DESCRIBE),)),
    # With CREATE, of the topic or on the cluster, a topic is made that does not exist.
    ApiKey.METADATA: Rule(items=(_topic(Operation.DESCRIBE), _topic(Operation.CREATE))),
    ApiKey.LEADER_AND_ISR: _BETWEEN_BROKERS,
    ApiKey.STOP_REPLICA: _BETWEEN_BROKERS,
    ApiKey.UPDATE_METADATA: _BETWEEN_BROKERS,
    ApiKey.CONTROLLED_SHUTDOWN: _BETWEEN_BROKERS,
    ApiKey.OFFSET_COMMIT: Rule(gate=(_MEMBER,), items=(_topic(Operation.READ),)),
    ApiKey.OFFSET_FETCH: Rule(items=(_group(Operation.DESCRIBE), _topic(Operation.DESCRIBE))),
    ApiKey.FIND_COORDINATOR: Rule(
        items=(
            _group(Operation.DESCRIBE),
            _transactional_id(Operation.DESCRIBE),
            _cluster(Operation.CLUSTER_ACTION),
        )
    ),
    ApiKey.JOIN_GROUP: Rule(gate=(_MEMBER,)),
    ApiKey.HEARTBEAT: Rule(gate=(_MEMBER,)),
    ApiKey.LEAVE_GROUP: Rule(gate=(_MEMBER,)),
    ApiKey.SYNC_GROUP: Rule(gate=(_MEMBER,)),
    ApiKey.DESCRIBE_GROUPS: Rule(items=(_group(Operation.DESCRIBE),)),
    # DESCRIBE on the cluster shows all groups.
    ApiKey.LIST_GROUPS: Rule(items=(_group(Operation.DESCRIBE),)),
    ApiKey.SASL_HANDSHAKE: _OPEN,
    ApiKey.API_VERSIONS: _OPEN,
    # CREATE on the cluster is enough. DESCRIBE_CONFIGS shows the settings of the new topic.
    ApiKey.CREATE_TOPICS: Rule(items=(_topic(Operation.CREATE), _topic(Operation.DESCRIBE_CONFIGS))),
    # DELETE on the cluster is enough. Without DESCRIBE the answer names no topic.
    ApiKey.DELETE_TOPICS: Rule(items=(_topic(Operation.DELETE), _topic(Operation.DESCRIBE))),
    ApiKey.DELETE_RECORDS: Rule(items=(_topic(Operation.DELETE),)),
    # Without a transactional id, IDEMPOTENT_WRITE on the cluster or WRITE on some topic (KIP-679).
    ApiKey.INIT_PRODUCER_ID: Rule(
        gate=(_transactional_id(Operation.WRITE, "transactional_id"),),
        items=(_cluster(Operation.IDEMPOTENT_WRITE),),
    ),
    # CLUSTER_ACTION is enough, for followers.
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Rule(items=(_topic(Operation.DESCRIBE),)),
    ApiKey.ADD_PARTITIONS_TO_TXN: Rule(
        gate=(
            _cluster(Operation.CLUSTER_ACTION, first_version=4),
            _transactional_id(Operation.WRITE, "v3_and_below_transactional_id", last_version=3),
        ),
        items=(_topic(Operation.WRITE, last_version=3),),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Rule(
        gate=(_transactional_id(Operation.WRITE, "transactional_id"), _MEMBER),
    ),
    ApiKey.END_TXN: Rule(gate=(_transactional_id(Operation.WRITE, "transactional_id"),)),
    ApiKey.WRITE_TXN_MARKERS: Rule(
        gate=(_cluster(Operation.CLUSTER_ACTION, instead=Operation.ALTER),),
    ),
    ApiKey.TXN_OFFSET_COMMIT: Rule(
        gate=(_transactional_id(Operation.WRITE, "transactional_id"), _MEMBER),
        items=(_topic(Operation.READ),),
    ),
    ApiKey.DESCRIBE_ACLS: Rule(gate=(_cluster(Operation.DESCRIBE),)),
    ApiKey.CREATE_ACLS: Rule(gate=(_cluster(Operation.ALTER),)),
    ApiKey.DELETE_ACLS: Rule(gate=(_cluster(Operation.ALTER),)),
    ApiKey.DESCRIBE_CONFIGS: Rule(
        items=(
            _topic(Operation.DESCRIBE_CONFIGS),
            _group(Operation.DESCRIBE_CONFIGS),
            _cluster(Operation.DESCRIBE_CONFIGS),
        )
    ),
    ApiKey.ALTER_CONFIGS: Rule(
        items=(
            _topic(Operation.ALTER_CONFIGS),
            _group(Operation.ALTER_CONFIGS),
            _cluster(Operation.ALTER_CONFIGS),
        )
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Rule(gate=(_cluster(Operation.ALTER),)),
    ApiKey.DESCRIBE_LOG_DIRS: Rule(gate=(_cluster(Operation.DESCRIBE),)),
    ApiKey.SASL_AUTHENTICATE: _OPEN,
    ApiKey.CREATE_PARTITIONS: Rule(items=(_topic(Operation.ALTER),)),
    # A client may create tokens of its own. Whether it may renew one is decided by whom the token names.
    ApiKey.CREATE_DELEGATION_TOKEN: Rule(
        items=(
            Need(
                ResourceType.USER,
                Operation.CREATE_TOKENS,
                first_version=FIRST_VERSION_WITH_OWNER,
            ),
        )
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: _OPEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _OPEN,
    # A client sees the tokens that name it. One of the two rights shows others.
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Rule(
        items=(
            Need(ResourceType.DELEGATION_TOKEN, Operation.DESCRIBE),
            Need(ResourceType.USER, Operation.DESCRIBE_TOKENS),
        )
    ),
    ApiKey.DELETE_GROUPS: Rule(items=(_group(Operation.DELETE),)),
    ApiKey.ELECT_LEADERS: Rule(gate=(_cluster(Operation.ALTER),)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(
        items=(
            _topic(Operation.ALTER_CONFIGS),
            _group(Operation.ALTER_CONFIGS),
            _cluster(Operation.ALTER_CONFIGS),
        )
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Rule(gate=(_cluster(Operation.ALTER),)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Rule(gate=(_cluster(Operation.DESCRIBE),)),
    ApiKey.OFFSET_DELETE: Rule(gate=(_group(Operation.DELETE, "group_id"),), items=(_topic(Operation.READ),)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Rule(gate=(_cluster(Operation.DESCRIBE_CONFIGS),)),
    ApiKey.ALTER_CLIENT_QUOTAS: Rule(gate=(_cluster(Operation.ALTER_CONFIGS),)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Rule(gate=(_cluster(Operation.DESCRIBE),)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Rule(gate=(_cluster(Operation.ALTER),)),
    ApiKey.ALTER_PARTITION: _BETWEEN_BROKERS,
    ApiKey.UPDATE_FEATURES: Rule(gate=(_cluster(Operation.ALTER),)),
    # Everyone may see the brokers; the operations on the cluster need DESCRIBE.
    ApiKey.DESCRIBE_CLUSTER: _OPEN,
    ApiKey.DESCRIBE_PRODUCERS: Rule(items=(_topic(Operation.READ),)),
    ApiKey.DESCRIBE_TRANSACTIONS: Rule(
        items=(_transactional_id(Operation.DESCRIBE), _topic(Operation.DESCRIBE))
    ),
    ApiKey.LIST_TRANSACTIONS: Rule(items=(_transactional_id(Operation.DESCRIBE),)),
    ApiKey.ALLOCATE_PRODUCER_IDS: _BETWEEN_BROKERS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Rule(gate=(_MEMBER,), items=(_topic(Operation.DESCRIBE),)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Rule(items=(_group(Operation.DESCRIBE), _topic(Operation.DESCRIBE))),
    # Everyone may push metrics; whether they are asked for is a setting.
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _OPEN,
    ApiKey.PUSH_TELEMETRY: _OPEN,
    ApiKey.LIST_CONFIG_RESOURCES: Rule(gate=(_cluster(Operation.DESCRIBE_CONFIGS),)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rule(items=(_topic(Operation.DESCRIBE),)),
    ApiKey.SHARE_GROUP_HEARTBEAT: Rule(gate=(_MEMBER,), items=(_topic(Operation.DESCRIBE),)),
    ApiKey.SHARE_GROUP_DESCRIBE: Rule(items=(_group(Operation.DESCRIBE), _topic(Operation.DESCRIBE))),
    ApiKey.SHARE_FETCH: Rule(gate=(_MEMBER,), items=(_topic(Operation.READ),)),
    ApiKey.SHARE_ACKNOWLEDGE: Rule(gate=(_MEMBER,), items=(_topic(Operation.READ),)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _BETWEEN_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE: _BETWEEN_BROKERS,
    ApiKey.WRITE_SHARE_GROUP_STATE: _BETWEEN_BROKERS,
    ApiKey.DELETE_SHARE_GROUP_STATE: _BETWEEN_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _BETWEEN_BROKERS,
    # CREATE, of the topics or on the cluster, makes the internal topics of the application.
    ApiKey.STREAMS_GROUP_HEARTBEAT: Rule(
        gate=(_MEMBER,), items=(_topic(Operation.DESCRIBE), _topic(Operation.CREATE))
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: Rule(items=(_group(Operation.DESCRIBE), _topic(Operation.DESCRIBE))),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Rule(items=(_group(Operation.DESCRIBE), _topic(Operation.DESCRIBE))),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Rule(gate=(_MEMBER,), items=(_topic(Operation.READ),)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Rule(
        gate=(_group(Operation.DELETE, "group_id"),), items=(_topic(Operation.READ),)
    ),
}
"""The rules, in the order of the table of APIs."""


def refusal(context: RequestContext, request: Any) -> ErrorCode | None:
    """The error for a client that may not ask this; None if the handler may be called."""
    rule = RULES.get(context.api_key)
    if rule is None:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for need in rule.gate:
        if not need.first_version <= context.api_version <= need.last_version:
            continue
        name = getattr(request, need.field) if need.field else CLUSTER_NAME
        if name is None:
            continue
        if need.instead is not None and context.may(
            need.instead, need.resource_type, name, log_if_denied=False
        ):
            continue
        if not context.may(need.operation, need.resource_type, name):
            return need.error
    return None
