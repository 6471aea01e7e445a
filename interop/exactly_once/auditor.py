"""Reads topics byte by byte, as a read_committed consumer does.

It writes down every last stable offset. It knows nothing of client libraries: it finds aborted
records by the list of aborted transactions in each answer and by the markers in the log, as KIP-98 says.
Offsets are written down with the moment at which they were asked for, records with the moment at which they
came.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from interop.exactly_once.journal import Journal
from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.records import Record, crc_is_valid, decode_records, iter_headers
from tests.network.raw_client import RawClient
from tests.promises.history import (
    EndOffset,
    Event,
    Partition,
    Read,
    ReadFrom,
    ReadTo,
    StableOffset,
    checksum_of,
)

NAME = "auditor"
_VERSION = 12
_READ_COMMITTED = 1
_METADATA_VERSION = 9
_PASSING = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}
"""Errors of a broker that has just started, or does not lead any more."""


class _NotNowError(Exception):
    """Leaders change, or are not known yet."""


class Auditor(threading.Thread):
    """Reads partitions from their start until it is told to finish."""

    def __init__(
        self, servers: str, journal: Journal, partitions: Sequence[Partition], *, offsets: bool
    ) -> None:
        """Read these topics; with `offsets`, write offsets down, too.

        A new leader may know older offsets than the leader before.
        """
        super().__init__(name=NAME, daemon=True)
        self._servers, self._journal, self._offsets = servers.split(","), journal, offsets
        self._positions = dict.fromkeys(partitions, 0)
        self._stable = dict.fromkeys(partitions, 0)
        self._high = dict.fromkeys(partitions, 0)
        self._stopping = threading.Event()
        self.records: dict[Partition, list[Record]] = {partition: [] for partition in partitions}
        """What it was given."""
        self.problems: list[str] = []
        self.pauses: Counter[str] = Counter()
        """Why it could not read, and how often."""

    def count(self, topic: str) -> int:
        """How many records of a topic it was given."""
        return sum(len(records) for (name, _), records in self.records.items() if name == topic)

    def has_read_all(self) -> bool:
        """Whether nothing is open, and it has read everything up to the high watermarks it knows."""
        return self._positions == self._stable == self._high

    def state(self) -> str:
        """Its positions, and the last stable offsets and high watermarks that it knows."""
        return ", ".join(
            f"{topic}-{index} {position}/{self._stable[topic, index]}/{self._high[topic, index]}"
            for (topic, index), position in self._positions.items()
        )

    def finish(self) -> None:
        """End, with everything read up to its positions."""
        self._stopping.set()
        self.join(30)
        self._journal.append(*(ReadTo(NAME, *place) for place in self._positions.items()))

    def run(self) -> None:
        self._journal.append(*(ReadFrom(NAME, place, 0, committed=True) for place in self._positions))
        while not self._stopping.is_set():
            try:
                self._follow()
            except (OSError, _NotNowError) as problem:
                self.pauses[str(problem) or type(problem).__name__] += 1
                self._stopping.wait(0.1)
            except BaseException as problem:
                self._complain(f"it ended by {problem!r}")
                raise

    def _follow(self) -> None:
        """Read from the leaders until they change."""
        with ExitStack() as connections:
            leaders = [
                (connections.enter_context(RawClient(address)), partitions)
                for address, partitions in self._leaders().items()
            ]
            while not self._stopping.is_set():
                for client, partitions in leaders:
                    self._fetch(client, partitions)

    def _leaders(self) -> dict[str, list[Partition]]:
        """The leaders' addresses, and what they lead."""
        self._servers.append(self._servers.pop(0))
        with RawClient(self._servers[0]) as client:
            topics = [MetadataRequestTopic(name=topic) for topic in {topic for topic, _ in self._positions}]
            answer = client.ask(MetadataRequest(topics=topics), _METADATA_VERSION)
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        leaders: dict[str, list[Partition]] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.leader_id not in addresses:
                    raise _NotNowError("no leader")
                led = leaders.setdefault(addresses[partition.leader_id], [])
                led.append((str(topic.name), partition.partition_index))
        if sum(map(len, leaders.values())) < len(self._positions):
            raise _NotNowError("unknown partitions")
        return leaders

    def _fetch(self, client: RawClient, partitions: Sequence[Partition]) -> None:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, index in partitions:
            position = self._positions[topic, index]
            wanted = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=1 << 20)
            topics.setdefault(topic, []).append(wanted)
        request = FetchRequest(
            topics=[FetchTopic(topic=topic, partitions=wanted) for topic, wanted in topics.items()],
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=8 << 20,
            isolation_level=_READ_COMMITTED,
        )
        asked = time.monotonic()
        response: FetchResponse = client.ask(request, _VERSION)
        offsets: list[Event] = []
        reads: list[Event] = []
        moved: list[str] = []
        for answered in response.responses:
            for data in answered.partitions:
                place = (answered.topic, data.partition_index)
                error = ErrorCode(data.error_code)
                if error in _PASSING:
                    moved.append(error.name)
                elif error:
                    self._complain(f"{place}: {error.name}")
                else:
                    offsets += [
                        StableOffset(place, data.last_stable_offset),
                        EndOffset(place, data.high_watermark),
                    ]
                    self._stable[place], self._high[place] = data.last_stable_offset, data.high_watermark
                    reads += self._given(place, data)
        if self._offsets:
            self._journal.append(*offsets, at=asked)
        if reads:
            self._journal.append(*reads)
        if moved:
            raise _NotNowError(moved[0])

    def _given(self, place: Partition, data: PartitionData) -> list[Event]:
        assert data.records is None or isinstance(data.records, (bytes, memoryview))
        buffer = bytes(data.records or b"")
        aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        skipped: set[int] = set()
        reads: list[Event] = []
        for at, header in iter_headers(buffer):
            if header.last_offset < self._positions[place]:
                continue
            if not crc_is_valid(buffer, at, header):
                self._complain(f"{place}@{header.base_offset}: a wrong CRC")
            if header.last_offset >= data.last_stable_offset:
                self._complain(f"{place}@{header.last_offset} is given, stable: {data.last_stable_offset}")
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            records = decode_records(buffer, at, header)
            if header.is_control:
                if parse_control_record_key(records[0].key) == ControlType.ABORT:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                reads += [
                    self._read(place, each) for each in records if each.offset >= self._positions[place]
                ]
            self._positions[place] = header.next_offset
        return reads

    def _read(self, place: Partition, record: Record) -> Read:
        self.records[place].append(record)
        key, value = record.key or b"", record.value or b""
        producer, _, number = key.decode().rpartition(":")
        return Read(NAME, place, record.offset, producer, int(number), checksum_of(key, value))

    def _complain(self, problem: str) -> None:
        if len(self.problems) < 100:
            self.problems.append(problem)
