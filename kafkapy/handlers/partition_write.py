"""The write of a Produce request to one partition: its checks, its append and its answer."""

from __future__ import annotations

import contextlib

from kafkapy.coordination.errors import TOO_LARGE
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.records import read_header
from kafkapy.protocol.topic_names import INTERNAL_TOPICS
from kafkapy.protocol.types import ZERO_UUID, TopicPartition
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.refused_batches import Place
from kafkapy.replicas.topic_traffic import TopicTraffic
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.storage.disk.errors import StuckError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.up_conversion import holds_messages, is_heavy_message_set, prepare_messages
from kafkapy.storage.log.validate import (
    CLIENT,
    DecompressedTooLargeError,
    InvalidRecordsError,
    PreparedBatches,
    codec_of,
    effort,
    is_transactional,
    prepare_batches,
)
from kafkapy.storage.log.verification import Verification

FIRST_VERSION_WITH_BATCHES = 3
FIRST_VERSION_WITH_STORAGE_ERROR = 4
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_THAT_ADDS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13

VALID_ACKS = (-1, 0, 1)
ADMIN_CLIENT = "__admin_client"
"""The client id that Apache Kafka lets write to internal topics."""

CANNOT_VERIFY = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The errors of a coordinator after which a client is to send its batch again."""

NOT_A_FAILURE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The errors that Apache Kafka's FailedProduceRequestsPerSec leaves out."""

NO_LEADER = LeaderIdAndEpoch()
"""The leader in an answer that does not name it."""


