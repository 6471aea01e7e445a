"""Produce: append record batches to partitions.

Versions: 0-13.

Behaviour:

- The batch of each partition is validated, given offsets and appended, in the order of the request. A
  partition that refuses its batch gets its own error code; the others continue.
- acks=0 has no answer. An error closes the connection, which is all that the client can notice.
- acks=all is answered once the records are committed: all in-sync replicas have them, with `durability=fsync`
  on their disks. While fewer replicas are in sync than `min.insync.replicas`, it is NOT_ENOUGH_REPLICAS, or
  NOT_ENOUGH_REPLICAS_AFTER_APPEND.
- If a batch of an idempotent producer is refused for a while, its later ones that were in flight get the same
  error (replicas/refused_batches.py). In Apache Kafka they are OUT_OF_ORDER_SEQUENCE_NUMBER, or are taken.
- While a replica in sync is silent, and in the first minute of a leader with other replicas, a sequence
  number out of order is NOT_LEADER_OR_FOLLOWER: the batches in between may be elsewhere, or come again
  (`Leader.may_miss_batches`).
- acks=1 is answered once this broker has the records, with `durability=fsync` on its disk. If it has the only
  replica, they are committed then: a client that asks for the end of the log, or deletes records, right after
  its acknowledgement does not miss its own records, as aiokafka's default producer would.
- Before the first batch of a transaction is written to a partition, the transaction's coordinator is asked
  whether the partition is part of it (KIP-890). If it cannot say at present, the answer is
  NOT_ENOUGH_REPLICAS, with which a client sends the batch again. The connection's next request waits for the
  coordinator, so that a producer's batches stay in order.
- A client without WRITE on the transactional id may send no transactional batch: all batches of its request
  are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as in Apache Kafka.
- A transactional batch without a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- If the log directory of a batch takes no writes at present, the request waits for a second, and is then
  refused with KAFKA_STORAGE_ERROR (replicas/write_gate.py). The connection's next request waits for it.
- If this broker ceases to lead a partition, its records that still wait are answered with
  NOT_LEADER_OR_FOLLOWER.
- While an answer waits, the connection's next requests are handled. Answers keep the order of the requests.
- A request whose validation takes long is validated in a worker thread, when it is the connection's turn
  (loop/validation.py). That is so for large or many compressed batches, for batches that decompress to
  much, and for recompression. The connection's next request waits for it, so that a producer's batches stay
  in order.

Version notes:

- v0-2 carry message sets, with messages of magic 0 or 1 in any of these versions. A message set becomes a
  record batch (storage/log/up_conversion.py). One without a complete message stores nothing and is answered
  with offset -1.
- v7 allows zstd.
- v8 adds record errors.
- v10 adds the current leader, with NOT_LEADER_OR_FOLLOWER (KIP-951).
- v11 knows the error TRANSACTION_ABORTABLE for a partition that is not part of the transaction. Before it, it
  is INVALID_TXN_STATE.
- v12 adds the partition to the transaction: the client has not done so (KIP-890).
- v13 has topic ids instead of names.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.leader_hints import LeaderHints
from kafkapy.handlers.partition_write import FIRST_VERSION_THAT_ADDS, PartitionWrite
from kafkapy.loop.turns import Steps, freed
from kafkapy.loop.validation import TURN_SECONDS
from kafkapy.network.answers import Pipelined
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.replicas.write_gate import MOST_SECONDS
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.storage.log.validate import SLOW_AT_ONCE, decompressed_at_once, is_transactional
from kafkapy.transactions.verifier import Participation, Refusals

FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_THAT_KNOWS_ABORTABLE = 11

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
MOST_EXPECTED = 500
"""The most batches of a request whose answer is encoded ahead.

