"""What ShareFetch and ShareAcknowledge have in common: what members say of records.

Source: Apache Kafka's KafkaApis (validateAcknowledgementBatches, handleAcknowledgements).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages import share_acknowledge, share_fetch
from kafkapy.share.share_partition import RENEW, Acknowledgement
from kafkapy.share.state_records import ShareKey

FIRST_VERSION_WITH_RENEWALS: Final = 2
MAX_MEMBER_ID: Final = 36


def require_member(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """The group id and member id of a request; raises KafkaError INVALID_REQUEST."""
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return group_id, member_id


def acknowledgements_of(
    group_id: str, topics: Sequence[share_fetch.FetchTopic] | Sequence[share_acknowledge.AcknowledgeTopic]
) -> Steps[dict[ShareKey, list[Acknowledgement]]]:
    """What a request says of each share partition that it names."""
    found: dict[ShareKey, list[Acknowledgement]] = {}
    for topic in topics:
        yield
        for data in topic.partitions:
            yield
            batches = found[ShareKey(group_id, topic.topic_id, data.partition_index)] = []
            for each in data.acknowledgement_batches:
                yield
                batches.append(Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types))
    return found


def refused(
    broker: BrokerParts,
    acknowledgements: Mapping[ShareKey, Sequence[Acknowledgement]],
    *,
    version: int,
    renews: bool,
) -> Steps[dict[ShareKey, KafkaError]]:
    """The errors of what must not reach the share partitions."""
    errors = {}
    most = RENEW if version >= FIRST_VERSION_WITH_RENEWALS else RENEW - 1
    for key, batches in acknowledgements.items():
        yield
        topic = broker.metadata.image.topics_by_id.get(key.topic_id)
        if topic is None:
            errors[key] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        elif not (yield from _are_valid(batches, most, renews=renews)):
            errors[key] = KafkaError(ErrorCode.INVALID_REQUEST)
        elif not 0 <= key.partition < len(topic.partitions):
            errors[key] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return errors


def _are_valid(batches: Iterable[Acknowledgement], most: int, *, renews: bool) -> Steps[bool]:
    end = -1
    for first, last, types in batches:
        yield
        if not end <= first <= last or not types or len(types) not in (1, last - first + 1):
            return False
        if min(types) < 0 or max(types) > most or (RENEW in types and not renews):
            return False
        end = last
    return True


def current_leader(
    context: RequestContext, key: ShareKey, error: KafkaError | None, leaders: dict[int, Any]
) -> tuple[int, int] | None:
    """Who leads a partition, for a member that asked the wrong broker.

    The address joins `leaders`.
    """
    from kafkapy.handlers import leader_hints

    if error is None or error.code not in leader_hints.WRONG_LEADER:
        return None
    name = context.broker.metadata.image.topic_name(key.topic_id)
    leader = None if name is None else leader_hints.current_leader(context, name, key.partition)
    if leader is None:
        return None
    for node in leader_hints.endpoints(context, (leader.id,)):
        leaders[node.id] = node
    return leader.id, leader.epoch
