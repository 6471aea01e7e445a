"""The transaction index of a segment against the abort markers in it."""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.txn_index import AbortedTxn, CorruptTransactionIndexError, TransactionIndex
from kafkapy.tools.check.finding import READ_AGAIN, Finding, Severity
from kafkapy.tools.check.segment_check import SegmentReport


def check_txn_index(
    files: FileSystem, path: str, base_offset: int, report: SegmentReport, *, rebuilt: bool
) -> Iterator[Finding]:
    """Check that the index has every aborted transaction and nothing else.

    An entry may begin before the first record of the log if retention or compaction removed records. If
    `rebuilt`, the next start writes the file again.
    """
    severity, remedy = Severity.DAMAGED, f"{READ_AGAIN}."
    if rebuilt:
        severity, remedy = Severity.REPAIRED, "The next start rebuilds it from the log."
    index = TransactionIndex(files, path, base_offset)
    try:
        if files.exists(path) and files.size(path):  # recovery removes entries, not the file
            index.check()
        entries = list(index)
    except CorruptTransactionIndexError as error:
        yield Finding(severity, path, str(error).removeprefix(f"{path}: "), remedy)
        return
    finally:
        index.close()
    if report.bad:
        return  # markers may be in the damaged batches
    for what, offset in _contradictions(entries, report):
        yield Finding(severity, path, what, remedy, offset=offset)


_EXPOSED = "is missing: read_committed consumers would see its records"


def _contradictions(entries: list[AbortedTxn], report: SegmentReport) -> Iterator[tuple[str, int]]:
    known = {(entry.producer_id, entry.last_offset): entry for entry in entries}
    for txn in report.aborted:
        entry = known.get((txn.producer_id, txn.last_offset))
        if entry is None:
            what = f"producer {txn.producer_id}'s aborted transaction from offset {txn.first_offset}"
            yield f"{what} {_EXPOSED}", txn.last_offset
        elif entry.first_offset > txn.first_offset:
            what = f"producer {txn.producer_id}'s transaction begins at offset {txn.first_offset}"
            yield f"{what}, not {entry.first_offset}", txn.last_offset
        elif entry.last_stable_offset > txn.last_stable_offset:
            what = f"the last stable offset after it was {txn.last_stable_offset}"
            yield f"{what}, not {entry.last_stable_offset}", txn.last_offset
    for producer_id, offset in known.keys() - report.abort_markers:
        yield f"there is no abort marker of producer {producer_id} at offset {offset}", offset
