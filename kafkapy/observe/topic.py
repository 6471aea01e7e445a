"""A topic: its records, and writing some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from kafkapy.fetch.read import READ_COMMITTED
from kafkapy.loop.turns import Steps
from kafkapy.observe.asking import ANSWER_SECONDS, ask
from kafkapy.observe.murmur2 import partition_for
from kafkapy.observe.offsets import offsets
from kafkapy.observe.record import Record, encoded, encoded_headers, table
from kafkapy.observe.waiting import NotLedError, NotYet, until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.records import Record as NewRecord
from kafkapy.protocol.records import build_batch, iter_headers, iter_records
from kafkapy.protocol.special_timestamps import EARLIEST
from kafkapy.storage.disk.files import FileSlice

if TYPE_CHECKING:
    from kafkapy.metadata.image import Topic
    from kafkapy.observe.asking import Observed

_FETCH_BYTES: Final = 1 << 20
_LOOK_BYTES: Final = 1 << 14
"""What is read to see whether there is a record; at least a batch is."""
_GONE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.OFFSET_OUT_OF_RANGE,
)
"""The topic was deleted meanwhile, or records of it."""


async def wait_for_records(
    core: Observed, name: str, count: int | None, at_least: int | None, seconds: float
) -> list[Record]:
    """The records of a topic, when there are as many as wanted; those of now without a number."""
    wanted = f"the records of {name}" if count is None else f"{count} records in {name}"
    if at_least is not None:
        wanted = f"{at_least} records or more in {name}"
    reader = _Reader(core, name)

    async def look() -> list[Record] | NotYet:
        found = await reader.read()
        if (count is None or len(found) == count) and len(found) >= (at_least or 0):
            return found
        return NotYet(reader.told(), never=count is not None and len(found) > count)

    return await until(look, wanted, seconds)


async def wait_until_empty(core: Observed, name: str, seconds: float) -> None:
    """Return when a topic has no records, or is not there."""

    async def look() -> NotYet | None:
        reader = _Reader(core, name)  # a new one: records may be compacted away
        return NotYet(reader.told()) if await reader.read() else None

    await until(look, f"no records in {name}", seconds)


async def has_records(core: Observed, name: str, index: int, at: int) -> bool:
    """Whether a partition has records from the offset `at` on, which a consumer would be given."""
    topic = core.metadata.image.topics.get(name)
    while topic is not None:
        data = await _fetch(core, topic, index, at, _LOOK_BYTES)
        batches = _bytes_of(data)
        if not batches:
            break
        if next(_decoded(name, index, batches, data, at), None) is not None:
            return True
        at = _end_of(batches)
    return False


class _Reader:
    """Reads a topic on and on, without records of open and aborted transactions."""

    def __init__(self, core: Observed, name: str) -> None:
        self._core, self._name = core, name
        self._topic: Topic | None = None
        self._at: dict[int, int] = {}
        """The next offset, by partition."""
        self._found: dict[int, list[Record]] = {}
        self._records: list[Record] | None = []
        """Those of all partitions; None if these have changed."""

    async def read(self) -> list[Record]:
        """The records that there are now, by partition and offset."""
        topic = self._core.metadata.image.topics.get(self._name)
        if topic is None or self._topic is None or topic.id != self._topic.id:
            self._forget()
        self._topic = topic
        if topic is None:
            return []
        for (_, index), start in (await offsets(self._core, [self._name], EARLIEST)).items():
            if not await self._read_partition(topic, index, start):
                self._forget()
                self._topic = None
                break
        return self._all()

    def told(self) -> str:
        """What was read, in words."""
        records = self._all()
        if self._topic is None:
            return "there is no such topic"
        return f"it has {len(records)}:\n{table(records)}" if records else "it has none"

    def _all(self) -> list[Record]:
        if self._records is None:
            self._records = list(chain.from_iterable(self._found[index] for index in sorted(self._found)))
        return self._records

    def _forget(self) -> None:
        self._at, self._found, self._records = {}, {}, []

    async def _read_partition(self, topic: Topic, index: int, start: int) -> bool:
        """Read what is new; return whether the partition is still there."""
        found = self._found.setdefault(index, [])
        if found and found[0].offset < start:
            del found[: bisect_left(found, start, key=lambda record: record.offset)]
            self._records = None
        at = max(self._at.get(index, 0), start)
        while True:
            data = await _fetch(self._core, topic, index, at, _FETCH_BYTES)
            if data.error_code in _GONE:
                return data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            if data.error_code:
                raise RuntimeError(f"{topic.name}-{index}: {ErrorCode(data.error_code).name}")
            batches = _bytes_of(data)
            if not batches:
                return True
            await self._core.turns.finish(_collect(_decoded(topic.name, index, batches, data, at), found))
            self._records = None
            at = self._at[index] = _end_of(batches)


def _collect(records: Iterable[Record], found: list[Record]) -> Steps[None]:
    """Add records in turns: a fetch may give a hundred thousand."""
    for record in records:
        found.append(record)
        yield


def _end_of(batches: bytes) -> int:
    """The offset after the last batch."""
    *_, (_, last) = iter_headers(batches)
    return last.next_offset


def _decoded(topic: str, index: int, batches: bytes, data: PartitionData, at: int) -> Iterator[Record]:
    """The records from the offset `at` on, without those of aborted transactions.

    Args:
        data: names these transactions.
    """
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborting: set[int] = set()
    for position, header in iter_headers(batches):
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            for each in iter_records(batches, position, header):
                if each.offset >= at:
                    headers = tuple(each.headers)
                    yield Record(topic, index, each.offset, each.timestamp, each.key, each.value, headers)


async def _fetch(core: Observed, topic: Topic, index: int, at: int, nbytes: int) -> PartitionData:
    wanted = FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=nbytes)
    asked = FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[wanted])
    request = FetchRequest(isolation_level=READ_COMMITTED, topics=[asked], max_bytes=nbytes)
    answer = await ask(core, request)
    data: PartitionData = answer.responses[0].partitions[0]
    if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise NotLedError(topic.name, index)
    return data


def _bytes_of(data: PartitionData) -> bytes:
    """The bytes of complete batches."""
    if isinstance(data.records, bytes):
        return data.records
    if not isinstance(data.records, FileSlice):
        return b""
    try:
        return data.records.read()
    finally:
        data.records.release()


async def produce(
    core: Observed,
    name: str,
    key: bytes | str | None,
    value: bytes | str | None,
    headers: Iterable[tuple[str, bytes | str | None]],
    partition: int | None,
    timestamp: int | None,
) -> Record:
    """Write a record, acknowledged as for acks=all; the topic is created as for a client.

    Raises:
        ValueError: the broker refuses it.
    """
    topic = await _existing(core, name)
    sent_key, sent_value, sent_headers = encoded(key), encoded(value), encoded_headers(headers)
    if partition is None:
        partition = 0 if sent_key is None else partition_for(sent_key, len(topic.partitions))
    at_ms = core.clock.now_ms() if timestamp is None else timestamp
    batch = build_batch([NewRecord(-1, at_ms, sent_key, sent_value, sent_headers)])
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=int(ANSWER_SECONDS * 1000),
        topic_data=[TopicProduceData(name=name, topic_id=topic.id, partition_data=[data])],
    )
    answer = await ask(core, request)
    written = answer.responses[0].partition_responses[0]
    if written.error_code:
        error = ErrorCode(written.error_code).name
        raise ValueError(f"{name}-{partition}: {error}: {written.error_message or 'the record is refused'}")
    if written.log_append_time_ms >= 0:
        at_ms = written.log_append_time_ms
    return Record(name, partition, written.base_offset, at_ms, sent_key, sent_value, sent_headers)


async def _existing(core: Observed, name: str) -> Topic:
    if (topic := core.metadata.image.topics.get(name)) is not None:
        return topic
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    answer = await ask(core, request)
    topic = core.metadata.image.topics.get(name)
    if topic is None:
        raise ValueError(f"topic {name}: {ErrorCode(answer.topics[0].error_code).name}")
    return topic
