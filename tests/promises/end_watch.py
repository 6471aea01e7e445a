"""A watch over the start and the end of partitions, which do not go back.

The end (the high watermark) is never below what was acknowledged, read or committed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.promises.history import (
    Acked,
    Anomaly,
    CommitFetched,
    EndAsked,
    EndOffset,
    Looks,
    Partition,
    Read,
    ReadFrom,
    ReadTo,
    Record,
    Report,
    Sent,
    StartOffset,
    place_name,
)


class _Reached(NamedTuple):
    """How far a partition is known to reach."""

    end: int = 0
    read: int = -1
    """The highest offset that was read."""
    acked: int = -1
    commit: CommitFetched | None = None
    """The fetched commit with the highest offset."""


_NOTHING: Final = _Reached()


class EndWatch:
    """What all clients and each reader know of the starts and ends of partitions."""

    def __init__(self, sent: dict[Record, Sent], report: Report) -> None:
        """Read `sent`, which has what was sent."""
        self.looks: Final[Looks] = {
            Acked: self._acked,
            ReadFrom: self._read_from,
            Read: self._read,
            ReadTo: self._read_to,
            EndAsked: self._end_asked,
            EndOffset: self._end_told,
            StartOffset: self._start_told,
            CommitFetched: self._commit_fetched,
        }
        self._sent, self._report = sent, report
        self._starts: dict[Partition, int] = {}
        self._reached: dict[Partition, _Reached] = {}
        self._own: dict[tuple[str, Partition], _Reached] = {}
        """What each reader itself was given and told."""
        self._asked: dict[tuple[str, Partition], _Reached] = {}
        """What was known when a reader asked for the end."""
        self._committed: set[tuple[str, Partition]] = set()
        """The readers that read only what is committed."""

    def known_end(self, partition: Partition) -> int:
        """The offset that a partition is known to reach."""
        known = self._reached.get(partition, _NOTHING)
        return max(known.end, known.read + 1, known.acked + 1)

    def _acked(self, event: Acked) -> None:
        original = self._sent.get((event.producer, event.number))
        if original is not None:
            known = self._reached.get(original.partition, _NOTHING)
            if event.offset > known.acked:
                self._reached[original.partition] = known._replace(acked=event.offset)

    def _read_from(self, event: ReadFrom) -> None:
        committed = self._committed
        (committed.add if event.committed else committed.discard)((event.reader, event.partition))

    def _read(self, event: Read) -> None:
        start = self._starts.get(event.partition, 0)
        if event.offset < start:
            self._report(Anomaly.DELETED_READ, f"{place_name(event.partition, event.offset)}, start {start}")
        known = self._reached.get(event.partition, _NOTHING)
        if event.offset > known.read:
            self._reached[event.partition] = known._replace(read=event.offset)
        key = event.reader, event.partition
        own = self._own.get(key, _NOTHING)
        if event.offset > own.read:
            self._own[key] = own._replace(read=event.offset)

    def _read_to(self, event: ReadTo) -> None:
        known = self._reached.get(event.partition, _NOTHING)
        if (event.reader, event.partition) in self._committed:
            # It was told the last stable offset: groups have committed nothing beyond that either.
            self._compare_commit(event.partition, event.offset, known)
        else:
            self._compare(event.partition, event.offset, known)

    def _end_asked(self, event: EndAsked) -> None:
        key = event.reader, event.partition
        if event.of_all:
            self._asked[key] = self._reached.get(event.partition, _NOTHING)
        else:
            self._asked[key] = self._own.get(key, _NOTHING)

    def _end_told(self, event: EndOffset) -> None:
        key = event.reader, event.partition
        known = self._asked.pop(key, None)
        if known is None:
            known = self._reached.get(event.partition, _NOTHING)
        self._compare(event.partition, event.offset, known)
        if event.reader:
            own = self._own.get(key, _NOTHING)
            self._own[key] = own._replace(end=max(event.offset, own.end))

    def _compare(self, partition: Partition, end: int, known: _Reached) -> None:
        place = place_name(partition, end)
        if end < known.end:
            self._report(Anomaly.END_OFFSET_WENT_BACK, f"{place} after {known.end}")
        if end <= known.read:
            self._report(Anomaly.READ_BEYOND_END, f"end {place}, read {known.read}")
        if end <= known.acked:
            self._report(Anomaly.ACK_BEYOND_END, f"end {place}, acknowledged {known.acked}")
        self._compare_commit(partition, end, known)
        reached = self._reached.get(partition, _NOTHING)
        if end > reached.end:
            self._reached[partition] = reached._replace(end=end)

    def _compare_commit(self, partition: Partition, end: int, known: _Reached) -> None:
        if known.commit is not None and known.commit.offset > end:
            where = f"group {known.commit.group}: {known.commit.offset}, end {place_name(partition, end)}"
            self._report(Anomaly.COMMIT_BEYOND_END, where)

    def _start_told(self, event: StartOffset) -> None:
        known = self._starts.get(event.partition, 0)
        if event.offset < known:
            where = f"{place_name(event.partition, event.offset)} after {known}"
            self._report(Anomaly.START_OFFSET_WENT_BACK, where)
        self._starts[event.partition] = event.offset

    def _commit_fetched(self, event: CommitFetched) -> None:
        known = self._reached.get(event.partition, _NOTHING)
        if known.commit is None or event.offset > known.commit.offset:
            self._reached[event.partition] = known._replace(commit=event)
