"""A log directory: its ids, its lock, its checkpoints, leftovers and partitions."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

from kafkapy.loop.clock import Clock
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
)
from kafkapy.storage.disk.directory_names import DirectoryKind
from kafkapy.storage.disk.file_names import TEMPORARY_SUFFIX
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.offline.next_start import NextStart
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.checkpoint_check import read_checkpoints
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.layout import DirectoryPlace, PartitionPlace
from kafkapy.tools.check.partition_check import Expected, PartitionResult

_KEPT = {
    DirectoryKind.FUTURE: (
        "is a future log, whose move to this directory has not ended",
        "The next start goes on with it, or removes it.",
    ),
    DirectoryKind.DELETED: ("is left from a partition that was deleted", "The next start removes it."),
    DirectoryKind.STRAY: ("was set aside by a start, since it is not its topic's log", "It may be removed."),
}


class DirectoryCheck:
    """A check of one log directory; its files are read before its partitions."""

    def __init__(self, files: ReadOnlyFiles, place: DirectoryPlace, *, deep: bool) -> None:
        """Read the files of the directory itself.

        Raises:
            OSError: the disk failed.
        """
        self.place = place
        self._files = files
        self._deep = deep
        path = place.path
        self.live = files.is_locked(f"{path}/{LOCK_FILE}")
        """Whether a broker is running on the directory."""
        self.start = None if self.live else NextStart(path, Clock())
        """A trial of the next start; None if a broker is running."""
        self.clean = not self.live and files.exists(f"{path}/{CLEAN_SHUTDOWN}")
        self._checkpoints = read_checkpoints(files, path)
        self.meta: MetaProperties | None = None
        """The ids of the directory, if they can be read."""

    def partitions(self) -> Iterator[tuple[PartitionPlace, Expected]]:
        """Yield the partitions to check, and what the checkpoints say about each."""
        for place in self.place.partitions:
            if place.kind is not DirectoryKind.DELETED:
                yield place, self._expected(place)

    def _expected(self, place: PartitionPlace) -> Expected:
        if not place.is_log:
            return Expected(clean=False, live=self.live, deep=self._deep)
        offsets, each = self._checkpoints.offsets, place.topic_partition
        return Expected(
            clean=self.clean,
            live=self.live,
            deep=self._deep,
            recovery_point=offsets[RECOVERY_POINTS].get(each),
            log_start_offset=offsets[LOG_START_OFFSETS].get(each, 0),
            high_watermark=offsets[HIGH_WATERMARKS].get(each),
            cleaner_offset=offsets[CLEANER_OFFSETS].get(each),
        )

    def findings(self) -> Iterator[Finding]:
        """Yield findings about the directory itself.

        Raises:
            OSError: the disk failed.
        """
        if not self.place.complete:
            return
        yield from self._checkpoints.findings
        yield from self._identity()
        if self.live:
            return
        path, partitions = self.place.path, self.place.partitions
        if self.clean:
            yield from self._marker()
        for place in partitions:
            if place.kind in _KEPT:
                yield Finding(Severity.HARMLESS, place.path, *_KEPT[place.kind])
        for entry in self._files.scan(path):
            if entry.name.endswith(TEMPORARY_SUFFIX) and entry.is_file():
                what = "is left from a write that was interrupted"
                yield Finding(Severity.HARMLESS, entry.path, what, "It may be removed.")
        if self.clean:
            existing = (place.topic_partition for place in partitions if place.is_log)
            yield from self._checkpoints.without_partition(path, existing)

    def _identity(self) -> Iterator[Finding]:
        """Read the ids of the directory."""
        path, what = f"{self.place.path}/{META_PROPERTIES}", "it is missing"
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
        path = f"{self.place.path}/{CLEAN_SHUTDOWN}"
        if read_clean_shutdown_epoch(self._files, path) is None and self._files.read(path):
            what = "its broker epoch cannot be read"
            yield Finding(Severity.HARMLESS, path, what, "The file counts all the same.")


def compare_partitions(results: list[PartitionResult]) -> Iterator[Finding]:
    """Yield findings that need a comparison of several partitions."""
    places: dict[object, PartitionResult] = {}
    ids: dict[str, dict[bytes, list[PartitionResult]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        other = places.setdefault(result.topic_partition, result)
        if other is not result:
            what = f"{result.topic_partition} is in {os.path.dirname(other.path)} too"
            severity = Severity.DAMAGED
            remedy = "No broker starts with both: remove the one that is out of date."
            if result.replaces is not other.replaces:
                severity = Severity.REPAIRED
                remedy = "One was about to replace the other: the next start keeps the one with all records."
            yield Finding(severity, result.path, what, remedy)
        if result.topic_id is not None:
            ids[result.topic_partition.topic][result.topic_id].append(result)
    for groups in ids.values():
        for strange in sorted(groups.values(), key=len)[:-1]:
            for result in strange:
                what = "its topic id is not that of the topic's other partitions"
                remedy = "The next start takes the id from the metadata and removes deleted topics."
                yield Finding(Severity.REPAIRED, result.path, what, remedy)
