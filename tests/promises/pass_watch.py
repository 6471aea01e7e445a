"""A watch over passes: offsets rise, and where each has a record none is left out."""

from __future__ import annotations

from typing import Final

from tests.promises.history import Anomaly, Looks, Partition, Read, ReadFrom, ReadTo, Report, place_name


class PassWatch:
    """How far each pass has come."""

    def __init__(self, report: Report) -> None:
        self.looks: Final[Looks] = {ReadFrom: self._read_from, Read: self._read, ReadTo: self._read_to}
        self._report = report
        self._next: dict[tuple[str, Partition], int] = {}
        """The lowest offset that a reader may be given now."""
        self._dense: set[tuple[str, Partition]] = set()
        """The passes over partitions of which each offset has a record."""

    def _read_from(self, event: ReadFrom) -> None:
        key = event.reader, event.partition
        self._next[key] = event.offset
        (self._dense.add if event.dense else self._dense.discard)(key)

    def _read(self, event: Read) -> None:
        key = event.reader, event.partition
        expected = self._next.get(key, event.offset)
        if event.offset < expected:
            where = f"{event.reader}: {place_name(event.partition, event.offset)} after {expected - 1}"
            self._report(Anomaly.NONMONOTONIC_READ, where)
        self._require_no_gap(event, expected)
        self._next[key] = event.offset + 1

    def _read_to(self, event: ReadTo) -> None:
        self._require_no_gap(event, self._next.pop((event.reader, event.partition), event.offset))

    def _require_no_gap(self, event: Read | ReadTo, expected: int) -> None:
        if event.offset > expected and (event.reader, event.partition) in self._dense:
            where = f"{place_name(event.partition, expected)} up to {event.offset}, {event.reader}"
            self._report(Anomaly.OFFSET_GAP, where)
