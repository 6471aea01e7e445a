"""One partition: its segments in order, their indexes, and its log with the checkpoints.

A segment that a running broker has deleted or replaced during the check is left out, and so is the end of the
segment that it is writing. Files that were read one after the other may still contradict each other: while a
broker is running, a finding counts only if a second check has it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.disk.checkpoints import LOG_START_OFFSETS
from kafkapy.storage.log.producer_snapshots import SNAPSHOT_SUFFIX, CorruptSnapshotError, decode_snapshot
from kafkapy.storage.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.partition_listing import Listing, list_partition
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.index_check import IndexProblem, OffsetIndexCheck, TimeIndexCheck
from kafkapy.tools.check.known_damage import KnownDamage
from kafkapy.tools.check.layout import PartitionPlace, Role
from kafkapy.tools.check.partition_files import EpochCheck, check_snapshots, check_topic_id, find_leftovers
from kafkapy.tools.check.segment_check import Progress, SegmentCheck
from kafkapy.tools.check.segment_report import EpochStart, Gap, LogState, SegmentReport
from kafkapy.tools.check.txn_index_check import check_txn_index
from kafkapy.tools.check.verdict import READ_AGAIN, RESTORE, Promises

_CONFIRMATIONS = 2

_MOST = 20
"""How many findings of one kind are listed for a segment."""

_DELETE_INDEX = "Stop the broker and delete the file: it is rebuilt from the log."


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a partition before its files are read."""

    clean: bool
    live: bool
    """Whether a broker is running on it."""
    deep: bool
    recovery_point: int | None = None
    log_start_offset: int = 0
    high_watermark: int | None = None
    cleaner_offset: int | None = None
    all_synced: bool = False

    @property
    def promises(self) -> Promises:
        return Promises(self.clean, self.recovery_point or 0, self.high_watermark or 0, self.all_synced)


@dataclass(slots=True)
class PartitionResult:
    """The findings, and what other checks need to know."""

    topic_partition: TopicPartition
    path: str
    findings: list[Finding] = field(default_factory=list)
    topic_id: Uuid | None = None
    segments: int = 0
    batches: int = 0
    nbytes: int = 0
    end_offset: int = 0


def check_partition(
    files: ReadOnlyFiles, place: PartitionPlace, expected: Expected, progress: Progress
) -> PartitionResult:
    """Read the complete partition.

    Raises:
        LogSourceError: its directory cannot be listed.
        OSError: the disk failed.
    """
    result = _PartitionCheck(files, place, expected, progress).run()
    for _ in range(_CONFIRMATIONS if expected.live else 0):
        if all(finding.severity is Severity.HARMLESS for finding in result.findings):
            break
        before = {(finding.path, finding.what) for finding in result.findings}
        result = _PartitionCheck(files, place, expected, _no_progress).run()
        result.findings = [each for each in result.findings if (each.path, each.what) in before]
    return result


def _no_progress(nbytes: int) -> None:
    """Count nothing: the bytes were counted the first time."""


