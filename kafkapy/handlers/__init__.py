"""The handlers of requests, and the only table of what this broker supports.

ApiVersions, the documentation and the tests derive from the table. A row names an API, its versions and the
module in this folder that answers it. Modules are imported when the first request of their kind comes, so
that starting does not wait for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.types import ApiKey


@dataclass(frozen=True, slots=True)
class Api:
    """A supported API.

    `abandon`: it changes nothing, so that it ends when its client goes away.
    """

    key: ApiKey
    min_version: int
    max_version: int
    module: str
    abandon: bool = False


# Sorted by key.
APIS: Final = (
    Api(ApiKey.PRODUCE, 0, 13, "produce"),
    Api(ApiKey.FETCH, 0, 18, "fetch", abandon=True),
    Api(ApiKey.LIST_OFFSETS, 0, 11, "list_offsets"),
    Api(ApiKey.METADATA, 0, 13, "metadata"),
    Api(ApiKey.OFFSET_COMMIT, 0, 10, "offset_commit"),
    Api(ApiKey.OFFSET_FETCH, 0, 10, "offset_fetch"),
    Api(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator"),
    Api(ApiKey.JOIN_GROUP, 0, 9, "join_group"),
    Api(ApiKey.HEARTBEAT, 0, 4, "heartbeat"),
    Api(ApiKey.LEAVE_GROUP, 0, 5, "leave_group"),
    Api(ApiKey.SYNC_GROUP, 0, 5, "sync_group"),
    Api(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups"),
    Api(ApiKey.LIST_GROUPS, 0, 5, "list_groups"),
    Api(ApiKey.API_VERSIONS, 0, 5, "api_versions"),
    Api(ApiKey.CREATE_TOPICS, 0, 7, "create_topics"),
    Api(ApiKey.DELETE_TOPICS, 0, 6, "delete_topics"),
    Api(ApiKey.DELETE_RECORDS, 0, 2, "delete_records"),
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, "offset_for_leader_epoch"),
    Api(ApiKey.DESCRIBE_ACLS, 0, 3, "describe_acls"),
    Api(ApiKey.CREATE_ACLS, 0, 3, "create_acls"),
    Api(ApiKey.DELETE_ACLS, 0, 3, "delete_acls"),
    Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, "describe_configs"),
    Api(ApiKey.ALTER_CONFIGS, 0, 2, "alter_configs"),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, "alter_replica_log_dirs"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, "describe_log_dirs", abandon=True),
    Api(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions"),
    Api(ApiKey.DELETE_GROUPS, 0, 3, "delete_groups"),
    Api(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders"),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs"),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "alter_partition_reassignments"),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments", abandon=True),
    Api(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete"),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "describe_client_quotas"),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "alter_client_quotas"),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "describe_user_scram_credentials"),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster"),
    Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "list_config_resources"),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe_topic_partitions"),
)

BY_KEY: Final[dict[int, Api]] = {api.key: api for api in APIS}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API with its module loaded."""

    api: Api
    request_class: Any
    response_class: Any
    handle: Callable[..., Any]

    @property
    def abandon(self) -> bool:
        """Whether a request changes nothing, so that it ends when its client goes away."""
        return self.api.abandon


@cache
def endpoint(api_key: int) -> Endpoint:
    """The loaded API of this key; KeyError for an API that is not in the table."""
    api = BY_KEY[api_key]
    module = import_module(f"kafkapy.handlers.{api.module}")
    return Endpoint(api, request_class(api.key), response_class(api.key), module.handle)