class PartitionWrite:
    """The batch of a request for one partition, and its answer."""

    __slots__ = (
        "_acks",
        "_end_offset",
        "_max_decompressed",
        "_place",
        "_prepared",
        "_records",
        "_refused",
        "_term",
        "_verification",
        "_version",
        "answer",
        "is_heavy",
        "is_message_set",
        "partition",
        "slow_bytes",
        "stuck",
        "topic",
    )

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        topic: TopicProduceData,
        data: PartitionProduceData,
    ) -> None:
        self._version = context.api_version
        self._acks = request.acks
        self._refused = context.broker.refused_batches
        self._place: Place = topic.name or topic.topic_id, data.index
        self.topic = topic.name
        self._records = data.records
        self.is_message_set = False
        """Whether the records are a message set, from a client that knows no record batches."""
        self._prepared: PreparedBatches | None = None
        self.partition: Partition | None = None
        """The partition of the batch; None if the batch was refused, or there is none."""
        self.stuck: StuckError | None = None
        """The error of the last append, if the log directory took no writes."""
        self._end_offset = -1
        self._verification: Verification | None = None
        self._term = 0
        """The partition's term in which the batch was appended."""
        self._max_decompressed: int = context.broker.config["max.decompressed.message.bytes"]
        self.is_heavy = False
        """Whether validation takes so long that it needs a thread."""
        self.slow_bytes = 0
        """The bytes whose validation takes long. Many small batches may take long together."""
        self.answer = PartitionProduceResponse(index=data.index, base_offset=-1, current_leader=NO_LEADER)
        try:
            self.partition = self._find(context, request, topic, data.index)
            records = self._records
            if isinstance(records, memoryview):
                self.is_message_set = self._version < FIRST_VERSION_WITH_BATCHES and holds_messages(records)
                if self.is_message_set:
                    self.is_heavy, self.slow_bytes = is_heavy_message_set(records), len(records)
                else:
                    self.is_heavy, self.slow_bytes = effort(records, self.partition.log.config)
                # Files are created in a thread too: a request may be the first for many partitions.
                files = self.partition.log.new_files
                self.is_heavy |= files is not None and not files.is_settled
                if request.transactional_id is None and is_transactional(records):
                    raise KafkaError(
                        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                        "A transactional record batch needs a transactional id.",
                    )
        except KafkaError as error:
            self._refuse(error)

    def _find(
        self, context: RequestContext, request: ProduceRequest, topic: TopicProduceData, index: int
    ) -> Partition:
        if self._version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = context.broker.topic_name(topic.topic_id)
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            self.topic = name
        if context.broker.authorizer is not None:
            context.require(Operation.WRITE, ResourceType.TOPIC, self.topic)
        partition = context.broker.replicas.partition(self.topic, index)
        if topic.topic_id not in (ZERO_UUID, partition.topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)  # of this name there is another topic here
        if request.acks not in VALID_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        if self.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self.topic} is internal.")
        return partition

    @property
    def is_settled(self) -> bool:
        """Whether the batch is validated, or there is no batch."""
        return self._prepared is not None or self.partition is None

    def settle(self, now_ms: int, most: int | None = None) -> bool:
        """Validate the batch, and create the log's files if they are missing.

        Any thread may call it.

        Returns False if the batch decompresses to more than `most` bytes. Nothing has changed then, and the
        batch may still be valid.
        """
        limit = self._max_decompressed if most is None else min(most, self._max_decompressed)
        try:
            self._prepare(now_ms, limit)
        except DecompressedTooLargeError as error:
            if limit < self._max_decompressed:
                return False
            self._refuse(error)
        except KafkaError as error:
            self._refuse(error)
        return True

    def _prepare(self, now_ms: int, max_decompressed: int) -> None:
        if self.partition is None:
            return
        if self._records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "There is no record batch.")
        if (files := self.partition.log.new_files) is not None:
            with contextlib.suppress(OSError, MemoryError):  # the append meets the error again
                files.make()
        config = self.partition.log.config
        if self.is_message_set:
            self._prepared = prepare_messages(
                self._records, config=config, now_ms=now_ms, max_decompressed=max_decompressed
            )
            if self._prepared is None:
                self.partition = None  # There is nothing to append, which is no error.
            return
        if self._version < FIRST_VERSION_WITH_ZSTD and codec_of(self._records) == Compression.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs version {FIRST_VERSION_WITH_ZSTD}; this is version {self._version}.",
            )
        self._prepared = prepare_batches(
            self._records,
            config=config,
            origin=CLIENT,
            now_ms=now_ms,
            max_decompressed=max_decompressed,
        )

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is valid and part of a transaction."""
        return self._prepared is not None and self._prepared.batches[0].header.is_transactional

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the number of its partition."""
        return TopicPartition(self.topic, self.answer.index)

    @property
    def producer(self) -> tuple[int, int]:
        """The producer id and epoch of the batch, which is valid."""
        assert self._prepared is not None
        header = self._prepared.batches[0].header
        return header.producer_id, header.producer_epoch

    def begin_verification(self, now_ms: int) -> bool:
        """Whether the coordinator must be asked before the batch is appended."""
        assert self._prepared is not None
        if self.partition is None:
            return False
        header = self._prepared.batches[0].header
        self._verification = None
        try:
            self._verification = self.partition.begin_verification(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                begins_at_zero=self._version >= FIRST_VERSION_THAT_ADDS,
                now_ms=now_ms,
            )
        except KafkaError as error:
            self._refuse(error)
        return self._verification is not None

    def begin_verification_again(self, now_ms: int) -> bool:
        """Whether the coordinator must be asked again: a marker was written meanwhile."""
        if self.partition is None or self._verification is None:
            return False
        producer_id, _ = self.producer
        if self.partition.log.producers.is_verifying(producer_id, self._verification):
            return False
        return self.begin_verification(now_ms)

    def refuse(self, error: ErrorCode) -> None:
        """Set the error for a batch that is not known to be part of a transaction."""
        if error in CANNOT_VERIFY:
            why = f"The transaction of the partition cannot be verified: {error.name}."
            self._refuse(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why))
        elif error is ErrorCode.INVALID_TXN_STATE:
            self._refuse(KafkaError(error, "Partition was not added to the transaction"))
        else:
            self._refuse(KafkaError(error))

    def append(self, now_ms: int) -> bool:
        """Append the batch, unless it was refused; return False if its log directory is stuck."""
        if self._prepared is None or self.partition is None:
            return True
        try:
            self._refused.check(self._place, self._prepared.batches[0].header, self.partition.log.producers)
            info = self.partition.append(
                self._prepared,
                origin=CLIENT,
                now_ms=now_ms,
                acks=self._acks,
                verification=self._verification,
            )
        except StuckError as error:
            self.stuck = error
            return False
        except KafkaError as error:
            self._refuse(error)
            return True
        self._end_offset, self._term = info.last_offset + 1, self.partition.term
        if self.is_message_set and self.partition.traffic is not None:
            self.partition.traffic.produce_conversions += info.last_offset - info.first_offset + 1
        self.answer.base_offset = info.first_offset
        self.answer.log_append_time_ms = info.log_append_time
        self.answer.log_start_offset = info.log_start_offset
        return True

    @property
    def log_directory(self) -> LogDirectory:
        """The log directory of a batch that was not refused."""
        assert self.partition is not None
        return self.partition.log.log_directory

    @property
    def nbytes(self) -> int:
        """The bytes of the batch."""
        return 0 if self._prepared is None else self._prepared.nbytes

    def refuse_stuck(self) -> None:
        """Refuse the batch whose log directory is still stuck."""
        assert self.stuck is not None
        self._refuse(self.stuck)

    def is_acknowledged(self) -> bool:
        """Whether the batch is acknowledged or refused, so that the answer need not wait for it."""
        if self.partition is None:
            return True
        try:
            return self.partition.is_acknowledged(self._end_offset, self._acks, self._term)
        except KafkaError as error:
            self._fail(error)
            return True

    def give_up(self) -> None:
        """Set the error for a batch that was not acknowledged before the request's timeout."""
        if not self.is_acknowledged():
            self._fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def describe(self) -> str:
        return f"{self.topic}-{self.answer.index}: {ErrorCode(self.answer.error_code).name}"

    def _refuse(self, error: KafkaError) -> None:
        """Set the error of a batch that is not appended; remember it if it comes again."""
        self._fail(error)
        if self._records and error.code.retriable:
            with contextlib.suppress(DecodeError):
                self._refused.note(self._place, read_header(self._records), error.code)

    def _count_failure(self, traffic: TopicTraffic, error: ErrorCode) -> None:
        """Count the failure, as Apache Kafka does."""
        if self._end_offset < 0:
            traffic.produces += 1
        if error in TOO_LARGE:
            traffic.bytes_rejected += len(self._records or b"")
        elif error not in NOT_A_FAILURE:
            traffic.failed_produces += 1

    def _fail(self, error: KafkaError) -> None:
        answer = self.answer
        answer.base_offset = -1
        if self.partition is not None:
            answer.log_start_offset = self.partition.log.log_start_offset
            if self.partition.traffic is not None:
                self._count_failure(self.partition.traffic, error.code)
        self.partition = None
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
