"""The transaction index of a segment against the abort markers in it."""

from __future__ import annotations

from kafkapy.storage.log.segment import TXN_INDEX_SUFFIX
from kafkapy.storage.log.txn_index import AbortedTxn, CorruptTransactionIndexError
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.segment_report import SegmentReport
from kafkapy.tools.check.verdict import READ_AGAIN, Promises


def check_txn_index(
    files: ReadOnlyFiles, segment: OfflineSegment, report: SegmentReport, promises: Promises, end_offset: int
) -> list[Finding]:
    """Check that the index has every aborted transaction and nothing else.

    An entry may begin before the records that are left: retention or compaction removed the others.

    Raises:
        OSError: the disk failed.
    """
    path = segment.stem + TXN_INDEX_SUFFIX + segment.suffix
    severity, remedy = Severity.DAMAGED, f"{READ_AGAIN}."
    if promises.reads_again(end_offset):
        severity, remedy = Severity.REPAIRED, "The next start rebuilds it from the log."
    index = segment.txn_index
    try:
        if files.exists(path) and files.size(path):  # recovery leaves an empty file if it removed all entries
            index.check()
        entries = list(index)
    except CorruptTransactionIndexError as error:
        if promises.clean:
            severity, remedy = Severity.REPAIRED, "The next start rebuilds it from the log."
        return [Finding(severity, path, str(error).removeprefix(f"{path}: "), remedy)]
    finally:
        index.close()
    if report.bad:
        return []  # markers may be in what cannot be read
    return [
        Finding(severity, path, what, remedy, offset=offset)
        for what, offset in _contradictions(entries, report)
    ]


_EXPOSED = "is missing: read_committed consumers would see its records"


def _contradictions(entries: list[AbortedTxn], report: SegmentReport) -> list[tuple[str, int]]:
    found = []
    known = {(entry.producer_id, entry.last_offset): entry for entry in entries}
    for marker in report.aborted:
        entry = known.get((marker.producer_id, marker.offset))
        if entry is None:
            what = f"producer {marker.producer_id}'s aborted transaction from offset {marker.first_offset}"
            found.append((f"{what} {_EXPOSED}", marker.offset))
        elif entry.first_offset > marker.first_offset:
            what = f"producer {marker.producer_id}'s transaction begins at offset {marker.first_offset}"
            found.append((f"{what}, not {entry.first_offset}", marker.offset))
        elif entry.last_stable_offset > marker.last_stable_offset:
            what = f"the last stable offset after it was {marker.last_stable_offset}"
            found.append((f"{what}, not {entry.last_stable_offset}", marker.offset))
    for producer_id, offset in known.keys() - report.abort_markers:
        found.append((f"there is no abort marker of producer {producer_id} at offset {offset}", offset))
    return found
