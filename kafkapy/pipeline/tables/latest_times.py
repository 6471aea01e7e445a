"""The latest timestamp in each partition, of the rows of a table.

Only a record with an earlier timestamp than one before it can meet a row that is older, by its offset, and
has a later timestamp (`upserts.py`). Most batches have none, and then nothing has to be looked up in the
table. It is asked once in a run for each partition: for rows that are newer than the first batch, so that the
formats leave out files by their statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkapy.pipeline.tables.tombstones import Places


class LatestTimes:
    """What this run knows of them, in microseconds since 1970."""

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}

    def may_go_back(
        self, oldest: Places, newest: Places, later_than: Callable[[Mapping[int, int]], dict[int, int]]
    ) -> bool:
        """Whether a row may have a later timestamp than a record of the batch in its partition.

        `oldest` and `newest` have the earliest and the latest timestamp of the batch. `later_than` finds the
        latest timestamp of the rows of each partition, if it is later than the given one.
        """
        unknown = {number: place.timestamp for number, place in oldest.items() if number not in self._latest}
        if unknown:
            self._latest |= unknown | later_than(unknown)
        back = any(self._latest[number] > place.timestamp for number, place in oldest.items())
        for number, place in newest.items():
            self._latest[number] = max(self._latest[number], place.timestamp)
        return back
