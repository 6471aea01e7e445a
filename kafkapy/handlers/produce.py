"""Produce: append record batches to partitions.

Versions: 0-13.

Behaviour:

- The batch of each partition is validated, given offsets and appended, in the order of the request. A
  partition that refuses its batch gets its own error code; the others go on.
- acks=0 has no answer. An error closes the connection, which is all that the client can notice.
- acks=1 and acks=all are answered once the records are committed: with `durability=fsync`, once they are on
  disk. acks=1 could be answered earlier. But a client that asks for the end of the log, or deletes records,
  right after its acknowledgement would then miss its own records: aiokafka's default producer does that.
- While an answer waits, the connection's next requests are handled. Answers keep the order of the requests.
- A request whose validation takes long is validated in a worker thread, when it is the connection's turn
  (process/validation.py). That is so for large or many compressed batches, for batches that decompress to
  much, and for recompression. The connection's next request waits for it, so that a producer's batches stay
  in order.

Version notes:

- v0-2 carry message sets, with messages of magic 0 or 1 in any of these versions. A message set becomes a
  record batch (storage/log/up_conversion.py). One without a complete message stores nothing and is answered
  with offset -1.
- v7 allows zstd.
- v8 adds record errors.
- v10 adds the current leader.
- v12 is for transactions.
- v13 has topic ids instead of names.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Awaitable

from kafkapy.handlers.context import RequestContext
from kafkapy.metadata.topic_names import is_internal
from kafkapy.network.answers import Pipelined
from kafkapy.process.turns import Steps
from kafkapy.process.validation import TURN_SECONDS
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.replicas.partition import Partition
from kafkapy.storage.log.up_conversion import holds_messages, is_heavy_message_set, prepare_messages
from kafkapy.storage.log.validate import (
    SLOW_AT_ONCE,
    AppendOrigin,
    DecompressedTooLargeError,
    InvalidRecordsError,
    PreparedBatches,
    codec_of,
    decompressed_at_once,
    is_heavy,
    prepare_batches,
    slow_bytes,
)

FIRST_VERSION_WITH_BATCHES = 3
FIRST_VERSION_WITH_STORAGE_ERROR = 4
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13
TRANSACTIONS_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

VALID_ACKS = (-1, 0, 1)
ADMIN_CLIENT = "__admin_client"
"""The client id that Apache Kafka lets write to internal topics."""

Answer = ProduceResponse | None
Outcome = Answer | Pipelined


def handle(context: RequestContext, request: ProduceRequest) -> Steps[Outcome | Awaitable[Outcome]]:
    """Append now; answer when the acknowledgement that was asked for is due."""
    pieces: list[Piece] = []
    for topic in request.topic_data:
        for partition in topic.partition_data:
            yield
            pieces.append(Piece(context, request, topic, partition))
    slow = sum(piece.slow_bytes for piece in pieces)
    if slow <= SLOW_AT_ONCE and not any(piece.is_heavy for piece in pieces):
        most = decompressed_at_once() // len(pieces) if slow else None
        if (yield from _settle(pieces, context.broker.clock.now_ms(), most)):
            return (yield from _append(context, request, pieces))
    context.connection.keep_frame()
    return _settle_in_thread(context, request, pieces)


def _settle(pieces: list[Piece], now_ms: int, most: int | None) -> Steps[bool]:
    """Whether all pieces are settled without a thread."""
    for piece in pieces:
        yield
        if not piece.settle(now_ms, most):
            return False
    return True


async def _settle_in_thread(context: RequestContext, request: ProduceRequest, pieces: list[Piece]) -> Outcome:
    now_ms = context.broker.clock.now_ms()
    left = deque(piece for piece in pieces if not piece.is_settled)

    def settle_some() -> None:
        end = time.thread_time() + TURN_SECONDS
        while left and time.thread_time() < end:
            left.popleft().settle(now_ms)

    converts = any(piece.is_message_set for piece in left)
    async with context.broker.conversions if converts else contextlib.nullcontext():
        while left:
            await context.broker.validation.run(context.connection, settle_some)
    return await context.broker.turns.finish(_append(context, request, pieces))


def _append(context: RequestContext, request: ProduceRequest, pieces: list[Piece]) -> Steps[Outcome]:
    now_ms = context.broker.clock.now_ms()
    for piece in pieces:
        yield
        piece.append(now_ms)
    waiting = [piece for piece in pieces if not piece.is_committed()] if request.acks else None
    if waiting:
        return _when_committed(context, request, pieces, waiting)
    return _answer(context, request, pieces)


def _when_committed(
    context: RequestContext, request: ProduceRequest, pieces: list[Piece], waiting: list[Piece]
) -> Pipelined:
    """Answer when every partition has committed what it took, or the request's time is over."""

    def all_committed() -> bool:
        while waiting and waiting[-1].is_committed():
            waiting.pop()
        return not waiting

    def answer(_in_time: bool) -> ProduceResponse:
        for piece in waiting:
            piece.give_up()
        return _response(request, pieces)

    partitions = [piece.partition for piece in waiting]
    seconds = request.timeout_ms / 1000
    return Pipelined(context.broker.waiters.watch(partitions, seconds, all_committed, answer))


def _answer(context: RequestContext, request: ProduceRequest, pieces: list[Piece]) -> Answer:
    if request.acks:
        return _response(request, pieces)
    failed = next((piece for piece in pieces if piece.answer.error_code), None)
    if failed is not None:
        context.connection.close(f"Produce with acks=0 failed: {failed.describe()}")
    return None


