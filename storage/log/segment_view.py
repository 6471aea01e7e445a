"""A segment as it is at one moment, for threads that do not write the log.

A view opens its own files on first use, and changes none. If an index is missing or wrong, it scans from the
start of the segment. The files may be renamed, truncated or replaced meanwhile. The caller has to check
whether that happened (timestamp_search.py), and then drops the result.
"""

from __future__ import annotations

from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.segment import Segment

_CONFIG = LogConfig()


class SegmentView(Segment):
    """One view of a segment.

    `close_files` closes its files.
    """

    __slots__ = ("_is_written", "has_checked")

    def __init__(self, segment: Segment, *, is_active: bool = False) -> None:
        """Make a view in any thread, but of the active segment in the thread that writes it."""
        directory = segment.path.rpartition("/")[0]
        super().__init__(
            segment.files, directory, segment.base_offset, _CONFIG, size=segment.size, now_ms=0, new=False
        )
        self._is_written = is_active
        """Whether the indexes are preallocated, and may get entries meanwhile."""
        self.has_checked = False
        """Whether the entries of the indexes were checked here, and rise."""
        self.damage = segment.damage
        self.unchecked = segment.unchecked
        self.indexes.rises = segment.indexes.rises or is_active
        if segment.indexes.knows_max_timestamp:
            self.indexes.learn_max_timestamp(segment.max_timestamp, segment.offset_of_max_timestamp)

    def check_indexes(self, *, thoroughly: bool = True) -> None:
        """Load and check the indexes, always thoroughly.

        Raises as `Segment.check_indexes`.
        """
        if self._is_written:
            self.indexes.load_while_written()
        else:
            super().check_indexes(thoroughly=True)
            self.has_checked = True

    def _mend_indexes(self, _reason: str) -> None:
        self.indexes.do_without()
