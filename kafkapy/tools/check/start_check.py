"""The effect of the next start on one log: it removes, completes, truncates or refuses.

NextStart tries the start without changing the directory (storage/offline/next_start.py). This module makes
findings of its results. If a log is truncated below its recovery point or its high watermark, acknowledged
records are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from kafkapy.storage.disk.directory_names import DirectoryKind
from kafkapy.storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    file_name,
    find_logs,
    parse_file_name,
    snapshot_offset,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.batches import is_unfinished
from kafkapy.storage.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.storage.recovery.repairs import Emptied, Gap, Truncated
from kafkapy.tools.check.finding import RESTORE, Finding, Severity
from kafkapy.tools.check.layout import PartitionPlace
from kafkapy.tools.check.segment_check import torn_text

_REMOVED = "The next start removes it."
_LEFTOVERS = {
    DELETED_SUFFIX: "is left from a segment that was deleted",
    CLEANED_SUFFIX: "is left from a compaction that was interrupted",
    SWAP_SUFFIX: "is left from a compaction that was interrupted",
    TEMPORARY_SUFFIX: "is left from a write that was interrupted",
}


class StartCheck:
    """The result of a log's next start, if no broker is running and the start opens the log."""

    def __init__(
        self, before: FileSystem, place: PartitionPlace, names: Set[str], start: NextStart | None
    ) -> None:
        """Try the start of a log whose directory has the files `names`."""
        self._before = before
        self._place = place
        self._names = names
        self._start = start
        self._started = None if start is None else start.load(place.path)
        self.repairs = () if self._started is None else self._started.repairs
        """The changes of the start in the log."""
        self.log = None if self._started is None else self._started.log
        """The log after the start; None if the start does not open it."""
        self.files = before if start is None or self.log is None else start.files
        """The log's files after the start; if the start does not open the log, the files as they are."""
        self._last_base = max((base_offset for base_offset, _ in find_logs(names)), default=0)

    def truncation(self, segment_path: str) -> Truncated | None:
        """Return how the start truncates a segment, or None if it does not."""
        truncated = (each for each in self.repairs if isinstance(each, Truncated))
        return next((each for each in truncated if each.path == segment_path), None)

    def writes(self, path: str) -> bool:
        """Return whether the start writes a file again."""
        return self._start is not None and self._start.files.is_changed(path)

    def findings(self, promised: int) -> Iterator[Finding]:
        """Yield findings for what the start does; records below `promised` were acknowledged."""
        if self._started is not None and self._started.refusal is not None:
            yield self._refusal(self._started.refusal)
        for repair in self.repairs:
            if isinstance(repair, Emptied):
                what = f"all of it lies below the log start offset {repair.offset}"
                remedy = "The next start begins a new log there."
                yield Finding(Severity.REPAIRED, self._place.path, what, remedy)
            else:
                yield self._lost(repair, promised)
        for name in sorted(self._names):
            offset = snapshot_offset(name)
            if offset is not None:
                yield from self._snapshot(name, offset)
            elif self._started is not None:
                yield from self._leftover(name, self._started.names)

    def _refusal(self, refusal: str) -> Finding:
        path = self._place.path
        if not any(name.endswith(LOG_SUFFIX) for name in self._names):
            return Finding(Severity.DAMAGED, path, "there is no segment", f"{RESTORE}.")
        if self._place.kind is DirectoryKind.FUTURE:
            remedy = "The next start removes the copy, and it is made anew."
            return Finding(Severity.REPAIRED, path, "the copy is damaged", remedy)
        what, _, remedy = refusal.partition(". ")
        return Finding(Severity.DAMAGED, path, what, remedy or f"{RESTORE}.")

    def _lost(self, repair: Truncated | Gap, promised: int) -> Finding:
        severity, remedy = Severity.REPAIRED, "The next start truncates the log there."
        if isinstance(repair, Gap):
            position = None
            what = f"offsets {repair.offset} to {repair.base_offset - 1} are missing before it"
        else:
            position, size = repair.position, repair.nbytes
            remedy = f"The next start truncates the log there, which removes {size} bytes."
            what = f"{repair.reason}: {size} bytes"
            file = self._before.open(repair.path)
            try:
                if is_unfinished(self._before, file, position, position + size):
                    what = torn_text(size, repair.reason)
            finally:
                file.release()
            if repair.later:
                what += f", and {repair.later} later segment{'s' if repair.later > 1 else ''}"
        if repair.offset < promised:
            severity, remedy = Severity.DAMAGED, f"{RESTORE}: the next start truncates the log there."
        return Finding(severity, repair.path, what, remedy, position, repair.offset)

    # --- files ----------------------------------------------------------------------------------------------

    def _leftover(self, name: str, after: Set[str]) -> Iterator[Finding]:
        path = f"{self._place.path}/{name}"
        for suffix, what in _LEFTOVERS.items():
            if name.endswith(suffix):
                if suffix == SWAP_SUFFIX and name.removesuffix(SWAP_SUFFIX) in after:
                    yield Finding(Severity.REPAIRED, path, what, "The next start completes it.")
                else:
                    remedy = "It may be removed." if name in after else _REMOVED
                    yield Finding(Severity.HARMLESS, path, what, remedy)
                return
        parsed = parse_file_name(name)
        if parsed is None or {name, name + DELETED_SUFFIX} & after or self.log is None:
            return  # the start keeps it, or there is a finding already
        if parsed.suffix != LOG_SUFFIX and file_name(parsed.offset, LOG_SUFFIX) not in self._names:
            yield Finding(Severity.REPAIRED, path, "there is no segment for it", _REMOVED)
        elif parsed.suffix == LOG_SUFFIX and not self._before.size(path):
            what = "it is empty, and the segment before it has records there"
            yield Finding(Severity.REPAIRED, path, what, _REMOVED)

    def _snapshot(self, name: str, offset: int) -> Iterator[Finding]:
        path = f"{self._place.path}/{name}"
        stays = self._started is not None and name in self._started.names
        try:
            decode_snapshot(self._before.read(path))
        except FileNotFoundError:
            return  # a running broker has deleted it
        except CorruptSnapshotError as error:
            severity, remedy = Severity.HARMLESS, "It is not needed, since there is a newer one."
            if not stays:
                severity = Severity.REPAIRED
                remedy = "The next start deletes it, and uses an older one and the log."
            yield Finding(severity, path, str(error), remedy)
            return
        if stays or self.log is None or self.repairs:
            return
        if offset > self.log.log_end_offset:
            what = f"its offset is after the end of the log, offset {self.log.log_end_offset}"
            yield Finding(Severity.REPAIRED, path, what, "The next start deletes it.")
        elif offset < self._last_base and file_name(offset, LOG_SUFFIX) not in self._names:
            yield Finding(Severity.HARMLESS, path, "there is no segment for it", _REMOVED)