def _response(request: ProduceRequest, pieces: list[Piece]) -> ProduceResponse:
    answers = iter(pieces)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[next(answers).answer for _ in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


class Piece:
    """What a request has for one partition, on its way into the log."""

    __slots__ = (
        "_end_offset",
        "_max_decompressed",
        "_partition",
        "_prepared",
        "_records",
        "_topic",
        "_version",
        "answer",
        "is_heavy",
        "is_message_set",
        "slow_bytes",
    )

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        topic: TopicProduceData,
        data: PartitionProduceData,
    ) -> None:
        self._version = context.api_version
        self._topic = topic.name
        self._records = data.records
        self.is_message_set = False
        """It comes from a client that knows no record batches."""
        self._prepared: PreparedBatches | None = None
        self._partition: Partition | None = None
        self._end_offset = -1
        self._max_decompressed: int = context.broker.config["max.decompressed.message.bytes"]
        self.is_heavy = False
        """Validation takes long enough to be worth a thread."""
        self.slow_bytes = 0
        """Many small batches may take long together."""
        self.answer = PartitionProduceResponse(index=data.index, base_offset=-1)
        try:
            self._partition = self._find(context, request, topic, data.index)
            records = self._records
            if isinstance(records, memoryview):
                self.is_message_set = self._version < FIRST_VERSION_WITH_BATCHES and holds_messages(records)
                if self.is_message_set:
                    self.is_heavy = is_heavy_message_set(records)
                else:
                    self.is_heavy = is_heavy(records, self._partition.log.config)
                # Making files is for a thread too: a request may be the first for many partitions.
                self.is_heavy |= self._partition.log.new_files is not None
                self.slow_bytes = len(records) if self.is_message_set else slow_bytes(records)
        except KafkaError as error:
            self._fail(error)

    def _find(
        self, context: RequestContext, request: ProduceRequest, topic: TopicProduceData, index: int
    ) -> Partition:
        if request.transactional_id is not None:
            raise KafkaError(TRANSACTIONS_REFUSED, "Transactions are not supported.")
        if self._version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = context.broker.metadata.image.topic_name(topic.topic_id)
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            self._topic = name
        partition = context.broker.replicas.partition(self._topic, index)
        if request.acks not in VALID_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        if is_internal(self._topic) and context.client_id != ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self._topic} is internal.")
        return partition

    @property
    def is_settled(self) -> bool:
        """Whether the batch is validated, or there is none to be."""
        return self._prepared is not None or self._partition is None

    def settle(self, now_ms: int, most: int | None = None) -> bool:
        """Validate the batch, and see that the log has its files; any thread may.

        False where it decompresses to more than `most` bytes: nothing has changed, and it may be valid.
        """
        limit = self._max_decompressed if most is None else min(most, self._max_decompressed)
        try:
            self._prepare(now_ms, limit)
        except DecompressedTooLargeError as error:
            if limit < self._max_decompressed:
                return False
            self._fail(error)
        except KafkaError as error:
            self._fail(error)
        return True

    def _prepare(self, now_ms: int, max_decompressed: int) -> None:
        if self._partition is None:
            return
        if self._records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "There is no record batch.")
        if (files := self._partition.log.new_files) is not None:
            with contextlib.suppress(OSError, MemoryError):  # the append comes upon it again
                files.make()
        config = self._partition.log.config
        if self.is_message_set:
            self._prepared = prepare_messages(
                self._records, config=config, now_ms=now_ms, max_decompressed=max_decompressed
            )
            if self._prepared is None:
                self._partition = None  # There is nothing to append, and nothing wrong.
            return
        if self._version < FIRST_VERSION_WITH_ZSTD and codec_of(self._records) == Compression.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs version {FIRST_VERSION_WITH_ZSTD}; this is version {self._version}.",
            )
        self._prepared = prepare_batches(
            self._records,
            config=config,
            origin=AppendOrigin.CLIENT,
            now_ms=now_ms,
            max_decompressed=max_decompressed,
        )

    def append(self, now_ms: int) -> None:
        """Append the batch, unless it was refused."""
        if self._prepared is None or self._partition is None:
            return
        try:
            info = self._partition.append(self._prepared, origin=AppendOrigin.CLIENT, now_ms=now_ms)
        except KafkaError as error:
            self._fail(error)
            return
        self._end_offset = info.last_offset + 1
        self.answer.base_offset = info.first_offset
        self.answer.log_append_time_ms = info.log_append_time
        self.answer.log_start_offset = info.log_start_offset

    def is_committed(self) -> bool:
        """Whether nothing more has to happen to this piece before the answer."""
        if self._partition is None:
            return True
        try:
            return self._partition.is_committed(self._end_offset)
        except KafkaError as error:
            self._fail(error)
            return True

    @property
    def partition(self) -> Partition:
        """The partition that has taken the batch."""
        assert self._partition is not None
        return self._partition

    def give_up(self) -> None:
        """The request's time is over."""
        if not self.is_committed():
            self._fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def describe(self) -> str:
        return f"{self._topic}-{self.answer.index}: {ErrorCode(self.answer.error_code).name}"

    def _fail(self, error: KafkaError) -> None:
        answer = self.answer
        answer.base_offset = -1
        if self._partition is not None:
            answer.log_start_offset = self._partition.log.log_start_offset
        self._partition = None
        answer.error_code = error.code
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR and self._version < FIRST_VERSION_WITH_STORAGE_ERROR:
            # Older clients do not know the code and would not retry.
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_message = error.message or None
        if isinstance(error, InvalidRecordsError):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
                for index, why in error.record_errors
            ]
