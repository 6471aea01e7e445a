"""The complete check of log directories."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from kafkapy.storage.disk.checkpoints import MetaProperties
from kafkapy.storage.disk.directory_names import DirectoryKind
from kafkapy.storage.disk.file_names import find_logs
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.contradictions import compare_owners, compare_partitions
from kafkapy.tools.check.directory_check import DirectoryCheck
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.kraft_check import check_kraft_files, check_metadata_file
from kafkapy.tools.check.layout import DirectoryPlace, find_directories
from kafkapy.tools.check.partition_check import PartitionResult, check_partition
from kafkapy.tools.check.segment_check import Progress


@dataclass(slots=True)
class Summary:
    """Counts of what a check has read and found."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    live: list[str] = field(default_factory=list)
    """The log directories on which a broker is running."""
    unreadable: list[str] = field(default_factory=list)
    """One line for each file or directory that could not be checked."""
    findings: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))

    def add(self, result: PartitionResult) -> None:
        """Count what was read of a partition."""
        self.partitions += 1
        self.segments += result.segments
        self.batches += result.batches
        self.nbytes += result.nbytes

    @property
    def exit_status(self) -> int:
        """0 if clean, 1 if something is wrong, 2 if something could not be checked."""
        if self.unreadable:
            return 2
        return 1 if self.findings[Severity.DAMAGED] or self.findings[Severity.REPAIRED] else 0

    def values(self) -> dict[str, Any]:
        """The summary for JSON."""
        return {
            "kind": "summary",
            "partitions": self.partitions,
            "segments": self.segments,
            "batches": self.batches,
            "bytes": self.nbytes,
            "seconds": round(self.seconds, 3),
            "findings": {severity.value: count for severity, count in self.findings.items()},
            "running": self.live,
            "unreadable": self.unreadable,
        }


class Check:
    """A check of one or more log directories."""

    def __init__(self, paths: Iterable[str], *, deep: bool) -> None:
        """Find the log directories.

        Raises:
            UserError: there are none.
        """
        self._files = ReadOnlyFiles()
        self._deep = deep
        self.places: list[DirectoryPlace] = find_directories(self._files, paths)
        self.summary = Summary()
        self._metas: dict[str, MetaProperties] = {}
        """The ids of each directory."""
        self._clusters: dict[str, str] = {}
        """The cluster id in each metadata.db, by its directory."""
        self._logs: list[PartitionResult] = []

    def total_bytes(self) -> int:
        """Estimate how many bytes the check will read."""
        total = 0
        for place in chain.from_iterable(directory.partitions for directory in self.places):
            if place.kind is not DirectoryKind.DELETED:
                with contextlib.suppress(OSError):
                    names = [entry.name for entry in self._files.scan(place.path)]
                    total += sum(self._files.size(f"{place.path}/{name}") for _, name in find_logs(names))
        return total

    def run(self, progress: Progress) -> Iterator[Finding]:
        """Read everything, and yield each finding when it is made."""
        started = time.perf_counter()
        for finding in chain(
            chain.from_iterable(self._findings(place, progress) for place in self.places),
            compare_owners(self._metas, self._clusters),
            compare_partitions(self._logs),
        ):
            self.summary.findings[finding.severity] += 1
            yield finding
        self.summary.seconds = time.perf_counter() - started

    def _findings(self, place: DirectoryPlace, progress: Progress) -> Iterator[Finding]:
        try:
            directory = DirectoryCheck(self._files, place, deep=self._deep)
            yield from directory.findings()
            if directory.meta is not None:
                self._metas[place.path] = directory.meta
            if place.complete and not directory.live:
                cluster_id, found = check_metadata_file(place.path)
                if cluster_id is not None:
                    self._clusters[place.path] = cluster_id
                yield from found
                yield from check_kraft_files(self._files, place.path)
        except OSError as error:
            self._cannot_read(place.path, error)
            return
        if directory.live:
            self.summary.live.append(place.path)
        for expected in directory.partitions():
            partition = expected.place
            try:
                result = check_partition(self._files, expected, directory.start, progress)
                if partition.is_kraft:
                    result.findings += check_kraft_files(self._files, partition.path)
            except FileNotFoundError as error:
                if not directory.live:
                    self.summary.unreadable.append(f"{error.filename} was removed during the check")
            except LogSourceError as error:
                self.summary.unreadable.append(str(error))
            except OSError as error:
                self._cannot_read(partition.path, error)
            else:
                self.summary.add(result)
                if partition.is_log:
                    self._logs.append(result)
                yield from result.findings

    def _cannot_read(self, path: str, error: OSError) -> None:
        self.summary.unreadable.append(f"{path} cannot be read: {error.strerror or error}")