class _PartitionCheck:
    def __init__(
        self, files: ReadOnlyFiles, place: PartitionPlace, expected: Expected, progress: Progress
    ) -> None:
        self._files = files
        self._place = place
        self._expected = expected
        self._promises = expected.promises
        self._progress = progress
        self._state = LogState()
        self._epoch_starts: list[EpochStart] = []
        self._gaps: list[tuple[str, Gap]] = []
        self._result = PartitionResult(place.topic_partition, place.path)
        self._found = self._result.findings
        self._damage = KnownDamage(files, place.path)
        self._broken_end = False

    def run(self) -> PartitionResult:
        files, path, result = self._files, self._place.path, self._result
        names = [entry.name for entry in files.scan(path)]
        self._found += self._damage.findings
        epochs = EpochCheck.load(files, path)
        listing = list_partition(files, path)
        try:
            self._begin_transactions(listing)
            bases: list[int | None] = [segment.base_offset for segment in listing.segments]
            for segment, following in zip(listing.segments, [*bases[1:], None], strict=False):
                self._check_segment(segment, following)
            result.end_offset = self._end_offset(listing)
        finally:
            listing.close()
        self._check_end(listing)
        self._tell_gaps()
        start = max(
            self._expected.log_start_offset, listing.segments[0].base_offset if listing.segments else 0
        )
        self._found += epochs.compare(self._epoch_starts, self._promises, start, result.end_offset)
        self._found += check_snapshots(files, path, listing.snapshots, self._snapshot_limit())
        if self._expected.clean and self._state.has_producers and not listing.snapshots:
            what = "there is no producer snapshot: the next start forgets the idempotent producers"
            self._found.append(Finding(Severity.DAMAGED, path, what, f"{READ_AGAIN}."))
        result.topic_id, wrong = check_topic_id(files, path)
        self._found += wrong
        if not self._expected.live:
            self._found += find_leftovers(path, names, [segment.base_offset for segment in listing.segments])
        if self._state.legacy is not None:
            what = f"it holds messages in format v{self._state.legacy}, from clients before Kafka 0.11"
            remedy = "kafkapy does not serve them; Apache Kafka does."
            self._found.append(Finding(Severity.HARMLESS, path, what, remedy))
        result.batches = self._state.batches
        return result

    def _begin_transactions(self, listing: Listing) -> None:
        """Take the transactions that were open where the log begins from the snapshot there."""
        if not listing.segments:
            return
        offset = listing.segments[0].base_offset
        try:
            producers = decode_snapshot(
                self._files.read(f"{self._place.path}/{offset:020d}{SNAPSHOT_SUFFIX}")
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
        index_path = segment.stem + INDEX_SUFFIX + segment.suffix
        time_path = segment.stem + TIME_INDEX_SUFFIX + segment.suffix
        base = segment.base_offset
        offset_index = OffsetIndexCheck(self._files, index_path, base, being_written=being_written)
        time_index = TimeIndexCheck(self._files, time_path, base, being_written=being_written)
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
            self._found.append(
                Finding(self._promises.of_record(base), segment.path, what, f"{RESTORE}.", offset=base)
            )
        self._state.next_offset = base
        size = self._files.size_of(file)
        check = SegmentCheck(
            self._files,
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
        if self._expected.live and not self._still_there(segment):
            self._forget()
            return
        self._tell_bad(segment, report, size, last=last)
        end = self._expected_end(base)
        self._found += self._damage.compare(base, report.bad, end)
        self._state.next_offset = max(end, self._damage.end_offset(base))
        # An index file is created with its first entry, or when the segment is closed.
        expects_indexes = size > 0 and not being_written
        self._gaps += [(segment.path, gap) for gap in report.gaps]
        self._epoch_starts += report.epochs
        self._tell_index(
            index_path, offset_index.finish(size, end), end, missing=offset_index.missing and expects_indexes
        )
        self._tell_index(
            time_path, time_index.finish(end), end, missing=time_index.missing and expects_indexes
        )
        if not (self._expected.live and last):
            self._found += check_txn_index(self._files, segment, report, self._promises, end)

    def _forget(self) -> None:
        """Forget the last segment: the broker has deleted or replaced it during the check.

        The next segment need not begin where it ended.
        """
        self._gaps.clear()
        self._state.next_offset = None
        self._state.open_transactions.clear()

    def _expected_end(self, base_offset: int) -> int:
        end = self._state.next_offset
        return base_offset if end is None else end

    def _still_there(self, segment: OfflineSegment) -> bool:
        """Return whether the file has not been deleted or replaced since it was opened."""
        try:
            return os.path.samestat(os.fstat(segment.file.fd), os.stat(segment.path + segment.suffix))
        except FileNotFoundError:
            return False

    def _tell_bad(self, segment: OfflineSegment, report: SegmentReport, size: int, *, last: bool) -> None:
        path = segment.path + segment.suffix
        promises = self._promises
        for number, bad in enumerate(sorted(report.bad, key=lambda each: each.position)):
            if last and bad.at_end:
                self._broken_end = True
                if self._expected.live and bad.torn:
                    return  # it is being written
            severity = promises.of_record(bad.offset)
            if not bad.noticed:
                severity = Severity.DAMAGED
            elif last and bad.torn and bad.offset >= max(promises.recovery_point, promises.high_watermark):
                severity = Severity.REPAIRED
            what = bad.reason
            if bad.at_end and bad.torn:
                what = f"the file ends inside a batch, or in zeros: {bad.size} bytes ({bad.reason})"
            elif bad.end_offset > bad.offset:
                what = f"{bad.reason}: {bad.size} bytes, offsets {bad.offset} to {bad.end_offset - 1}"
            elif bad.size:
                what = f"{bad.reason}: {bad.size} bytes"
            remedy = f"{RESTORE}: consumers get CORRUPT_MESSAGE for what is lost."
            if segment.suffix:
                # A compacted segment that replaces others has all that is left of their records.
                severity, remedy = Severity.DAMAGED, f"{RESTORE}: the partition stays offline."
            elif severity is Severity.REPAIRED:
                remedy = f"The next start truncates the log there, which removes {size - bad.position} bytes."
            elif bad.noticed and promises.is_cut_at(bad.offset):
                remedy = f"{RESTORE}: the next start truncates the log there."
            if number == _MOST:
                what = f"{len(report.bad) - _MOST} more like this"
                self._found.append(Finding(severity, path, what, remedy))
                return
            self._found.append(Finding(severity, path, what, remedy, bad.position, bad.offset))

    def _tell_index(self, path: str, problems: list[IndexProblem], end_offset: int, *, missing: bool) -> None:
        if missing:
            if not self._expected.live:
                self._found.append(
                    Finding(Severity.REPAIRED, path, "it is missing", "It is rebuilt from the log.")
                )
            return
        if not problems:
            return
        severity, remedy = Severity.DAMAGED, _DELETE_INDEX
        if self._promises.reads_again(end_offset) and not self._expected.live:
            severity, remedy = Severity.REPAIRED, "The next start rebuilds it from the log."
        elif any(problem.seen_by_broker for problem in problems):
            severity, remedy = Severity.REPAIRED, "The broker rebuilds it from the log when it opens it."
        what = problems[0].what + (f", and {len(problems) - 1} more" if len(problems) > 1 else "")
        self._found.append(Finding(severity, path, what, remedy, problems[0].position))

    # --- the log --------------------------------------------------------------------------------------------

    def _end_offset(self, listing: Listing) -> int:
        if self._state.next_offset is not None:
            return self._state.next_offset
        return listing.segments[-1].base_offset if listing.segments else self._expected.log_start_offset

    def _snapshot_limit(self) -> int:
        """Return where snapshots must end; a running broker may have written more since."""
        return 2**63 - 1 if self._expected.live or self._broken_end else self._result.end_offset

    def _check_end(self, listing: Listing) -> None:
        """Compare the end of the log with the checkpoints."""
        if self._place.role is not Role.LOG or self._broken_end:
            return
        if self._expected.live and self._state.next_offset is None:
            return  # all segments that were listed are gone
        path, expected, end = self._place.path, self._expected, self._result.end_offset
        if not listing.segments:
            severity = Severity.DAMAGED if self._promises.recovery_point else Severity.REPAIRED
            remedy = f"{RESTORE}." if self._promises.recovery_point else "The next start creates a new log."
            self._found.append(Finding(severity, path, "there is no segment", remedy))
            return
        for name, offset, said in (
            ("recovery point", expected.recovery_point, "everything below was on disk"),
            ("high watermark", expected.high_watermark, "everything below was acknowledged"),
        ):
            if offset is not None and end < offset:
                what = f"the log ends at offset {end}, below its {name} {offset}: {said}"
                self._found.append(Finding(Severity.DAMAGED, path, what, f"{RESTORE}.", offset=end))
                break
        if expected.clean and expected.recovery_point is not None and end > expected.recovery_point:
            what = f"the log ends at offset {end}, the broker stopped at offset {expected.recovery_point}"
            remedy = f"{RESTORE}, or {READ_AGAIN[0].lower()}{READ_AGAIN[1:]}."
            self._found.append(Finding(Severity.DAMAGED, path, what, remedy, offset=expected.recovery_point))
        if expected.log_start_offset > end:
            what = (
                f"the log start offset {expected.log_start_offset} is above the end of the log, offset {end}"
            )
            remedy = f"{RESTORE}; if that offset is wrong, remove its line from {LOG_START_OFFSETS}."
            self._found.append(Finding(Severity.DAMAGED, path, what, remedy, offset=end))
        if expected.cleaner_offset is not None and expected.cleaner_offset > end and not expected.live:
            what = f"the cleaner's offset {expected.cleaner_offset} is above the end of the log, offset {end}"
            remedy = "Compaction reads the log from its start again."
            self._found.append(Finding(Severity.REPAIRED, path, what, remedy, offset=end))

    def _tell_gaps(self) -> None:
        """Add findings for gaps, which compaction or a lost segment left."""
        if self._state.compacted:
            return
        if self._place.role is Role.FUTURE:
            return  # the cleaner's offset is in the directory from which the log moves
        cleaned = self._expected.cleaner_offset or 0
        lost = [
            each for each in self._gaps if each[1].first >= cleaned and not self._damage.explains(each[1])
        ]
        for path, gap in lost[:_MOST]:
            what = f"offsets {gap.first} to {gap.last} are missing before it"
            severity = self._promises.of_record(gap.first)
            remedy = f"{RESTORE}; if the topic was ever compacted, this is not damage."
            if severity is Severity.REPAIRED:
                remedy = "The next start truncates the log there, if a segment is missing."
            self._found.append(Finding(severity, path, what, remedy, gap.position or None, gap.first))
