"""The other files of a partition: epochs, producer snapshots, the topic id, leftovers."""

from __future__ import annotations

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
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.tools.check.finding import READ_AGAIN, Finding, Severity
from kafkapy.tools.check.segment_report import EpochStart


@dataclass(frozen=True, slots=True)
class EpochCheck:
    """The leader epochs in the file of a partition."""

    path: str
    entries: list[tuple[int, int]]
    findings: list[Finding]
    """The reason why the file cannot be read."""

    @classmethod
    def load(cls, files: FileSystem, directory: str) -> EpochCheck:
        """Read the file.

        Raises:
            OSError: the disk failed.
        """
        path = f"{directory}/{LEADER_EPOCHS}"
        try:
            entries = read_leader_epochs(files, path)
        except CorruptCheckpointError as error:
            remedy = (
                "The next start reads the epochs from the log's batches; Apache Kafka does not start with it."
            )
            return cls(path, [], [Finding(Severity.REPAIRED, path, error.reason, remedy)])
        return cls(path, entries, [])

    @property
    def _rises(self) -> bool:
        """Whether epochs and offsets rise; if they do not, a start drops some entries."""
        starts = [start for _, start in self.entries]
        return self.entries == sorted(self.entries) and starts == sorted(set(starts))

    def compare(
        self,
        starts: Iterable[EpochStart],
        *,
        known: Sequence[tuple[int, int]],
        known_to: int,
        clean: bool,
        log_start_offset: int,
        end_offset: int,
    ) -> list[Finding]:
        """Compare the epochs that a broker knows with those of the batches.

        Args:
            known: each epoch and its start offset, as the next start or the file has them.
            known_to: the offset below which all epochs are known.
            clean: whether the last stop was clean.
        """
        if self.findings:
            return self.findings
        cache = LeaderEpochCache()
        for entry in known:
            cache.assign(*entry)
        run: EpochStart | None = None
        for start in starts:
            wrong = None
            if run is not None:
                # If records were deleted, the epoch's start offset was raised to the log start offset.
                inside = [
                    each
                    for each in known
                    if run.offset < each[1] < start.previous_end and each[0] != run.epoch
                ]
                if inside:
                    epoch, offset = inside[0]
                    wrong = (offset, f"epoch {epoch} begins at offset {offset}, not in the log")
            if wrong is None and start.offset >= log_start_offset:
                epoch = cache.epoch_for_offset(start.offset)
                # Epochs are deleted at once with their records, but the log start offset is written later.
                forgotten = epoch < 0 and bool(self.entries) and not clean and self._rises
                if epoch != start.epoch and not forgotten:
                    said = "none" if epoch < 0 else f"epoch {epoch}"
                    wrong = (
                        start.offset,
                        f"the log has epoch {start.epoch} at offset {start.offset}, the file has {said}",
                    )
            if wrong is not None:
                offset, what = wrong
                if offset < known_to:
                    return [Finding(Severity.DAMAGED, self.path, what, f"{READ_AGAIN}.", offset=offset)]
                return []
            run = start
        beyond = [epoch for epoch, start_offset in self.entries if start_offset > end_offset]
        if beyond and clean:
            what = f"epoch {beyond[0]} begins after the end of the log, offset {end_offset}"
            return [Finding(Severity.REPAIRED, self.path, what, "The next start drops it.")]
        return []


def check_topic_id(files: FileSystem, directory: str) -> tuple[Uuid | None, list[Finding]]:
    """Return the topic id, and findings about its file."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        topic_id = read_partition_metadata(files, path)
    except CorruptCheckpointError as error:
        remedy = (
            "The next start takes the topic id from the metadata; Apache Kafka takes the directory offline."
        )
        return None, [Finding(Severity.REPAIRED, path, error.reason, remedy)]
    if topic_id is None:
        remedy = "The next start takes the topic id from the metadata."
        return None, [Finding(Severity.HARMLESS, path, "it is missing", remedy)]
    return topic_id, []
