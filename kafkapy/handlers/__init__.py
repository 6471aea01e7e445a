"""The handlers of requests, and the only table of what this broker supports.

ApiVersions, the documentation and the tests derive from the table. A row names an API, its versions and the
module in this folder that handles it. A module is imported at the first request for it, which keeps the start
short. Brokers of a cluster serve the requests of `BETWEEN_BROKERS` too. A sole broker neither announces nor
serves them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.types import ApiKey


class Api(NamedTuple):
    """A supported API.

    `abandon` means that requests only read, so they are cancelled when their client goes away.
    `coordinates` means that the handler needs the coordinators of groups, transactions or share groups.
    `telemetry` means that it is served while metrics are on.
    """

    key: ApiKey
    min_version: int
    max_version: int
    module: str
    abandon: bool = False
    coordinates: bool = False
    telemetry: bool = False


# Sorted by key.
APIS: Final = (
    Api(ApiKey.PRODUCE, 0, 13, "produce"),
    Api(ApiKey.FETCH, 0, 18, "fetch", abandon=True),
    Api(ApiKey.LIST_OFFSETS, 0, 11, "list_offsets"),
    Api(ApiKey.METADATA, 0, 13, "metadata"),
    Api(ApiKey.OFFSET_COMMIT, 0, 10, "offset_commit", coordinates=True),
    Api(ApiKey.OFFSET_FETCH, 0, 10, "offset_fetch", coordinates=True),
    Api(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator"),
    Api(ApiKey.JOIN_GROUP, 0, 9, "join_group", coordinates=True),
    Api(ApiKey.HEARTBEAT, 0, 4, "heartbeat", coordinates=True),
    Api(ApiKey.LEAVE_GROUP, 0, 5, "leave_group", coordinates=True),
    Api(ApiKey.SYNC_GROUP, 0, 5, "sync_group", coordinates=True),
    Api(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups", abandon=True, coordinates=True),
    Api(ApiKey.LIST_GROUPS, 0, 5, "list_groups", abandon=True, coordinates=True),
    Api(ApiKey.SASL_HANDSHAKE, 0, 1, "sasl_handshake"),
    Api(ApiKey.API_VERSIONS, 0, 5, "api_versions"),
    Api(ApiKey.CREATE_TOPICS, 0, 7, "create_topics"),
    Api(ApiKey.DELETE_TOPICS, 0, 6, "delete_topics"),
    Api(ApiKey.DELETE_RECORDS, 0, 2, "delete_records"),
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, "offset_for_leader_epoch"),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "add_partitions_to_txn", coordinates=True),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "add_offsets_to_txn", coordinates=True),
    Api(ApiKey.END_TXN, 0, 5, "end_txn", coordinates=True),
    Api(ApiKey.WRITE_TXN_MARKERS, 0, 2, "write_txn_markers", coordinates=True),
    Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, "txn_offset_commit", coordinates=True),
    Api(ApiKey.DESCRIBE_ACLS, 0, 3, "describe_acls"),
    Api(ApiKey.CREATE_ACLS, 0, 3, "create_acls"),
    Api(ApiKey.DELETE_ACLS, 0, 3, "delete_acls"),
    Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, "describe_configs", abandon=True),
    Api(ApiKey.ALTER_CONFIGS, 0, 2, "alter_configs"),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, "alter_replica_log_dirs"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, "describe_log_dirs", abandon=True),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2, "sasl_authenticate"),
    Api(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions"),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, "create_delegation_token"),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, "renew_delegation_token"),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, "expire_delegation_token"),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, "describe_delegation_token", abandon=True),
    Api(ApiKey.DELETE_GROUPS, 0, 3, "delete_groups", coordinates=True),
    Api(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders"),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs"),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "alter_partition_reassignments"),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments", abandon=True),
    Api(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", coordinates=True),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "describe_client_quotas"),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "alter_client_quotas"),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "describe_user_scram_credentials"),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "alter_user_scram_credentials"),
    Api(ApiKey.UPDATE_FEATURES, 0, 2, "update_features"),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster"),
    Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe_producers", abandon=True),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "describe_transactions", abandon=True, coordinates=True),
    Api(ApiKey.LIST_TRANSACTIONS, 0, 2, "list_transactions", abandon=True, coordinates=True),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "consumer_group_heartbeat", coordinates=True),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "consumer_group_describe", abandon=True, coordinates=True),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, "get_telemetry_subscriptions", telemetry=True),
    Api(ApiKey.PUSH_TELEMETRY, 0, 0, "push_telemetry", telemetry=True),
    Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "list_config_resources", abandon=True),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe_topic_partitions", abandon=True),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, "share_group_heartbeat", coordinates=True),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, "share_group_describe", abandon=True, coordinates=True),
    Api(ApiKey.SHARE_FETCH, 1, 2, "share_fetch", coordinates=True),
    Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, "share_acknowledge", coordinates=True),
    Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, "initialize_share_group_state", coordinates=True),
    Api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, "read_share_group_state", abandon=True, coordinates=True),
    Api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, "write_share_group_state", coordinates=True),
    Api(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, "delete_share_group_state", coordinates=True),
    Api(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        0,
        1,
        "read_share_group_state_summary",
        abandon=True,
        coordinates=True,
    ),
    Api(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, "streams_group_heartbeat", coordinates=True),
    Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, "streams_group_describe", abandon=True, coordinates=True),
    Api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        1,
        "describe_share_group_offsets",
        abandon=True,
        coordinates=True,
    ),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, "alter_share_group_offsets", coordinates=True),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, "delete_share_group_offsets", coordinates=True),
)

# What the brokers of a cluster ask each other, sorted by key.
BETWEEN_BROKERS: Final = (
    Api(ApiKey.LEADER_AND_ISR, 0, 7, "leader_and_isr"),
    Api(ApiKey.STOP_REPLICA, 0, 4, "stop_replica"),
    Api(ApiKey.UPDATE_METADATA, 0, 8, "update_metadata"),
    Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, "controlled_shutdown"),
    Api(ApiKey.ALTER_PARTITION, 0, 3, "alter_partition"),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, "allocate_producer_ids"),
)

IN_CLUSTER: Final = tuple(sorted((*APIS, *BETWEEN_BROKERS), key=lambda api: api.key))
"""The APIs of a broker of a cluster; a sole broker has `APIS`."""

BY_KEY: Final[dict[int, Api]] = {api.key: api for api in APIS}


@cache
def served(*, clustered: bool, telemetry: bool) -> dict[int, Api]:
    """The APIs that a broker serves, by key: more in a cluster, and while metrics are on."""
    apis = IN_CLUSTER if clustered else APIS
    return {api.key: api for api in apis if telemetry or not api.telemetry}


class Endpoint(NamedTuple):
    """An API with its module loaded."""

    api: Api
    request_class: Any
    response_class: Any
    handle: Callable[..., Any]

    @property
    def abandon(self) -> bool:
        """Whether requests only read, so that they are cancelled when their client goes away."""
        return self.api.abandon


@cache
def endpoint(api_key: int) -> Endpoint:
    """The loaded API of this key; KeyError for an API that is not in the table."""
    api = served(clustered=True, telemetry=True)[api_key]
    module = import_module(f"kafkapy.handlers.{api.module}")
    return Endpoint(api, request_class(api.key), response_class(api.key), module.handle)