If none of them is refused, the answer holds some ten values for each (VALUES_AT_ONCE, loop/turns.py).
"""

Answer = ProduceResponse | None
Outcome = Answer | Pipelined


def handle(context: RequestContext, request: ProduceRequest) -> Steps[Outcome | Awaitable[Outcome]]:
    """Append the batches, and answer when the requested acknowledgement is due."""
    # The loops over batches are written out, without a step or a call for the first: most requests have no
    # other one, and clients wait for each of these requests.
    writes: list[PartitionWrite] = []
    slow, heavy = 0, False
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if writes:
                yield
            write = PartitionWrite(context, request, topic, partition)
            writes.append(write)
            slow += write.slow_bytes
            heavy |= write.is_heavy
    if request.transactional_id is not None and context.broker.authorizer is not None:
        yield from _require_transactional_id(context, request, writes)
    if slow <= SLOW_AT_ONCE and not heavy:
        most = decompressed_at_once() // len(writes) if slow else None
        now_ms = context.broker.clock.now_ms()
        if (yield from _settle(writes, now_ms, most)):
            if request.transactional_id is None:
                return (yield from _append(context, request, writes, now_ms))
            unverified = _begin_transactions(context, writes)
            refusals = _verify(context, request, unverified)
            if isinstance(refusals, dict):
                _refuse(unverified, refusals)
                return (yield from _append(context, request, writes, now_ms))
            context.connection.keep_frame()
            return _append_verified(context, request, writes, unverified, refusals)
    context.connection.keep_frame()
    return _settle_in_thread(context, request, writes)


def _require_transactional_id(
    context: RequestContext, request: ProduceRequest, writes: list[PartitionWrite]
) -> Steps[None]:
    """Refuse a transactional request of a client that may not use its id (CVE-2018-17196)."""
    if context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id or ""):
        return
    if (yield from _has_transactional_records(request)):
        for write in writes:
            yield
            write.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _has_transactional_records(request: ProduceRequest) -> Steps[bool]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            yield
            if isinstance(partition.records, memoryview) and is_transactional(partition.records):
                return True
    return False


def _settle(writes: list[PartitionWrite], now_ms: int, most: int | None) -> Steps[bool]:
    """Settle the writes; return whether all could be settled without a thread."""
    for number, write in enumerate(writes):
        if number:
            yield
        if not write.settle(now_ms, most):
            return False
    return True


async def _settle_in_thread(
    context: RequestContext, request: ProduceRequest, writes: list[PartitionWrite]
) -> Outcome:
    now_ms = context.broker.clock.now_ms()
    left = deque(write for write in writes if not write.is_settled)

    def settle_some() -> None:
        end = time.thread_time() + TURN_SECONDS
        while left and time.thread_time() < end:
            left.popleft().settle(now_ms)

    converts = any(write.is_message_set for write in left)
    async with context.broker.conversions if converts else contextlib.nullcontext():
        while left:
            await context.broker.validation.run(context.connection, settle_some)
    if request.transactional_id is not None:
        unverified = _begin_transactions(context, writes)
        refusals = _verify(context, request, unverified)
        return await _append_verified(context, request, writes, unverified, refusals)
    return await _append_in_turns(context, request, writes)


def _begin_transactions(context: RequestContext, writes: list[PartitionWrite]) -> list[PartitionWrite]:
    """Return the writes about which the transaction's coordinator must be asked."""
    now_ms = context.broker.clock.now_ms()
    transactional = [write for write in writes if write.is_transactional]
    if len({write.producer for write in transactional}) > 1:
        for write in writes:
            write.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return []
    return [write for write in transactional if write.begin_verification(now_ms)]


def _verify(
    context: RequestContext, request: ProduceRequest, unverified: list[PartitionWrite]
) -> Refusals | Awaitable[Refusals]:
    """Ask the transaction's coordinator, if there is something to ask."""
    if not unverified:
        return {}
    assert request.transactional_id is not None
    producer_id, producer_epoch = unverified[0].producer
    return context.broker.verifier.verify(
        Participation(
            request.transactional_id,
            producer_id,
            producer_epoch,
            [write.topic_partition for write in unverified],
            adds=context.api_version >= FIRST_VERSION_THAT_ADDS,
            knows_abortable=context.api_version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
        )
    )


def _refuse(unverified: list[PartitionWrite], refusals: Refusals) -> None:
    if refusals:
        for write in unverified:
            error = refusals.get(write.topic_partition)
            if error is not None:
                write.refuse(error)


async def _append_verified(
    context: RequestContext,
    request: ProduceRequest,
    writes: list[PartitionWrite],
    unverified: list[PartitionWrite],
    refusals: Refusals | Awaitable[Refusals],
) -> Outcome:
    """Append what the transaction's coordinator confirms; `refusals` is its answer."""
    while unverified:
        _refuse(unverified, refusals if isinstance(refusals, dict) else await refusals)
        now_ms = context.broker.clock.now_ms()
        unverified = [write for write in unverified if write.begin_verification_again(now_ms)]
        refusals = _verify(context, request, unverified)
    return await _append_in_turns(context, request, writes)


async def _append_in_turns(
    context: RequestContext, request: ProduceRequest, writes: list[PartitionWrite]
) -> Outcome:
    now_ms = context.broker.clock.now_ms()
    outcome = await context.broker.turns.finish(_append(context, request, writes, now_ms))
    return await outcome if isinstance(outcome, Awaitable) else outcome


def _append(
    context: RequestContext, request: ProduceRequest, writes: list[PartitionWrite], now_ms: int
) -> Steps[Outcome | Awaitable[Outcome]]:
    all_done = True
    for number, write in enumerate(writes):
        if number:
            yield
        all_done &= write.append(now_ms)
    if all_done:
        return (yield from _answer(context, request, writes))
    context.connection.keep_frame()
    return _append_later(context, request, writes)


