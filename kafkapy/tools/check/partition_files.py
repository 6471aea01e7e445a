"""The leader epochs and the topic id in the files of a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.tools.check.finding import READ_AGAIN, Finding, Severity
from kafkapy.tools.check.segment_check import EpochStart

_ID_TAKEN = "The next start takes the topic id from the metadata"


class EpochCheck:
    """The leader epochs in the file of a partition, which is read before the segments."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        """Read the file."""
        self._path = f"{directory}/{LEADER_EPOCHS}"
        self._entries: list[tuple[int, int]] = []
        self._unreadable: str | None = None
        try:
            self._entries = read_leader_epochs(files, self._path)
        except CorruptCheckpointError as error:
            self._unreadable = error.reason

    def compare(
        self,
        starts: Sequence[EpochStart],
        log: PartitionLog | None,
        *,
        recovery_point: int,
        clean: bool,
        log_start_offset: int,
        end_offset: int,
    ) -> Iterator[Finding]:
        """Compare the epochs that a broker knows with those of the batches.

        Args:
            log: the log after the next start; None if no start opens it. Then the file says what is known,
                below the recovery point.
            clean: whether the last stop was clean.
        """
        if self._unreadable is not None:
            remedy = "The next start reads the epochs from the log's batches"
            remedy += "; Apache Kafka does not start with it."
            yield Finding(Severity.REPAIRED, self._path, self._unreadable, remedy)
            return
        known, known_to = self._entries, recovery_point
        if log is not None:
            known, known_to, end_offset = log.leader_epochs.entries, log.log_end_offset, log.log_end_offset
        wrong = self._contradiction(starts, known, log_start_offset, clean=clean)
        beyond = [epoch for epoch, start_offset in self._entries if start_offset > end_offset]
        if wrong is not None:
            offset, what = wrong
            if offset < known_to:
                yield Finding(Severity.DAMAGED, self._path, what, f"{READ_AGAIN}.", offset=offset)
        elif beyond and clean:
            what = f"epoch {beyond[0]} begins after the end of the log, offset {end_offset}"
            yield Finding(Severity.REPAIRED, self._path, what, "The next start drops it.")

    def _contradiction(
        self,
        starts: Sequence[EpochStart],
        known: Sequence[tuple[int, int]],
        log_start_offset: int,
        *,
        clean: bool,
    ) -> tuple[int, str] | None:
        """Return the offset and the text of the first contradiction."""
        cache = LeaderEpochCache()
        for entry in known:
            cache.assign(*entry)
        # Epochs are deleted at once with their records, but the log start offset is written later. If epochs
        # or offsets do not rise, a start drops some entries.
        offsets = [offset for _, offset in self._entries]
        rises = self._entries == sorted(self._entries) and offsets == sorted(set(offsets))
        may_be_forgotten = bool(self._entries) and rises and not clean
        run: EpochStart | None = None
        for start in starts:
            if run is not None:
                # If records were deleted, the epoch's start offset was raised to the log start offset.
                for epoch, offset in known:
                    if run.offset < offset < start.previous_end and epoch != run.epoch:
                        return offset, f"epoch {epoch} begins at offset {offset}, not in the log"
            if start.offset >= log_start_offset:
                epoch = cache.epoch_for_offset(start.offset)
                if epoch != start.epoch and not (epoch < 0 and may_be_forgotten):
                    said = "none" if epoch < 0 else f"epoch {epoch}"
                    what = f"the log has epoch {start.epoch} at offset {start.offset}, the file has {said}"
                    return start.offset, what
            run = start
        return None


def check_topic_id(files: FileSystem, directory: str) -> tuple[Uuid | None, list[Finding]]:
    """Return the topic id, and findings about its file."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        topic_id = read_partition_metadata(files, path)
    except CorruptCheckpointError as error:
        remedy = f"{_ID_TAKEN}; Apache Kafka takes the directory offline."
        return None, [Finding(Severity.REPAIRED, path, error.reason, remedy)]
    if topic_id is None:
        return None, [Finding(Severity.HARMLESS, path, "it is missing", f"{_ID_TAKEN}.")]
    return topic_id, []
