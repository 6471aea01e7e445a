"""The other files of a partition: epochs, producer snapshots, the topic id, leftovers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkapy.protocol.types import Uuid
from kafkapy.storage.disk.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpointError,
    read_leader_epochs,
    read_partition_metadata,
)
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.storage.log.producer_snapshots import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshotError,
    decode_snapshot,
    snapshot_offset,
)
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.segment_report import EpochStart
from kafkapy.tools.check.verdict import READ_AGAIN, Promises

_INDEX = re.compile(r"([0-9]{20})\.(?:index|timeindex|txnindex)")
_LEFTOVERS = {
    ".deleted": (Severity.HARMLESS, "from a segment that was deleted", "The next start removes it."),
    ".cleaned": (Severity.HARMLESS, "from a compaction that was interrupted", "The next start removes it."),
    ".swap": (Severity.REPAIRED, "from a compaction that was interrupted", "The next start completes it."),
    ".tmp": (Severity.HARMLESS, "from a write that was interrupted", "It may be removed."),
}


@dataclass(frozen=True, slots=True)
class EpochCheck:
    """The leader epochs in the file of a partition."""

    path: str
    entries: list[tuple[int, int]]
    findings: list[Finding]
    readable: bool

    @classmethod
    def load(cls, files: ReadOnlyFiles, directory: str) -> EpochCheck:
        """Read the file.

        Raises:
            OSError: the disk failed.
        """
        path = f"{directory}/{LEADER_EPOCHS}"
        try:
            entries = read_leader_epochs(files, path)
        except CorruptCheckpointError as error:
            what = str(error).removeprefix(f"{path}: ")
            remedy = (
                "The next start reads the epochs from the log's batches; Apache Kafka does not start with it."
            )
            return cls(path, [], [Finding(Severity.REPAIRED, path, what, remedy)], readable=False)
        findings = []
        if entries != sorted(entries) or len({start for _, start in entries}) != len(entries):
            findings.append(
                Finding(Severity.DAMAGED, path, "its epochs and offsets do not rise", f"{READ_AGAIN}.")
            )
        return cls(path, entries, findings, readable=True)

    def compare(
        self, starts: Iterable[EpochStart], promises: Promises, log_start_offset: int, end_offset: int
    ) -> list[Finding]:
        """Compare the file with the epochs of the batches; it may lack those that were not flushed."""
        if not self.readable or self.findings:
            return self.findings
        cache = LeaderEpochCache()
        for entry in self.entries:
            cache.assign(*entry)
        run: EpochStart | None = None
        for start in starts:
            wrong = None
            if run is not None:
                # The start of the epoch moved to the log start offset when records were deleted.
                inside = [
                    each
                    for each in self.entries
                    if run.offset < each[1] < start.previous_end and each[0] != run.epoch
                ]
                if inside:
                    epoch, offset = inside[0]
                    wrong = (offset, f"epoch {epoch} begins at offset {offset}, not in the log")
            if wrong is None and start.offset >= log_start_offset:
                known = cache.epoch_for_offset(start.offset)
                # Epochs are deleted at once with their records; the log start offset is written later.
                forgotten = known < 0 and bool(self.entries) and not promises.clean
                if known != start.epoch and not forgotten:
                    said = "none" if known < 0 else f"epoch {known}"
                    wrong = (
                        start.offset,
                        f"the log has epoch {start.epoch} at offset {start.offset}, the file has {said}",
                    )
            if wrong is not None:
                offset, what = wrong
                if promises.clean or offset < promises.recovery_point:
                    return [Finding(Severity.DAMAGED, self.path, what, f"{READ_AGAIN}.", offset=offset)]
                return []
            run = start
        beyond = [epoch for epoch, start_offset in self.entries if start_offset > end_offset]
        if beyond and promises.clean:
            what = f"epoch {beyond[0]} begins after the end of the log, offset {end_offset}"
            return [Finding(Severity.REPAIRED, self.path, what, "The next start drops it.")]
        return []


def check_snapshots(
    files: ReadOnlyFiles, directory: str, offsets: Sequence[int], end_offset: int
) -> list[Finding]:
    """Return findings for snapshots that a broker would refuse; it reads only the newest."""
    findings = []
    newest = max(offsets, default=0)
    for offset in offsets:
        path = f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
        try:
            decode_snapshot(files.read(path))
        except FileNotFoundError:
            continue  # a running broker has deleted it
        except CorruptSnapshotError as error:
            severity, remedy = Severity.HARMLESS, "It is not needed, since there is a newer one."
            if offset == newest:
                severity, remedy = (
                    Severity.REPAIRED,
                    "The next start deletes it, and uses an older one and the log.",
                )
            findings.append(Finding(severity, path, str(error), remedy))
            continue
        if offset > end_offset:
            what = f"its offset is after the end of the log, offset {end_offset}"
            findings.append(Finding(Severity.REPAIRED, path, what, "The next start deletes it."))
    return findings


def check_topic_id(files: ReadOnlyFiles, directory: str) -> tuple[Uuid | None, list[Finding]]:
    """Return the topic id, and what is wrong with its file."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        topic_id = read_partition_metadata(files, path)
    except CorruptCheckpointError as error:
        what = str(error).removeprefix(f"{path}: ")
        remedy = (
            "The next start takes the topic id from the metadata; Apache Kafka takes the directory offline."
        )
        return None, [Finding(Severity.REPAIRED, path, what, remedy)]
    if topic_id is None:
        remedy = "The next start takes the topic id from the metadata."
        return None, [Finding(Severity.HARMLESS, path, "it is missing", remedy)]
    return topic_id, []


def find_leftovers(directory: str, names: Iterable[str], base_offsets: Iterable[int]) -> list[Finding]:
    """Return findings for the files that a crash or a deletion left."""
    bases = set(base_offsets)
    findings = []
    for name in names:
        path = f"{directory}/{name}"
        for suffix, (severity, what, remedy) in _LEFTOVERS.items():
            if name.endswith(suffix):
                findings.append(Finding(severity, path, f"is left {what}", remedy))
        match = _INDEX.fullmatch(name)
        if match is not None and int(match[1]) not in bases:
            findings.append(
                Finding(Severity.REPAIRED, path, "there is no segment for it", "The next start removes it.")
            )
        offset = snapshot_offset(name)
        if offset is not None and bases and offset not in bases and offset < max(bases):
            findings.append(
                Finding(Severity.HARMLESS, path, "there is no segment for it", "The next start removes it.")
            )
    return findings
