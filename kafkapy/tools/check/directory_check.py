"""A log directory: its ids, its lock, its checkpoints, leftovers and partitions."""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.loop.clock import Clock
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    MetaProperties,
    read_clean_shutdown_epoch,
    read_meta_properties,
    read_offsets,
)
from kafkapy.storage.disk.directory_names import DirectoryKind
from kafkapy.storage.disk.file_names import TEMPORARY_SUFFIX
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.layout import DirectoryPlace
from kafkapy.tools.check.partition_check import Expected

_KEPT = {
    DirectoryKind.FUTURE: (
        "is a future log, whose move to this directory has not ended",
        "The next start continues with it, or removes it.",
    ),
    DirectoryKind.DELETED: ("is left from a partition that was deleted", "The next start removes it."),
    DirectoryKind.STRAY: ("was set aside by a start, since it is not its topic's log", "It may be removed."),
}

# What a broker does without each checkpoint.
_WITHOUT = {
    RECOVERY_POINTS: "The next start reads every log of the directory again, after an unclean stop.",
    LOG_START_OFFSETS: "Logs begin at their first segment: deleted records may come back.",
    HIGH_WATERMARKS: "The next start takes the log end offset of each recovered log.",
    CLEANER_OFFSETS: "Compaction reads every log from its start again.",
}

_SHOWN = 5


class DirectoryCheck:
    """A check of one log directory; its files are read before its partitions."""

    def __init__(self, files: ReadOnlyFiles, place: DirectoryPlace, *, deep: bool) -> None:
        """Read the files of the directory itself."""
        self._place = place
        self._path = path = place.path
        self._files = files
        self._deep = deep
        self.live = files.is_locked(f"{path}/{LOCK_FILE}")
        """Whether a broker is running on the directory."""
        self.start = None if self.live else NextStart(path, Clock())
        """A trial of the next start; None if a broker is running."""
        self._clean = not self.live and files.exists(f"{path}/{CLEAN_SHUTDOWN}")
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        """The offset of each partition, by the name of the file."""
        self._unreadable: list[Finding] = []
        for name, remedy in _WITHOUT.items():
            try:
                self._checkpoints[name] = read_offsets(files, f"{path}/{name}")
            except CorruptCheckpointError as error:
                self._unreadable.append(Finding(Severity.REPAIRED, f"{path}/{name}", error.reason, remedy))
        self.meta: MetaProperties | None = None
        """The ids of the directory, if they can be read."""

    def partitions(self) -> Iterator[Expected]:
        """Yield the partitions to check, and what the checkpoints say about each."""
        for place in self._place.partitions:
            if place.kind is not DirectoryKind.DELETED:
                each, offsets = place.topic_partition, self._checkpoints
                known = {name: lines[each] for name, lines in offsets.items() if each in lines}
                clean = self._clean and place.is_log
                yield Expected(place, clean, self.live, self._deep, known if place.is_log else {})

    def findings(self) -> Iterator[Finding]:
        """Yield findings about the directory itself."""
        if not self._place.complete:
            return
        yield from self._unreadable
        yield from self._identity()
        if self.live:
            return
        for place in self._place.partitions:
            if place.kind in _KEPT:
                yield Finding(Severity.HARMLESS, place.path, *_KEPT[place.kind])
        for entry in self._files.scan(self._path):
            if entry.name.endswith(TEMPORARY_SUFFIX) and entry.is_file():
                what = "is left from a write that was interrupted"
                yield Finding(Severity.HARMLESS, entry.path, what, "It may be removed.")
        if self._clean:
            yield from self._marker()
            yield from self._surplus_lines()

    def _identity(self) -> Iterator[Finding]:
        path, what = f"{self._path}/{META_PROPERTIES}", "it is missing"
        try:
            self.meta = read_meta_properties(self._files, path)
        except CorruptCheckpointError as error:
            what = error.reason
        if self.meta is None:
            remedy = "kafkapy writes a new one at its next start; Apache Kafka does not start without it."
            yield Finding(Severity.REPAIRED, path, what, remedy)

    def _marker(self) -> Iterator[Finding]:
        """Check the marker of a clean stop; it is valid even if its content is damaged.

        Kafka before 3.8 writes an empty file.
        """
        path = f"{self._path}/{CLEAN_SHUTDOWN}"
        if read_clean_shutdown_epoch(self._files, path) is None and self._files.read(path):
            what = "its broker epoch cannot be read"
            yield Finding(Severity.HARMLESS, path, what, "The file counts all the same.")

    def _surplus_lines(self) -> Iterator[Finding]:
        """Yield findings for lines of partitions that do not exist, which a crash may leave."""
        existing = {place.topic_partition for place in self._place.partitions if place.is_log}
        for name, lines in self._checkpoints.items():
            gone = [str(each) for each in sorted(lines.keys() - existing)]
            if gone:
                more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
                shown = ", ".join(gone[:_SHOWN]) + more
                what = f"it has lines for partitions that do not exist: {shown}"
                remedy = "The broker drops them; restore the partitions that should exist."
                yield Finding(Severity.HARMLESS, f"{self._path}/{name}", what, remedy)
