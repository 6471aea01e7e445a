"""One partition: its segments in order, their indexes, and its log against the checkpoints.

If no broker is running, the next start is tried first (storage/offline/next_start.py). The findings that it
repairs are reported as such (start_check.py). Problems that remain in the log are damage. Indexes are checked
as they were before the start, which may rebuild them. Logs that no start opens are read as they are.

While a broker is running, a segment that it deletes or replaces during the check is skipped, and so is the
end of the segment that it is writing. Files that are read one after the other may still contradict each
other, so a finding counts only if it appears again when the check is repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.directories.future_log import REPLACES
from kafkapy.storage.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from kafkapy.storage.disk.directory_names import DirectoryKind
from kafkapy.storage.disk.file_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX, file_name, path_stem
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.partition_listing import list_partition
from kafkapy.tools.check.finding import READ_AGAIN, RESTORE, Finding, Severity
from kafkapy.tools.check.index_check import IndexCheck, OffsetIndexCheck, TimeIndexCheck
from kafkapy.tools.check.known_damage import KnownDamage
from kafkapy.tools.check.layout import PartitionPlace
from kafkapy.tools.check.partition_files import EpochCheck, check_topic_id
from kafkapy.tools.check.segment_check import (
    EpochStart,
    Gap,
    LogState,
    Progress,
    SegmentCheck,
    SegmentReport,
    torn_text,
)
from kafkapy.tools.check.start_check import StartCheck
from kafkapy.tools.check.txn_index_check import check_txn_index

_CONFIRMATIONS = 2

_MOST = 20
"""How many findings of one kind are listed for a segment."""

_END = "the end of the log, offset {}"
_DELETE_INDEX = "Stop the broker and delete the file: it is rebuilt from the log."


@dataclass(frozen=True, slots=True)
class Expected:
    """A partition, and the facts about it that are known before its files are read."""

    place: PartitionPlace
    clean: bool
    live: bool
    """Whether a broker is running on it."""
    deep: bool
    offsets: Mapping[str, int] = field(default_factory=dict)
    """What the checkpoints say, by their names."""

    @property
    def recovery_point(self) -> int:
        return self.offsets.get(RECOVERY_POINTS, 0)

    @property
    def log_start_offset(self) -> int:
        return self.offsets.get(LOG_START_OFFSETS, 0)

    @property
    def promised(self) -> int:
        """The offset below which records were on disk or acknowledged."""
        return max(self.recovery_point, self.offsets.get(HIGH_WATERMARKS, 0))


@dataclass(slots=True)
class PartitionResult:
    """The findings, and what other checks need."""

    topic_partition: TopicPartition
    path: str
    findings: list[Finding] = field(default_factory=list)
    topic_id: Uuid | None = None
    replaces: bool = False
    """Whether the log was created to replace another one."""
    segments: int = 0
    batches: int = 0
    nbytes: int = 0


def check_partition(
    files: FileSystem, expected: Expected, start: NextStart | None, progress: Progress
) -> PartitionResult:
    """Read the complete partition.

    Args:
        start: a trial of the next start; None if a broker is running.

    Raises:
        LogSourceError: the directory cannot be listed.
    """
    try:
        result = _PartitionCheck(files, expected, start, progress).run()
    finally:
        if start is not None:
            start.forget(expected.place.path)
    for _ in range(_CONFIRMATIONS if expected.live else 0):
        if all(finding.severity is Severity.HARMLESS for finding in result.findings):
            break
        before = {(finding.path, finding.what) for finding in result.findings}
        # The bytes were counted the first time.
        result = _PartitionCheck(files, expected, None, lambda _: None).run()
        result.findings = [each for each in result.findings if (each.path, each.what) in before]
    return result


class _PartitionCheck:
    def __init__(
        self, files: FileSystem, expected: Expected, start: NextStart | None, progress: Progress
    ) -> None:
        self._before = files
        self._expected = expected
        self._place = place = expected.place
        self._progress = progress
        self._state = LogState()
        self._epoch_starts: list[EpochStart] = []
        self._gaps: list[tuple[str, Gap]] = []
        self._result = PartitionResult(place.topic_partition, place.path)
        self._found = self._result.findings
        self._names = frozenset(entry.name for entry in files.scan(place.path))
        self._start = StartCheck(files, place, self._names, start)
        self._after = self._start.files
        self._damage = KnownDamage(files, place.path)
        self._broken_end = bool(self._start.repairs)

    def run(self) -> PartitionResult:
        path, expected, result, state = self._place.path, self._expected, self._result, self._state
        self._found += self._damage.findings
        epochs = EpochCheck(self._before, path)
        listing = list_partition(self._after, path)
        try:
            first = listing.segments[0].base_offset if listing.segments else 0
            self._begin_transactions(first)
            for segment, following in zip_longest(listing.segments, listing.segments[1:]):
                self._check_segment(segment, None if following is None else following.base_offset)
            end_offset = state.next_offset
            if end_offset is None:
                end_offset = (
                    listing.segments[-1].base_offset if listing.segments else expected.log_start_offset
                )
        finally:
            listing.close()
        found = self._start.findings(expected.promised)
        # A start refuses old message formats; there is a finding for them below.
        self._found += [each for each in found if state.legacy is None or each.path != path]
        self._found += self._against_checkpoints(end_offset)
        self._found += self._lost_offsets()
        log = self._start.log
        self._found += epochs.compare(
            self._epoch_starts,
            log,
            recovery_point=expected.recovery_point,
            clean=expected.clean,
            log_start_offset=max(expected.log_start_offset, first),
            end_offset=end_offset,
        )
        forgets = log is not None and expected.clean and not listing.snapshots and not len(log.producers)
        if forgets and state.has_producers:
            what = "there is no producer snapshot: the next start forgets the idempotent producers"
            self._found.append(Finding(Severity.DAMAGED, path, what, f"{READ_AGAIN}."))
        result.topic_id, wrong = check_topic_id(self._before, path)
        self._found += wrong
        if state.legacy is not None:
            what = f"it holds messages in format v{state.legacy}, from clients before Kafka 0.11"
            remedy = "kafkapy does not serve them; Apache Kafka does."
            self._found.append(Finding(Severity.HARMLESS, path, what, remedy))
        result.batches = state.batches
        result.replaces = REPLACES in self._names
        return result

    def _begin_transactions(self, first_offset: int) -> None:
        """Read the transactions that are open at the log's first offset from the snapshot there."""
        with contextlib.suppress(FileNotFoundError, CorruptSnapshotError):
            path = path_stem(self._place.path, first_offset) + SNAPSHOT_SUFFIX
            for producer_id, entry in decode_snapshot(self._before.read(path)).items():
                if entry.txn_first_offset >= 0:
                    self._state.open_transactions[producer_id] = entry.txn_first_offset

    # --- one segment ----------------------------------------------------------------------------------------

    def _check_segment(self, segment: OfflineSegment, following: int | None) -> None:
        state, expected, base = self._state, self._expected, segment.base_offset
        last = following is None
        being_written = expected.live or (last and not expected.clean)
        # The existing indexes may belong to the segment that is replaced.
        replaces = file_name(base, LOG_SUFFIX + SWAP_SUFFIX) in self._names
        index_files = self._after if replaces else self._before
        paths = segment.indexes.offset_index.path, segment.indexes.time_index.path
        indexes = (
            OffsetIndexCheck(index_files, paths[0], base, being_written=being_written),
            TimeIndexCheck(index_files, paths[1], base, being_written=being_written),
        )
        before = state.next_offset
        try:
            file = segment.file
        except FileNotFoundError:  # a running broker has deleted or replaced it
            state.next_offset = None
            return
        if before is not None and base > before:
            self._gaps.append((segment.path, Gap(0, before, base - 1)))
            state.open_transactions.clear()
        if before is not None and base < before:
            what = f"it begins at offset {base}, the segment before it ends at offset {before}"
            self._found.append(Finding(Severity.DAMAGED, segment.path, what, f"{RESTORE}.", offset=base))
        state.next_offset = base
        size = self._after.size_of(file)
        check = SegmentCheck(self._after, file, base, state, indexes, expected.deep, self._progress)
        report = check.run(size, following)
        self._result.segments += 1
        self._result.nbytes += size
        self._found += self._bad_places(segment, report, last=last)
        end = state.next_offset
        self._found += self._damage.compare(base, report.bad, end)
        state.next_offset = max(end, self._damage.end_offset(base))
        self._gaps += [(segment.path, gap) for gap in report.gaps]
        self._epoch_starts += report.epochs
        truncated = self._start.truncation(segment.path)
        for index in indexes:
            if truncated is not None:
                index.hole(truncated.position, truncated.position + truncated.nbytes)
            # An index file is created with its first entry, or when the segment is closed.
            if index.missing and size > 0 and not being_written:
                remedy = "It is rebuilt from the log."
                self._found.append(Finding(Severity.REPAIRED, index.path, "it is missing", remedy))
            index.finish(size, end)
            self._found += self._index_findings(index)
        if not (expected.live and last) and truncated is None:
            path = segment.txn_index.path
            rebuilt = self._start.writes(path)
            self._found += check_txn_index(index_files, path, base, report, rebuilt=rebuilt)

    def _bad_places(self, segment: OfflineSegment, report: SegmentReport, *, last: bool) -> Iterator[Finding]:
        path = segment.path + segment.suffix
        for number, bad in enumerate(sorted(report.bad)):
            lost, size, what = bad.lost, bad.lost.end_position - bad.lost.position, bad.reason
            severity, remedy = Severity.DAMAGED, f"{RESTORE}: consumers get CORRUPT_MESSAGE for what is lost."
            if last and bad.at_end:
                self._broken_end = True
                if self._expected.live and bad.torn:
                    return  # the broker is writing it
                if self._place.is_kraft and bad.torn:
                    severity = Severity.REPAIRED
                    remedy = f"Apache Kafka truncates the log there, which removes {size} bytes."
            if bad.at_end and bad.torn:
                what = torn_text(size, bad.reason)
            elif lost.end_offset > lost.first_offset:
                what += f": {size} bytes, offsets {lost.first_offset} to {lost.end_offset - 1}"
            elif size:
                what += f": {size} bytes"
            if segment.suffix:
                # A compacted segment that replaces others has the only copy of their records.
                remedy = f"{RESTORE}: the partition stays offline."
            if number == _MOST:
                yield Finding(severity, path, f"{len(report.bad) - _MOST} more like this", remedy)
                return
            yield Finding(severity, path, what, remedy, lost.position, lost.first_offset)

    def _index_findings(self, index: IndexCheck) -> Iterator[Finding]:
        if not index.problems:
            return
        (what, position), more = index.problems[0], len(index.problems) - 1
        severity, remedy = Severity.DAMAGED, _DELETE_INDEX
        if self._start.writes(index.path):
            severity, remedy = Severity.REPAIRED, "The next start rebuilds it from the log."
        elif index.seen_by_broker:
            severity, remedy = Severity.REPAIRED, "The broker rebuilds it from the log when it opens it."
        yield Finding(severity, index.path, what + (f", and {more} more" if more else ""), remedy, position)

    # --- the log --------------------------------------------------------------------------------------------

    def _against_checkpoints(self, end: int) -> Iterator[Finding]:
        """Compare the end of the log with the checkpoints."""
        path, expected, offsets = self._place.path, self._expected, self._expected.offsets
        if not self._place.is_log or self._broken_end:
            return
        if not any(name.endswith(LOG_SUFFIX) for name in self._names):
            if self._start.log is not None:
                remedy = "The next start creates a new log."
                yield Finding(Severity.REPAIRED, path, "there is no segment", remedy)
            return
        for checkpoint, name, said in (
            (RECOVERY_POINTS, "recovery point", "everything below was on disk"),
            (HIGH_WATERMARKS, "high watermark", "everything below was acknowledged"),
        ):
            if end < (offset := offsets.get(checkpoint, 0)):
                what = f"the log ends at offset {end}, below its {name} {offset}: {said}"
                yield Finding(Severity.DAMAGED, path, what, f"{RESTORE}.", offset=end)
                break
        stopped_at = offsets.get(RECOVERY_POINTS, end)
        if expected.clean and end > stopped_at:
            what = f"the log ends at offset {end}, the broker stopped at offset {stopped_at}"
            severity, remedy = Severity.DAMAGED, f"{RESTORE}, or {READ_AGAIN[0].lower()}{READ_AGAIN[1:]}."
            if end <= offsets.get(HIGH_WATERMARKS, 0):
                # Two files agree: the recovery point is wrong.
                severity, remedy = Severity.REPAIRED, "The next start reads the last segment again."
            yield Finding(severity, path, what, remedy, offset=stopped_at)
        if expected.log_start_offset > end:
            what = f"the log start offset {expected.log_start_offset} is above {_END.format(end)}"
            remedy = f"{RESTORE}; if that offset is wrong, remove its line from {LOG_START_OFFSETS}."
            yield Finding(Severity.DAMAGED, path, what, remedy, offset=end)
        if offsets.get(CLEANER_OFFSETS, 0) > end and not expected.live:
            what = f"the cleaner's offset {offsets[CLEANER_OFFSETS]} is above {_END.format(end)}"
            remedy = "Compaction reads the log from its start again."
            yield Finding(Severity.REPAIRED, path, what, remedy, offset=end)

    def _lost_offsets(self) -> Iterator[Finding]:
        """Yield findings for gaps between offsets, unless compaction made them."""
        if self._state.compacted or self._place.kind is DirectoryKind.FUTURE:
            return  # the cleaner's offset of a future log is in the directory that it moves from
        cleaned = self._expected.offsets.get(CLEANER_OFFSETS, 0)
        lost = (
            each for each in self._gaps if each[1].first >= cleaned and not self._damage.explains(each[1])
        )
        for path, gap in islice(lost, _MOST):
            what = f"offsets {gap.first} to {gap.last} are missing before it"
            remedy = f"{RESTORE}; if the topic was ever compacted, this is not damage."
            yield Finding(Severity.DAMAGED, path, what, remedy, gap.position or None, gap.first)
