"""Bringing the files of partitions into another directory, at the least cost that is safe.

A file whose blocks the file system can share (reflink: btrfs, XFS) is cloned. Where that is not possible, the
`.log` file of a segment that is closed and known to be on disk gets a second name (a hard link). Nothing ever
writes into such a file again; brokers only delete it or put another in its place. So both directories live on
independently. All others are copied: active segments, indexes, checkpoints, and what a crash may have left
torn. So a copy costs about two segments and the indexes (0.2 % of the data) for each partition on one file
system, and everything on another.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.damage.damage import DAMAGED_OFFSETS
from kafkapy.storage.disk.checkpoints import LEADER_EPOCHS, PARTITION_METADATA
from kafkapy.storage.disk.files import FileSystem, is_disk_full
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.old_segments import begins_with_message, convert_segment
from kafkapy.tools.migrate.source import PartitionFolder, Source

_SEGMENT_FILE = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)(\.swap|\.cleaned)?")
Progress = Callable[[int, int], None]
"""Is told how many partitions are done, of how many."""

_THREADS = 8
"""Most of the work is waiting for the disk to sync small files; those that wait together share a sync."""

_OTHER_FILES = frozenset({LEADER_EPOCHS, PARTITION_METADATA, DAMAGED_OFFSETS})
_CANNOT_LINK = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)


@dataclass(slots=True)
class Transfer:
    """What was brought over."""

    written: int = 0
    """Bytes."""
    shared: int = 0
    """Bytes that are there once for both directories."""

    def bring(self, files: FileSystem, source: str, target: str, *, closed: bool = False) -> None:
        """Bring one file over; `closed`: nothing writes into it any more.

        Raises:
            OSError: the disk is full, or failed.
        """
        written = None
        if not closed or not self._link(files, source, target):
            written = files.copy(source, target)
        if written is None:
            self.shared += files.size(source)
        else:
            self.written += written

    def add(self, other: Transfer) -> None:
        self.written += other.written
        self.shared += other.shared

    @property
    def nbytes(self) -> int:
        return self.written + self.shared

    def _link(self, files: FileSystem, source: str, target: str) -> bool:
        try:
            files.link(source, target)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            return False
        return True


def bring_partitions(
    source: Source,
    folders: Iterable[PartitionFolder],
    targets: list[str],
    files: FileSystem,
    progress: Progress,
    *,
    convert: Collection[PartitionFolder] = (),
) -> Transfer:
    """Bring the partitions into `targets`, one for each of the source's directories.

    Args:
        convert: those with segments to write anew (old_segments.py).

    Raises:
        MigrationError: there is no room, or a disk failed; what was written stays for the caller to remove.
    """
    transfer = Transfer()
    with ThreadPoolExecutor(_THREADS, "kafkapy-copy") as pool:
        jobs = {
            pool.submit(
                _convert_partition if folder in convert else _bring_partition,
                source,
                folder,
                targets[folder.directory],
                files,
            ): folder
            for folder in folders
        }
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                transfer.add(job.result())
                progress(done, len(jobs))
        except OSError as error:
            pool.shutdown(cancel_futures=True)
            raise _explained(error, jobs[job], targets[jobs[job].directory]) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return transfer


def _explained(error: OSError, folder: PartitionFolder, target: str) -> MigrationError:
    if is_disk_full(error):
        return MigrationError(
            f"There is no room for {folder.path} in {target}: free space, or name a target on the same file "
            "system."
        )
    return MigrationError(f"{error.filename or folder.path} cannot be copied: {error.strerror}.")


def _bring_partition(source: Source, folder: PartitionFolder, target: str, files: FileSystem) -> Transfer:
    transfer = Transfer()
    path = f"{target}/{folder.topic_partition}"
    files.make_directory(path)
    names = [entry.name for entry in files.scan(folder.path)]
    closed = _closed_segments(names, source.log_dirs[folder.directory].recovery_points, folder)
    for name in names:
        if _SEGMENT_FILE.fullmatch(name) or name in _OTHER_FILES:
            transfer.bring(files, f"{folder.path}/{name}", f"{path}/{name}", closed=name in closed)
    files.sync_directory(path)
    return transfer


def _convert_partition(source: Source, folder: PartitionFolder, target: str, files: FileSystem) -> Transfer:
    """Bring a partition of which some segments hold messages of before Kafka 0.11."""
    transfer = Transfer()
    path = f"{target}/{folder.topic_partition}"
    files.make_directory(path)
    names = [entry.name for entry in files.scan(folder.path)]
    old = {
        name[:20]
        for name in names
        if name.endswith(".log") and begins_with_message(source.files, f"{folder.path}/{name}")
    }
    for name in names:
        if name[:20] in old and name.endswith(".log"):
            transfer.written += convert_segment(
                source.files, f"{folder.path}/{name}", files, f"{path}/{name}"
            )
        elif name[:20] in old and name.endswith((".index", ".timeindex")):
            continue  # Positions are others now.
        elif _SEGMENT_FILE.fullmatch(name) or name in _OTHER_FILES:
            transfer.bring(files, f"{folder.path}/{name}", f"{path}/{name}")
    files.sync_directory(path)
    return transfer


def _closed_segments(
    names: Iterable[str], recovery_points: Mapping[TopicPartition, int], folder: PartitionFolder
) -> set[str]:
    """The `.log` files that nothing will ever write into.

    They hold only what is known to be on disk. The last segment is not among them, nor is the last of those
    on disk: recovery looks at these, and may truncate them and append to them.
    """
    point = recovery_points.get(folder.topic_partition, 0)
    logs = sorted(name for name in names if name.endswith(".log"))
    on_disk = [name for name, following in pairwise(logs) if int(following[:20]) <= point]
    return set(on_disk[:-1])
