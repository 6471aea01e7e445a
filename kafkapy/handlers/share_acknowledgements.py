"""The acknowledgements of members, which ShareFetch and ShareAcknowledge have in common.

Source: Apache Kafka's KafkaApis (validateAcknowledgementBatches, handleAcknowledgements).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkapy.groups.share.heartbeat import MAX_MEMBER_ID
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, answer_in_steps
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages import share_acknowledge, share_fetch
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.share.share_partition import RENEW, Acknowledgement
from kafkapy.share.state_records import ShareKey

FIRST_VERSION_WITH_RENEWALS: Final = 2

Topic = share_fetch.FetchTopic | share_acknowledge.AcknowledgeTopic
Partition = share_fetch.FetchPartition | share_acknowledge.AcknowledgePartition
Batch = share_fetch.AcknowledgementBatch | share_acknowledge.AcknowledgementBatch


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
    """The acknowledgements of a request for each share partition that it names."""
    found: dict[ShareKey, list[Acknowledgement]] = {}

    def read_topic(topic: Topic) -> Steps[None]:
        def read_partition(data: Partition) -> Steps[None]:
            batches: Sequence[Batch] = data.acknowledgement_batches
            found[ShareKey(group_id, topic.topic_id, data.partition_index)] = yield from answer_each(
                batches,
                lambda each: Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types),
            )

        partitions: Sequence[Partition] = topic.partitions
        yield from answer_in_steps(partitions, read_partition)

    named: Sequence[Topic] = topics
    yield from answer_in_steps(named, read_topic)
    return found


def refused(
    context: RequestContext,
    acknowledgements: Mapping[ShareKey, Sequence[Acknowledgement]],
    *,
    version: int,
    renews: bool,
) -> Steps[dict[ShareKey, KafkaError]]:
    """The errors of what must not reach the share partitions."""
    errors = {}
    most = RENEW if version >= FIRST_VERSION_WITH_RENEWALS else RENEW - 1

    def check(key: ShareKey) -> Steps[None]:
        topic = context.broker.metadata.image.topics_by_id.get(key.topic_id)
        if topic is None:
            errors[key] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        elif not (yield from _are_valid(acknowledgements[key], most, renews=renews)):
            errors[key] = KafkaError(ErrorCode.INVALID_REQUEST)
        elif not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            errors[key] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= key.partition < len(topic.partitions):
            errors[key] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    yield from answer_in_steps(acknowledgements, check)
    return errors


def _are_valid(batches: Iterable[Acknowledgement], most: int, *, renews: bool) -> Steps[bool]:
    end = -1

    def is_invalid(batch: Acknowledgement) -> bool | None:
        nonlocal end
        first, last, types = batch
        is_whole = end <= first <= last and types and len(types) in (1, last - first + 1)
        end = last
        is_known = is_whole and min(types) >= 0 and max(types) <= most and (renews or RENEW not in types)
        return None if is_known else True

    return not (yield from answer_each(batches, is_invalid))
