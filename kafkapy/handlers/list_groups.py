"""ListGroups: list the groups that this broker coordinates.

Versions: 0-5.

Behaviour:

- All groups are listed, also those that only store offsets, whose protocol type is empty.
- They are in the order of Apache Kafka's hash tables (`hash_order.py`), by partition of `__consumer_offsets`.
- While some groups are still being loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS.
- The types of groups are classic, consumer, share and streams.
- The filters (v4+) ignore case. An unknown name matches nothing. A filter may say NotReady or not_ready.

Version notes:

- v4 filters by state (KIP-518).
- v5 filters by type (KIP-848).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.consumer.group import ConsumerGroupState
from kafkapy.groups.group import GroupType
from kafkapy.groups.share.group import ShareGroupState
from kafkapy.groups.streams.group import StreamsGroupState
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.hash_order import names_in_hash_order, partitions_in_hash_order
from kafkapy.handlers.per_partition import answer_each, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.security.acls.model import Operation, ResourceType

STATES: Final = frozenset(
    state.value.lower() for state in (*GroupState, *ConsumerGroupState, *ShareGroupState, *StreamsGroupState)
)
OTHER_NAMES: Final = {"not_ready": "notready"}
"""A name by which Apache Kafka's filter knows a state, and its name here."""
TYPES: Final = frozenset(kind.value for kind in GroupType)


def handle(context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the groups that pass the filters."""
    groups = context.broker.groups
    if groups.runtime.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    shows_all = context.may_on_cluster(Operation.DESCRIBE, log_if_denied=False)
    states = yield from _known(request.states_filter, STATES)
    types = yield from _known(request.types_filter, TYPES)
    by_partition: dict[int, list[str]] = {}

    def place(group_id: str) -> None:
        by_partition.setdefault(groups.runtime.partition_of(group_id), []).append(group_id)

    yield from visit_each(tuple(groups.groups), place)
    ids: list[str] = []
    for partition in partitions_in_hash_order(GROUP_METADATA_TOPIC, groups.runtime.active_partitions):
        ids += yield from names_in_hash_order(by_partition.get(partition, ()))

    def listed(group_id: str) -> ListedGroup | None:
        group = groups.groups.get(group_id)
        if group is None or group.state_name.lower() not in states or group.type.value not in types:
            return None
        if not shows_all and not context.may(
            Operation.DESCRIBE, ResourceType.GROUP, group_id, log_if_denied=False
        ):
            return None
        context.charge(4, len(group_id), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state_name,
            group_type=group.type.value,
        )

    try:
        return ListGroupsResponse(groups=(yield from answer_each(ids, listed)))
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)


def _known(names: Sequence[str], known: frozenset[str]) -> Steps[Collection[str]]:
    """Those of the names in a filter that exist: all of them if it is empty."""
    if not names:
        return known
    found = set()

    def find(name: str) -> None:
        lower = name.strip().lower()
        lower = OTHER_NAMES.get(lower, lower)
        if lower in known:
            found.add(lower)

    yield from visit_each(names, find)
    return found
