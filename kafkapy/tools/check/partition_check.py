"""One partition: its segments in order, their indexes, and its log against the checkpoints.

If no broker is running, the next start is tried first (storage/offline/next_start.py). The findings that it
repairs are reported as such (start_check.py). Problems that remain in the log are damage. Indexes are checked
as they were before the start, which may rebuild them. Logs that no start opens are read as they are.

While a broker is running, a segment that it deletes or replaces during the check is skipped, and so is the
end of the segment that it is writing. Files that are read one after the other may still contradict each
other, so a finding counts only if it appears again when the check is repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.directories.future_log import REPLACES
from kafkapy.storage.disk.checkpoints import LOG_START_OFFSETS
from kafkapy.storage.disk.directory_names import DirectoryKind
from kafkapy.storage.disk.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    path_stem,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.partition_listing import Listing, list_partition
from kafkapy.tools.check.finding import READ_AGAIN, RESTORE, Finding, Severity
from kafkapy.tools.check.index_check import IndexProblem, OffsetIndexCheck, TimeIndexCheck
from kafkapy.tools.check.known_damage import KnownDamage
from kafkapy.tools.check.layout import PartitionPlace
from kafkapy.tools.check.partition_files import EpochCheck, check_topic_id
from kafkapy.tools.check.segment_check import Progress, SegmentCheck, torn_text
from kafkapy.tools.check.segment_report import EpochStart, Gap, LogState, SegmentReport
from kafkapy.tools.check.start_check import StartCheck
from kafkapy.tools.check.txn_index_check import check_txn_index

_CONFIRMATIONS = 2

_MOST = 20
"""How many findings of one kind are listed for a segment."""

_DELETE_INDEX = "Stop the broker and delete the file: it is rebuilt from the log."


@dataclass(frozen=True, slots=True)
class Expected:
    """The known facts about a partition before its files are read."""

    clean: bool
    live: bool
    """Whether a broker is running on it."""
    deep: bool
    recovery_point: int | None = None
    log_start_offset: int = 0
    high_watermark: int | None = None
    cleaner_offset: int | None = None

    @property
    def promised(self) -> int:
        """The offset below which records were on disk or acknowledged."""
        return max(self.recovery_point or 0, self.high_watermark or 0)


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
    files: FileSystem, place: PartitionPlace, expected: Expected, start: NextStart | None, progress: Progress
) -> PartitionResult:
    """Read the complete partition.

    Args:
        start: a trial of the next start; None if a broker is running.

    Raises:
        LogSourceError: the directory cannot be listed.
        OSError: the disk failed.
    """
    try:
        result = _PartitionCheck(files, place, expected, start, progress).run()
    finally:
        if start is not None:
            start.forget(place.path)
    for _ in range(_CONFIRMATIONS if expected.live else 0):
        if all(finding.severity is Severity.HARMLESS for finding in result.findings):
            break
        before = {(finding.path, finding.what) for finding in result.findings}
        result = _PartitionCheck(files, place, expected, None, _no_progress).run()
        result.findings = [each for each in result.findings if (each.path, each.what) in before]
    return result


def _no_progress(nbytes: int) -> None:
    """Do nothing: the bytes were counted the first time."""


class _PartitionCheck:
    def __init__(
        self,
        files: FileSystem,
        place: PartitionPlace,
        expected: Expected,
        start: NextStart | None,
        progress: Progress,
    ) -> None:
        self._before = files
        self._place = place
        self._expected = expected
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
        path, expected, result = self._place.path, self._expected, self._result
        self._found += self._damage.findings
        epochs = EpochCheck.load(self._before, path)
        listing = list_partition(self._after, path)
        try:
            self._begin_transactions(listing)
            bases: list[int | None] = [segment.base_offset for segment in listing.segments]
            for segment, following in zip(listing.segments, [*bases[1:], None], strict=False):
                self._check_segment(segment, following)
            end_offset = self._end_offset(listing)
        finally:
            listing.close()
        found = self._start.findings(expected.promised)
        # A start refuses old message formats; there is a finding for them below.
        self._found += [each for each in found if self._state.legacy is None or each.path != path]
        self._found += self._against_checkpoints(end_offset)
        self._found += self._lost_offsets()
        log = self._start.log
        self._found += epochs.compare(
            self._epoch_starts,
            known=epochs.entries if log is None else log.leader_epochs.entries,
            known_to=(expected.recovery_point or 0) if log is None else log.log_end_offset,
            clean=expected.clean,
            log_start_offset=max(
                expected.log_start_offset, listing.segments[0].base_offset if listing.segments else 0
            ),
            end_offset=end_offset if log is None else log.log_end_offset,
        )
        forgets = log is not None and expected.clean and not listing.snapshots and not len(log.producers)
        if forgets and self._state.has_producers:
            what = "there is no producer snapshot: the next start forgets the idempotent producers"
            self._found.append(Finding(Severity.DAMAGED, path, what, f"{READ_AGAIN}."))
        result.topic_id, wrong = check_topic_id(self._before, path)
        self._found += wrong
        if self._state.legacy is not None:
            what = f"it holds messages in format v{self._state.legacy}, from clients before Kafka 0.11"
            remedy = "kafkapy does not serve them; Apache Kafka does."
            self._found.append(Finding(Severity.HARMLESS, path, what, remedy))
        result.batches = self._state.batches
        result.replaces = REPLACES in self._names
        return result

    def _begin_transactions(self, listing: Listing) -> None:
        """Read the transactions that are open at the log's first offset from the snapshot there."""
        if not listing.segments:
            return
        offset = listing.segments[0].base_offset
        try:
            producers = decode_snapshot(
                self._before.read(path_stem(self._place.path, offset) + SNAPSHOT_SUFFIX)
            )
        except (FileNotFoundError, CorruptSnapshotError):
            return
        for producer_id, entry in producers.items():
            if entry.txn_first_offset >= 0:
                self._state.open_transactions[producer_id] = entry.txn_first_offset

    # --- one segment ----------------------------------------------------------------------------------------

    def _check_segment(self, segment: OfflineSegment, following: int | None) -> None:
        last = following is None
        being_written = self._expected.live or (last and not self._expected.clean)
        base = segment.base_offset
        index_files = self._before
        if file_name(base, LOG_SUFFIX + SWAP_SUFFIX) in self._names:
            index_files = self._after  # the existing indexes belong to the segment that is replaced
        index_path, time_path, txn_path = (
            segment.stem + suffix + segment.suffix
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        )
        offset_index = OffsetIndexCheck(index_files, index_path, base, being_written=being_written)
        time_index = TimeIndexCheck(index_files, time_path, base, being_written=being_written)
        before = self._state.next_offset
        try:
            file = segment.file
        except FileNotFoundError:
            self._forget()
            return
        if before is not None and base > before:
            self._gaps.append((segment.path, Gap(0, before, base - 1)))
            self._state.open_transactions.clear()
        if before is not None and base < before:
            what = f"it begins at offset {base}, the segment before it ends at offset {before}"
            self._found.append(Finding(Severity.DAMAGED, segment.path, what, f"{RESTORE}.", offset=base))
        self._state.next_offset = base
        size = self._after.size_of(file)
        check = SegmentCheck(
            self._after,
            file,
            base,
            self._state,
            offset_index,
            time_index,
            deep=self._expected.deep,
            progress=self._progress,
        )
        report = check.run(size, following)
        self._result.segments += 1
        self._result.nbytes += size
        if self._expected.live and not self._still_exists(segment):
            self._forget()
            return
        self._found += self._bad_places(segment, report, last=last)
        end = self._state.next_offset or base
        self._found += self._damage.compare(base, report.bad, end)
        self._state.next_offset = max(end, self._damage.end_offset(base))
        truncated = self._start.truncation(segment.path)
        if truncated is not None:
            offset_index.hole(truncated.position, truncated.position + truncated.nbytes)
            time_index.bad_batch()
        # An index file is created with its first entry, or when the segment is closed.
        expects_indexes = size > 0 and not being_written
        self._gaps += [(segment.path, gap) for gap in report.gaps]
        self._epoch_starts += report.epochs
        for path, missing, problems in (
            (index_path, offset_index.missing, offset_index.finish(size, end)),
            (time_path, time_index.missing, time_index.finish(end)),
        ):
            if missing and expects_indexes:
                remedy = "It is rebuilt from the log."
                self._found.append(Finding(Severity.REPAIRED, path, "it is missing", remedy))
            if problems:
                self._found.append(self._index_finding(path, problems))
        if not (self._expected.live and last) and truncated is None:
            rebuilt = self._start.writes(txn_path)
            self._found += check_txn_index(index_files, txn_path, base, report, rebuilt=rebuilt)

    def _forget(self) -> None:
        """Forget the last segment, because the broker deleted or replaced it during the check.

        The next segment need not begin where this one ended.
        """
        self._gaps.clear()
        self._state.next_offset = None
        self._state.open_transactions.clear()

    def _still_exists(self, segment: OfflineSegment) -> bool:
        """Return whether the open file still has its name: it was not deleted or replaced."""
        try:
            return os.path.samestat(os.fstat(segment.file.fd), os.stat(segment.path + segment.suffix))
        except FileNotFoundError:
            return False

    def _bad_places(self, segment: OfflineSegment, report: SegmentReport, *, last: bool) -> Iterator[Finding]:
        path = segment.path + segment.suffix
        for number, bad in enumerate(sorted(report.bad, key=lambda each: each.lost.position)):
            lost, size = bad.lost, bad.lost.end_position - bad.lost.position
            severity, remedy = Severity.DAMAGED, f"{RESTORE}: consumers get CORRUPT_MESSAGE for what is lost."
            if last and bad.at_end:
                self._broken_end = True
                if self._expected.live and bad.torn:
                    return  # the broker is writing it
                if self._place.is_kraft and bad.torn:
                    severity = Severity.REPAIRED
                    remedy = f"Apache Kafka truncates the log there, which removes {size} bytes."
            what = bad.reason
            if bad.at_end and bad.torn:
                what = torn_text(size, bad.reason)
            elif lost.end_offset > lost.first_offset:
                what = f"{bad.reason}: {size} bytes, offsets {lost.first_offset} to {lost.end_offset - 1}"
            elif size:
                what = f"{bad.reason}: {size} bytes"
            if segment.suffix:
                # A compacted segment that replaces others has the only copy of their records.
                remedy = f"{RESTORE}: the partition stays offline."
            if number == _MOST:
                what = f"{len(report.bad) - _MOST} more like this"
                yield Finding(severity, path, what, remedy)
                return
            yield Finding(severity, path, what, remedy, lost.position, lost.first_offset)

    def _index_finding(self, path: str, problems: list[IndexProblem]) -> Finding:
        severity, remedy = Severity.DAMAGED, _DELETE_INDEX
        if self._start.writes(path):
            severity, remedy = Severity.REPAIRED, "The next start rebuilds it from the log."
        elif any(problem.seen_by_broker for problem in problems):
            severity, remedy = Severity.REPAIRED, "The broker rebuilds it from the log when it opens it."
        what = problems[0].what + (f", and {len(problems) - 1} more" if len(problems) > 1 else "")
        return Finding(severity, path, what, remedy, problems[0].position)

    # --- the log --------------------------------------------------------------------------------------------

    def _end_offset(self, listing: Listing) -> int:
        if self._state.next_offset is not None:
            return self._state.next_offset
        return listing.segments[-1].base_offset if listing.segments else self._expected.log_start_offset

    def _against_checkpoints(self, end: int) -> Iterator[Finding]:
        """Compare the end of the log with the checkpoints."""
        if not self._place.is_log or self._broken_end:
            return
        if self._expected.live and self._state.next_offset is None:
            return  # the broker deleted all segments during the check
        path, expected = self._place.path, self._expected
        if not any(name.endswith(LOG_SUFFIX) for name in self._names):
            if self._start.log is not None:
                remedy = "The next start creates a new log."
                yield Finding(Severity.REPAIRED, path, "there is no segment", remedy)
            return
        for name, offset, said in (
            ("recovery point", expected.recovery_point, "everything below was on disk"),
            ("high watermark", expected.high_watermark, "everything below was acknowledged"),
        ):
            if offset is not None and end < offset:
                what = f"the log ends at offset {end}, below its {name} {offset}: {said}"
                yield Finding(Severity.DAMAGED, path, what, f"{RESTORE}.", offset=end)
                break
        if expected.clean and expected.recovery_point is not None and end > expected.recovery_point:
            what = f"the log ends at offset {end}, the broker stopped at offset {expected.recovery_point}"
            severity = Severity.DAMAGED
            remedy = f"{RESTORE}, or {READ_AGAIN[0].lower()}{READ_AGAIN[1:]}."
            if expected.high_watermark is not None and end <= expected.high_watermark:
                # Two files agree: the recovery point is wrong.
                severity, remedy = Severity.REPAIRED, "The next start reads the last segment again."
            yield Finding(severity, path, what, remedy, offset=expected.recovery_point)
        if expected.log_start_offset > end:
            log_start = f"the log start offset {expected.log_start_offset}"
            what = f"{log_start} is above the end of the log, offset {end}"
            remedy = f"{RESTORE}; if that offset is wrong, remove its line from {LOG_START_OFFSETS}."
            yield Finding(Severity.DAMAGED, path, what, remedy, offset=end)
        if expected.cleaner_offset is not None and expected.cleaner_offset > end and not expected.live:
            what = f"the cleaner's offset {expected.cleaner_offset} is above the end of the log, offset {end}"
            remedy = "Compaction reads the log from its start again."
            yield Finding(Severity.REPAIRED, path, what, remedy, offset=end)

    def _lost_offsets(self) -> Iterator[Finding]:
        """Yield findings for gaps between offsets, unless compaction made them."""
        if self._state.compacted:
            return
        if self._place.kind is DirectoryKind.FUTURE:
            return  # the cleaner's offset is in the directory that the log moves from
        cleaned = self._expected.cleaner_offset or 0
        lost = (
            each for each in self._gaps if each[1].first >= cleaned and not self._damage.explains(each[1])
        )
        for path, gap in islice(lost, _MOST):
            what = f"offsets {gap.first} to {gap.last} are missing before it"
            remedy = f"{RESTORE}; if the topic was ever compacted, this is not damage."
            yield Finding(Severity.DAMAGED, path, what, remedy, gap.position or None, gap.first)
