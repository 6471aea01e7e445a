"""ShareAcknowledge: say what became of records of a share group (KIP-932).

Versions: 1-2.

Behaviour:

- A member accepts, releases or rejects records that it has acquired, or says that offsets have no records.
  The answer waits until this is committed in `__share_group_state`.
- A partition with an error gets its own code, and nothing of it has changed: INVALID_RECORD_STATE, the member
  has not acquired the records, or no more; INVALID_REQUEST, the offsets make no sense. The others are served.
- The request belongs to a share session. Epoch -1 ends it, and what the member has acquired and not
  acknowledged is available to others.

Version notes:

- v2 lets members renew the locks of records (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.leader_hints import LeaderHints
from kafkapy.handlers.per_partition import answer_by_topic
from kafkapy.handlers.share_acknowledgements import acknowledgements_of, refused, require_member
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kafkapy.protocol.types import Uuid
from kafkapy.share.sessions import FIRST_EPOCH, LAST_EPOCH
from kafkapy.share.share_partition import Acknowledgement
from kafkapy.share.state_records import ShareKey


async def handle(context: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """Hand over what the member says, and answer for each partition."""
    turns, sessions, led = context.broker.turns, context.broker.shares.sessions, context.broker.shares.led
    try:
        group_id, member_id = require_member(request.group_id, request.member_id)
        if request.share_session_epoch == FIRST_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if request.share_session_epoch == LAST_EPOCH:
            session = sessions.require(group_id, member_id)
        else:
            session = sessions.next(group_id, member_id, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    acknowledgements, errors = await turns.finish(_said(context, request, group_id))
    good = {key: batches for key, batches in acknowledgements.items() if key not in errors and batches}
    errors.update(await led.acknowledge(group_id, member_id, good, turns.begin()))
    if request.share_session_epoch == LAST_EPOCH:
        sessions.end(session)
    return await turns.finish(_response(context, acknowledgements, errors, led.settings.lock_ms(group_id)))


def _said(
    context: RequestContext, request: ShareAcknowledgeRequest, group_id: str
) -> Steps[tuple[Mapping[ShareKey, Sequence[Acknowledgement]], dict[ShareKey, KafkaError]]]:
    """The acknowledgements by share partition, and the errors of those without sense."""
    said = yield from acknowledgements_of(group_id, request.topics)
    version, renews = context.api_version, request.is_renew_ack
    return said, (yield from refused(context, said, version=version, renews=renews))


def _response(
    context: RequestContext,
    said: Iterable[ShareKey],
    errors: Mapping[ShareKey, KafkaError],
    lock_ms: int,
) -> Steps[ShareAcknowledgeResponse]:
    hints = LeaderHints(context, LeaderIdAndEpoch, NodeEndpoint)

    def answer(key: ShareKey) -> tuple[Uuid, PartitionData]:
        data = PartitionData(partition_index=key.partition)
        error = errors.get(key)
        if error is not None:
            data.error_code, data.error_message = error.code, error.message
            hints.add(data, context.broker.metadata.image.topic_name(key.topic_id), key.partition)
        return key.topic_id, data

    topics = yield from answer_by_topic(
        said,
        answer,
        lambda topic, answers: ShareAcknowledgeTopicResponse(topic_id=topic, partitions=answers),
    )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms, responses=topics, node_endpoints=hints.endpoints()
    )
