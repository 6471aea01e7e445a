"""Fetch: read records, as slices of files that the connection sends with sendfile.

Versions: 0-18.

Behaviour:

- Each partition is read up to its own max bytes and to what is left of the request's. The first partition
  that has records may exceed both limits by one batch, so that a consumer always makes progress.
- Readers see what is below the high watermark. With read_committed they see what is below the last stable
  offset, together with the aborted transactions in what they read.
- The answer waits while there are fewer than min bytes, for max wait at most. An error, or a partition that
  is not served any more, is answered at once.
- A partition with an error gets its own error code; the others are served.
- While a replica in sync is silent, an offset out of range is NOT_LEADER_OR_FOLLOWER: another broker may
  lead, and have the offset (`Leader.may_be_deposed`).
- With `replica.selector.class`, a consumer that names its rack is sent to a replica there
  (fetch/nearest_replica.py, KIP-392).
- Consumers need READ on a topic, and followers CLUSTER_ACTION on the cluster; otherwise a partition is
  TOPIC_AUTHORIZATION_FAILED. An ACL that is taken away stops a fetch session with its next records.
- A replica id means a follower, which reads to the end of the log (fetch/follower_read.py). One that has no
  replica of the partition is refused, so that no client can pass for one (CVE-2018-1288).
- A consumer that exceeds a quota is answered without records, and with the time for which it is throttled
  (kafkapy/quotas). Its session stays as it was. An answer holds no more than its quota allows in all windows
  but one, so that the pause is no longer than the windows. Followers are exempt.
- fetch/sessions.py holds the fetch sessions (KIP-227), and fetch/read.py the pass over the partitions.

Version notes:

- v0-3 are answered with message sets (fetch/message_sets.py): v0-1 with magic 0, v2-3 with magic 1. They
  get UNSUPPORTED_VERSION where `log.message.downconversion.enable` is false. Followers are refused.
- v0-2 have no limit for the complete answer, and the limit of each partition is a hard one.
- v7 adds sessions.
- v9 adds leader epochs.
- v10 is the first version whose clients are sure to know zstd. Before it, a topic with
  `compression.type=zstd` is UNSUPPORTED_COMPRESSION_TYPE, and so is a batch with zstd in v0-3.
- v11 lets consumers read from followers, up to the high watermark that these know (KIP-392).
- v12 adds the last fetched epoch. Where the log was truncated, the answer says where the epochs diverge.
- v13 has topic ids instead of names.
- v15 has the epoch of the follower's broker beside its id (KIP-903).
- v16 adds the current leader, with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kafkapy.fetch.follower_read import FollowerRead, replica_of
from kafkapy.fetch.message_sets import MessageSetRead
from kafkapy.fetch.read import FetchRead
from kafkapy.fetch.sessions import FetchContext
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.leader_hints import LeaderHints
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch, NodeEndpoint
from kafkapy.security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from kafkapy.quotas.managers import QuotaManagers

FIRST_VERSION_WITH_BATCHES = 4
FIRST_VERSION_WITH_LEADERS = 16


def handle(context: RequestContext, request: FetchRequest) -> Steps[FetchResponse | Awaitable[FetchResponse]]:
    """Read the partitions, and wait if there are too few bytes."""
    broker = context.broker
    try:
        fetch = yield from broker.fetch_sessions.begin(request, context.api_version, broker.topic_name)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    is_follower = replica_of(request)[0] >= 0
    may_read = _rights(context, is_follower=is_follower)
    if context.api_version < FIRST_VERSION_WITH_BATCHES:
        messages = MessageSetRead(broker, context.api_version, request, fetch, may_read)
        if broker.quotas is not None:
            _apply_quotas(broker.quotas, context, request, messages)
        return messages.answer()
    reader = FollowerRead if is_follower else FetchRead
    read = reader(broker, context.api_version, request, fetch, may_read)
    if broker.quotas is not None:
        _apply_quotas(broker.quotas, context, request, read)
    try:
        yield from read.run()
        if read.is_complete and _is_enough(request, read, fetch):
            return _with_leaders(context, read, (yield from read.response()))
    except BaseException:
        read.release()
        raise
    is_complete = read.is_complete
    read.release()  # what is cancelled before it begins releases nothing
    return _go_on(context, request, read, fetch, is_complete)


def _rights(context: RequestContext, *, is_follower: bool) -> Callable[[str], bool] | None:
    """Whether the client may read a topic; None if it may read all."""
    if context.unrestricted:
        return None
    if is_follower:
        return None if context.may_on_cluster(Operation.CLUSTER_ACTION) else lambda _: False
    return lambda topic: context.may(Operation.READ, ResourceType.TOPIC, topic)


def _apply_quotas(
    quotas: QuotaManagers, context: RequestContext, request: FetchRequest, read: FetchRead
) -> None:
    """Limit what a consumer reads by its quotas; followers are exempt."""
    header, principal = context.header, context.principal
    if context.broker.clustered and replica_of(request)[0] >= 0:
        header.is_exempt = True
        return
    most = quotas.most_fetched(principal, header.client_id)
    read.throttle_by(partial(quotas.throttle_fetch_ms, principal, header), most)


def _is_enough(request: FetchRequest, read: FetchRead, fetch: FetchContext) -> bool:
    return request.max_wait_ms <= 0 or read.is_enough or fetch.is_empty


async def _go_on(
    context: RequestContext, request: FetchRequest, read: FetchRead, fetch: FetchContext, is_complete: bool
) -> FetchResponse:
    """Answer when there are enough bytes, or when the request's time is over."""
    try:
        if not is_complete:
            await read.again()
        if is_complete or not _is_enough(request, read, fetch):
            read.release()
            await read.wait(request.max_wait_ms / 1000)
        return _with_leaders(context, read, await context.broker.turns.finish(read.response()))
    except BaseException:
        read.release()
        raise


def _with_leaders(context: RequestContext, read: FetchRead, response: FetchResponse) -> FetchResponse:
    """The response with the leaders of the partitions that this broker does not lead."""
    if not read.failed or context.api_version < FIRST_VERSION_WITH_LEADERS:
        return response
    hints = LeaderHints(context, LeaderIdAndEpoch, NodeEndpoint)
    for topic in response.responses:
        name = context.broker.metadata.image.topic_name(topic.topic_id)
        for data in topic.partitions:
            hints.add(data, name, data.partition_index)
    response.node_endpoints = hints.endpoints()
    return response
