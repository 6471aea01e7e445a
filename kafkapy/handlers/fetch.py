"""Fetch: records from the log, by file slices that the connection sends with sendfile.

Versions: 0-18.

Behaviour: every partition is read up to its own max bytes and to what is left of the request's; the first
that has records may pass both limits by one batch, so that a consumer always gets on. Readers see what is
below the high watermark, or with read_committed below the last stable offset, together with the aborted
transactions in what they read. If fewer than min bytes are there, the answer waits for more, at most max
wait; an error, or a partition that goes away, is answered at once. A partition with an error gets its own
code and the rest go on.

Fetch sessions (KIP-227) are in fetch/sessions.py, the pass over the partitions is in fetch/read.py.

Version notes: v0-3 are answered with message sets (fetch/message_sets.py), v0-1 of magic 0 and v2-3 of magic
1, or with UNSUPPORTED_VERSION where `log.message.downconversion.enable` is false. v0-2 have no limit for the
whole answer, and each partition's is a hard one. Before v10 no client is sure to know zstd: a topic with
`compression.type=zstd`, and in v0-3 a batch with it, is UNSUPPORTED_COMPRESSION_TYPE. v7 sessions, v9 leader
epochs, v12 the epoch fetched last (a log that was cut answers where the epochs part), v13 topic ids instead
of names. A replica id means a follower: this broker has none, and refuses it with NOT_LEADER_OR_FOLLOWER, so
that no client can pass for one (CVE-2018-1288)."""

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
