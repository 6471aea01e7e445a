"""Fetch: read records, as slices of files that the connection sends with sendfile.

Versions: 0-18.

Behaviour:

- Each partition is read up to its own max bytes and to what is left of the request's. The first partition
  that has records may exceed both limits by one batch, so that a consumer always makes progress.
- Readers see what is below the high watermark. With read_committed they see what is below the last stable
  offset, together with the aborted transactions in what they read.
- The answer waits while there are fewer than min bytes, for max wait at most. An error, or a partition that
  is not served any more, is answered at once.
- A partition with an error gets its own error code; the others go on.
- A replica id means a follower. This broker has none and refuses it with NOT_LEADER_OR_FOLLOWER, so that no
  client can pass for one (CVE-2018-1288).
- fetch/sessions.py holds the fetch sessions (KIP-227), and fetch/read.py the pass over the partitions.

Version notes:

- v0-3 are answered with message sets (fetch/message_sets.py): v0-1 with magic 0, v2-3 with magic 1. They
  get UNSUPPORTED_VERSION where `log.message.downconversion.enable` is false.
- v0-2 have no limit for the whole answer, and the limit of each partition is a hard one.
- v7 adds sessions.
- v9 adds leader epochs.
- v10 is the first version whose clients are sure to know zstd. Before it, a topic with
  `compression.type=zstd` is UNSUPPORTED_COMPRESSION_TYPE, and so is a batch with zstd in v0-3.
- v12 adds the last fetched epoch. Where the log was truncated, the answer says where the epochs diverge.
- v13 has topic ids instead of names.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kafkapy.fetch.message_sets import MessageSetRead
from kafkapy.fetch.read import FetchRead
from kafkapy.handlers.context import RequestContext
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse

FIRST_VERSION_WITH_BATCHES = 4


def handle(context: RequestContext, request: FetchRequest) -> Steps[FetchResponse | Awaitable[FetchResponse]]:
    """Read what is there; wait when it is too little."""
    broker = context.broker
    try:
        fetch = yield from broker.fetch_sessions.begin(
            request, context.api_version, broker.metadata.image.topic_name
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if context.api_version < FIRST_VERSION_WITH_BATCHES:
        return MessageSetRead(broker, context.api_version, request, fetch).answer()
    read = FetchRead(broker, context.api_version, request, fetch)
    try:
        yield from read.run()
        if request.max_wait_ms <= 0 or read.is_enough or not fetch.targets:
            return (yield from read.response())
    except BaseException:
        read.release()
        raise
    read.release()
    return _wait(context, read, request.max_wait_ms / 1000)


async def _wait(context: RequestContext, read: FetchRead, seconds: float) -> FetchResponse:
    """Answer when there is enough, or with what there is when the time is over."""
    try:
        await read.wait(seconds)
        return await context.broker.turns.finish(read.response())
    except BaseException:
        read.release()
        raise
