"""Records of partitions, from any offsets on, back or forth, within bounds.

Kafka reads forth only. To go back, a window of offsets before a position is read forth; a smaller one is read
in its place if its records are too many bytes. Each call may read so many bytes and records, and take so much
time: what it has found by then is its answer, with the positions from which the next one continues. It
advances by one batch or record at least, however large that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

from kafkapy.commands.connection.failures import code_name
from kafkapy.errors import UserError
from kafkapy.page.cluster.topics import Place, Topics
from kafkapy.page.cluster.wire import Wire
from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.errors import DecodeError, ErrorCode
from kafkapy.protocol.legacy_records import decode_message_set
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.protocol.records import MAGIC, BatchHeader, Record, iter_headers, iter_records

_BY_NAME: Final = 12
"""The last version of Fetch that has names of topics; later ones have ids."""
_FETCH_BYTES: Final = 4 * 1024 * 1024
_PARTITION_BYTES: Final = 64 * 1024
_BUDGET_BYTES: Final = 32 * 1024 * 1024
_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""The windows of a step back may have so many; smaller ones are tried after that."""
_BUDGET_RECORDS: Final = 200_000
_BATCH_BYTES: Final = 32 * 1024 * 1024
"""What a batch may decompress to."""
_SEARCH_WINDOW: Final = 20_000
"""The offsets of a step back of a search: a batch is read again in each step that has a part of it."""
_MOST_PROBLEMS: Final = 10
_MARKERS: Final[Mapping[int, str]] = {
    ControlType.ABORT: "transaction aborted",
    ControlType.COMMIT: "transaction committed",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A record with its place; `marker` says what a control record means.

    It has what a record of kafka-python's consumer has, so that the same conditions choose it.
    """

    place: Place
    record: Record
    marker: str | None = None

    @property
    def topic(self) -> str:
        return self.place.topic

    @property
    def partition(self) -> int:
        return self.place.partition

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def timestamp(self) -> int:
        return self.record.timestamp

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def value(self) -> bytes | None:
        return self.record.value

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return self.record.headers


@dataclass(slots=True)
class Records:
    """What a reading found, and where to continue."""

    found: list[Found]
    positions: dict[Place, int]
    """The next offset of each partition; going back, the one after the next."""
    is_at_end: bool = False
    """Whether there is nothing further in this direction."""
    has_stopped: bool = False
    """Whether it ended before enough was found, since it had read all that it may."""
    scanned: int = 0
    """How many records were looked at."""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Read:
    """What one partition has within a window."""

    found: list[Found]
    next: int
    """All before this offset was read."""


Match = Callable[[Found], bool]
Offsets = Mapping[Place, int]


class Reader:
    """Reads records over a connection.

    Args:
        committed: leave out the records of transactions that are open or were aborted.
    """

    def __init__(self, wire: Wire, topics: Topics, *, committed: bool = False) -> None:
        self._wire, self._topics, self._committed = wire, topics, committed

    def forth(
        self, positions: Offsets, ends: Offsets, limit: int, seconds: float, match: Match | None = None
    ) -> Records:
        """The first records from these positions on; raises UserError.

        Within a partition they are in order; partitions are merged by time.
        """
        reading = _Reading(seconds)
        answer = Records([], dict(positions))
        now, window = answer.positions, limit if match is None else _BUDGET_RECORDS
        hungry: set[Place] = set()
        while len(answer.found) < limit and not reading.is_spent:
            asked = {place: offset for place, offset in now.items() if offset < ends.get(place, 0)}
            if not asked:
                break
            until = {place: min(offset + window, ends[place]) for place, offset in asked.items()}
            read = self._fetch(_first(asked, hungry), until, reading)
            hungry = {
                place for place, offset in asked.items() if place not in read or read[place].next == offset
            }
            if len(hungry) == len(asked):
                break
            matching = {}
            for place, each in read.items():
                matching[place], unseen = reading.chosen(each.found, match)
                now[place] = unseen[0].offset if unseen else each.next
            taken = _merged(matching.values(), newest_first=False)[: limit - len(answer.found)]
            for place, untaken in _untaken(matching, taken):
                now[place] = untaken[0].offset
            answer.found += taken
        reading.tell(answer, limit, all(offset >= ends.get(place, 0) for place, offset in now.items()))
        return answer

    def back(
        self, positions: Offsets, starts: Offsets, limit: int, seconds: float, match: Match | None = None
    ) -> Records:
        """The last records before these positions, newest first; raises UserError."""
        reading = _Reading(seconds)
        answer = Records([], dict(positions))
        now = answer.positions
        windows = dict.fromkeys(now, limit if match is None else _SEARCH_WINDOW)
        while len(answer.found) < limit and not reading.is_spent:
            asked = {
                place: max(offset - windows[place], starts.get(place, 0))
                for place, offset in now.items()
                if offset > starts.get(place, 0)
            }
            if not asked:
                break
            whole, reached = self._whole(asked, now, reading)
            if not whole and all(windows[place] == 1 for place in asked):
                break  # nobody leads them, or there was no room for any
            for place, offset in reached.items():
                windows[place] = max(min(offset - asked[place] or windows[place], windows[place] // 2), 1)
            self._take(answer, asked, whole, limit, match, reading)
        if answer.positions == dict(positions):
            # One record alone, so that a reader that continues from here does not stay here for ever.
            for place, offset in positions.items():
                if offset <= starts.get(place, 0):
                    continue
                reading.is_begun = False
                read = self._fetch({place: offset - 1}, now, reading).get(place)
                if read is not None and read.next >= offset:
                    self._take(answer, {place: offset - 1}, {place: read.found}, limit, match, reading)
                    break
        reading.tell(answer, limit, all(offset <= starts.get(place, 0) for place, offset in now.items()))
        return answer

    def _take(
        self,
        answer: Records,
        asked: Offsets,
        whole: Mapping[Place, list[Found]],
        limit: int,
        match: Match | None,
        reading: _Reading,
    ) -> None:
        """Add the last records of windows to the answer of a reading back."""
        matching = {}
        for place, found in whole.items():
            chosen, unseen = reading.chosen(found[::-1], match)
            matching[place] = chosen[::-1]
            position = unseen[0].offset + 1 if unseen else reading.before(place, asked[place])
            answer.positions[place] = position
        taken = _merged(matching.values(), newest_first=True)[: limit - len(answer.found)]
        for place, untaken in _untaken(matching, taken):
            answer.positions[place] = untaken[-1].offset + 1
        answer.found += taken

    def _whole(
        self, asked: Offsets, until: Offsets, reading: _Reading
    ) -> tuple[dict[Place, list[Found]], dict[Place, int]]:
        """The records of those windows that could be read as a whole, and how far others were read."""
        records: dict[Place, list[Found]] = {place: [] for place in asked}
        rest, hungry = dict(asked), set[Place]()
        most = reading.nbytes + _WINDOW_BYTES
        while rest and reading.nbytes < most and not reading.is_spent:
            read = self._fetch(_first(rest, hungry), until, reading)
            hungry = {
                place for place, offset in rest.items() if place not in read or read[place].next == offset
            }
            if len(hungry) == len(rest):
                break
            for place, each in read.items():
                records[place] += each.found
                rest[place] = each.next
                if each.next >= until[place]:
                    del rest[place]
        return {place: found for place, found in records.items() if place not in rest}, rest

    def _fetch(self, positions: Offsets, until: Offsets, reading: _Reading) -> dict[Place, _Read]:
        """One request to each leader; what it got of each partition, up to an offset."""
        by_leader: dict[int, list[Place]] = {}
        topics = self._topics.metadata().topics
        for place in positions:
            topic = topics.get(place.topic)
            if topic is None or place.partition >= len(topic.partitions):
                raise UserError(f"there is no partition {place.topic}-{place.partition}")
            leader = topic.partitions[place.partition].leader
            if leader < 0:
                reading.problem(place, "it has no leader now")
            else:
                by_leader.setdefault(leader, []).append(place)
        read: dict[Place, _Read] = {}
        for leader, places in by_leader.items():
            answer = self._wire.ask(self._request(positions, places), FetchResponse, leader, newest=_BY_NAME)
            if answer.error_code:
                raise UserError(f"records cannot be read: {code_name(answer.error_code)}")
            parts = {
                Place(topic.topic, each.partition_index): each
                for topic in answer.responses
                for each in topic.partitions
            }
            # Without any records there are none; else those of others may have taken the room.
            nothing = not any(part.records for part in parts.values())
            for place, part in parts.items():
                at, end = positions[place], until[place]
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    read[place] = _Read([], max(part.log_start_offset, at + 1))  # deleted since it was asked
                elif part.error_code:
                    reading.problem(place, code_name(part.error_code))
                elif nothing:
                    read[place] = _Read([], end)
                else:
                    read[place] = self._decoded(place, part, at, end, reading)
        return read

    def _request(self, positions: Offsets, places: list[Place]) -> FetchRequest:
        nbytes = max(_FETCH_BYTES // len(places), _PARTITION_BYTES)
        return FetchRequest(
            max_bytes=_FETCH_BYTES,
            isolation_level=int(self._committed),
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=place.partition,
                            fetch_offset=positions[place],
                            partition_max_bytes=nbytes,
                        )
                        for place in own
                    ],
                )
                for topic, own in groupby(places, key=attrgetter("topic"))
            ],
        )

    def _decoded(self, place: Place, part: PartitionData, at: int, until: int, reading: _Reading) -> _Read:
        data = part.records if isinstance(part.records, bytes | memoryview) else b""
        reading.nbytes += len(data)
        read = _Read([], at)
        undone = _Undone(part) if self._committed else None
        for position, header in iter_headers(data):
            is_batch = header.magic == MAGIC
            if header.base_offset >= until and is_batch:
                read.next = until
                break
            if reading.is_begun and reading.is_spent:
                break
            # A wrapper of an old format has the offset of its last message.
            following = header.next_offset if is_batch else header.base_offset + 1
            if following <= at:
                continue
            reading.is_begun = True
            if undone is not None and undone.has(header):
                read.next = min(following, until)
                continue
            try:
                is_compressed = not is_batch or header.compression
                for each in _records(data, position, header):
                    reading.records += 1
                    if is_compressed:
                        reading.nbytes += _size(each)
                    if each.offset >= until:
                        break
                    if each.offset >= at:
                        read.found.append(Found(place, each, _marker(header, each)))
            except DecodeError as error:
                reading.problem(place, f"the batch at offset {header.base_offset} cannot be read: {error}")
                reading.unreadable[place] = (header.base_offset, following)
                read.next = following
                continue
            read.next = min(following, until)
        return read


class _Undone:
    """Which batches of an answer belong to transactions that were aborted."""

    def __init__(self, part: PartitionData) -> None:
        self._coming = sorted(
            (each.first_offset, each.producer_id) for each in part.aborted_transactions or ()
        )
        self._open: set[int] = set()

    def has(self, header: BatchHeader) -> bool:
        """Whether a batch, the next one, was aborted."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(self._coming.pop(0)[1])
        if header.is_control:
            self._open.discard(header.producer_id)
            return True  # consumers do not see markers
        return header.is_transactional and header.producer_id in self._open


class _Reading:
    """What a reading may still read, and what it met."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self.nbytes = 0
        """What was read, and what it decompressed to: a few bytes can be a billion."""
        self.records = 0
        self.is_begun = False
        """Whether a batch was read: the first one may be, however large it is and long it took."""
        self.unreadable: dict[Place, tuple[int, int]] = {}
        """The batch of each partition that could not be read last: its offset, and that after it."""
        self._problems: dict[str, None] = {}

    def before(self, place: Place, offset: int) -> int:
        """Where a reading back continues from an offset: not within a batch that cannot be read."""
        first, following = self.unreadable.get(place, (offset, offset))
        return first if first < offset < following else offset

    @property
    def is_spent(self) -> bool:
        return (
            self.nbytes >= _BUDGET_BYTES
            or self.records >= _BUDGET_RECORDS
            or time.monotonic() >= self._deadline
        )

    def chosen(self, found: list[Found], match: Match | None) -> tuple[list[Found], list[Found]]:
        """The records that match, and those for which there was no time: never all of them.

        A match may decode a record by a schema, which takes far longer than to read it.
        """
        if match is None:
            return found, []
        chosen: list[Found] = []
        for number, each in enumerate(found):
            if number and time.monotonic() >= self._deadline:
                self.records -= len(found) - number
                return chosen, found[number:]
            if match(each):
                chosen.append(each)
        return chosen, []

    def problem(self, place: Place, text: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems[f"{place.topic}-{place.partition}: {text}"] = None

    def tell(self, answer: Records, limit: int, is_at_end: bool) -> None:
        answer.scanned, answer.problems, answer.is_at_end = self.records, list(self._problems), is_at_end
        answer.has_stopped = len(answer.found) < limit and not is_at_end


def _first(positions: Offsets, places: set[Place]) -> dict[Place, int]:
    """Positions with these first: a broker fills its answer in the order of the request."""
    return dict(sorted(positions.items(), key=lambda item: item[0] not in places))


def _merged(records: Iterable[list[Found]], *, newest_first: bool) -> list[Found]:
    """The records of partitions by time; those of one partition stay in order."""
    merged = merge(*(_timed(found, newest_first) for found in records), key=itemgetter(0))
    return [each for _, each in merged]


def _timed(records: list[Found], newest_first: bool) -> list[tuple[int, Found]]:
    """Records as they are shown, with times that never go back within the partition."""
    timed, latest = [], -1
    for each in records:
        latest = max(latest, each.record.timestamp)
        timed.append((-latest if newest_first else latest, each))
    return timed[::-1] if newest_first else timed


def _untaken(
    matching: Mapping[Place, list[Found]], taken: list[Found]
) -> Iterator[tuple[Place, list[Found]]]:
    """The records of each partition, in order, that there was no room for."""
    known = {(each.place, each.offset) for each in taken}
    for place, found in matching.items():
        if rest := [each for each in found if (place, each.offset) not in known]:
            yield place, rest


def _records(data: bytes | memoryview, position: int, header: BatchHeader) -> Iterable[Record]:
    if header.magic == MAGIC:
        if header.record_count > _BUDGET_RECORDS:
            raise DecodeError(f"{header.record_count:,} records in one batch are more than the page reads")
        return iter_records(data, position, header, limit=_BATCH_BYTES)
    return decode_message_set(data[position : position + header.size], limit=_BATCH_BYTES)


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _marker(header: BatchHeader, record: Record) -> str | None:
    if not header.is_control:
        return None
    try:
        return _MARKERS.get(parse_control_record_key(record.key), "control record")
    except DecodeError:
        return "control record"