async def _append_later(
    context: RequestContext, request: ProduceRequest, writes: list[PartitionWrite]
) -> Outcome:
    """Append what log directories do not take at present, or refuse it after a while."""
    broker = context.broker
    deadline = asyncio.get_running_loop().time() + min(request.timeout_ms / 1000, MOST_SECONDS)
    stuck = [write for write in writes if write.stuck is not None]
    while stuck and await broker.write_gate.wait(
        stuck[0].log_directory, sum(write.nbytes for write in stuck), deadline
    ):
        now_ms = broker.clock.now_ms()
        stuck = [write for write in stuck if not write.append(now_ms)]
    for write in stuck:
        write.refuse_stuck()
    return await broker.turns.finish(_answer(context, request, writes))


def _answer(context: RequestContext, request: ProduceRequest, writes: list[PartitionWrite]) -> Steps[Outcome]:
    """Answer when the requested acknowledgement is due."""
    if not request.acks:
        failed = next((write for write in writes if write.answer.error_code), None)
        if failed is not None:
            context.connection.close(f"Produce with acks=0 failed: {failed.describe()}")
        return None
    topics = yield from _topics(request, writes)
    waiting: list[PartitionWrite] = []
    for number, write in enumerate(writes):
        if number:
            yield
        if not write.is_acknowledged():
            waiting.append(write)
    if waiting:
        return _when_acknowledged(context, request, writes, topics, waiting)
    response = _response(context, writes, topics)
    yield from freed(writes)
    return response


def _topics(request: ProduceRequest, writes: list[PartitionWrite]) -> Steps[list[TopicProduceResponse]]:
    """The answers by topic."""
    answers = [write.answer for write in writes]
    topics: list[TopicProduceResponse] = []
    start = 0
    for topic in request.topic_data:
        if topics:
            yield
        end = start + len(topic.partition_data)
        found = answers[start:end]
        topics.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=found)
        )
        start = end
    return topics


def _when_acknowledged(
    context: RequestContext,
    request: ProduceRequest,
    writes: list[PartitionWrite],
    topics: list[TopicProduceResponse],
    waiting: list[PartitionWrite],
) -> Pipelined:
    """Answer when every batch is acknowledged, or at the request's timeout."""
    delayed = DelayedProduce(context, writes, topics, waiting)
    partitions = [write.partition for write in waiting]
    seconds = request.timeout_ms / 1000
    watch = context.broker.waiters.watch(partitions, seconds, delayed.all_acknowledged, delayed.answer)
    is_short = len(waiting) == len(writes) <= MOST_EXPECTED
    return Pipelined(watch, delayed.expected if is_short else None)


def _response(
    context: RequestContext, writes: list[PartitionWrite], topics: list[TopicProduceResponse]
) -> ProduceResponse:
    response = ProduceResponse(responses=topics)
    if context.api_version >= FIRST_VERSION_WITH_LEADERS:
        _add_leaders(context, response, writes)
    return response


def _add_leaders(context: RequestContext, response: ProduceResponse, writes: list[PartitionWrite]) -> None:
    """Name the leaders of the partitions that this broker does not lead."""
    elsewhere = [write for write in writes if write.answer.error_code == NOT_LEADER]
    if elsewhere:
        hints = LeaderHints(context, LeaderIdAndEpoch, NodeEndpoint)
        for write in elsewhere:
            hints.add(write.answer, write.topic, write.answer.index)
        response.node_endpoints = hints.endpoints()


class DelayedProduce:
    """A request whose batches are appended, and not yet acknowledged."""

    __slots__ = ("_context", "_expected", "_topics", "_waiting", "_writes")

    def __init__(
        self,
        context: RequestContext,
        writes: list[PartitionWrite],
        topics: list[TopicProduceResponse],
        waiting: list[PartitionWrite],
    ) -> None:
        self._context = context
        self._writes = writes
        self._topics = topics
        self._waiting = waiting
        """The batches that are not acknowledged yet."""
        self._expected: ProduceResponse | None = None
        """The answer if no batch fails from now on."""

    def expected(self) -> ProduceResponse:
        """The answer if all goes well."""
        self._expected = response = _response(self._context, self._writes, self._topics)
        return response

    def all_acknowledged(self) -> bool:
        """Whether no batch waits any more."""
        waiting = self._waiting
        while waiting and waiting[-1].is_acknowledged():
            if waiting.pop().answer.error_code:
                self._expected = None
        return not waiting

    def answer(self, in_time: bool) -> ProduceResponse:
        """The answer, when all batches are acknowledged or at the request's timeout."""
        if not in_time:
            for write in self._waiting:
                write.give_up()
            self._expected = None
        return self._expected or _response(self._context, self._writes, self._topics)
