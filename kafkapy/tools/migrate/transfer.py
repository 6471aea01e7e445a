"""The copy of partitions to another directory; what is safe to share on disk is not copied.

If the file system can share blocks between files (reflink: btrfs, XFS), files are cloned. Otherwise the
`.log` file of a segment that is closed and known to be on disk gets a second name (a hard link). Brokers
never write into such a file again: they delete or replace it. So the two directories are independent. All
other files are copied: active segments, indexes, checkpoints, and segments that a crash may have left torn.
On the same file system, this writes about two segments and the indexes (0.2 % of the data) for each
partition. To another file system, everything is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.damage.damage import DAMAGED_OFFSETS
from kafkapy.storage.disk.checkpoints import LEADER_EPOCHS, PARTITION_METADATA
from kafkapy.storage.disk.errors import is_disk_full
from kafkapy.storage.disk.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
    find_logs,
    parse_file_name,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.running import CANNOT_LINK
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.old_segments import begins_with_message, convert_segment
from kafkapy.tools.migrate.source import PartitionFolder, Source

Progress = Callable[[int, int], None]
"""Called with the number of partitions that are done, and of all partitions."""

_THREADS = 8
"""Threads mostly wait for syncs of small files; those that wait at the same time share a sync."""

_OTHER_FILES = frozenset({LEADER_EPOCHS, PARTITION_METADATA, DAMAGED_OFFSETS})


@dataclass(slots=True)
class Transfer:
    """How much was copied."""

    written: int = 0
    """Bytes that were written."""
    shared: int = 0
    """Bytes that both directories share on disk."""

    def bring(self, files: FileSystem, source: str, target: str, *, closed: bool = False) -> None:
        """Copy or share one file; a file that is `closed` is never written again.

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
            if error.errno not in CANNOT_LINK:
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
    """Copy the partitions into `targets`, one for each of the source's directories.

    Args:
        convert: the folders with segments to convert (old_segments.py).

    Raises:
        MigrationError: the disk is full, or failed; the caller removes what was written.
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
            f"There is not enough space for {folder.path} in {target}: free some space, or name a target on "
            "the same file system."
        )
    return MigrationError(f"{error.filename or folder.path} cannot be copied: {error.strerror}.")


def _bring_partition(source: Source, folder: PartitionFolder, target: str, files: FileSystem) -> Transfer:
    transfer = Transfer()
    path = f"{target}/{folder.topic_partition}"
    files.make_directory(path)
    names = [entry.name for entry in files.scan(folder.path)]
    closed = _closed_segments(names, source.log_dirs[folder.directory].recovery_points, folder)
    for name in names:
        if _is_brought(name):
            transfer.bring(files, f"{folder.path}/{name}", f"{path}/{name}", closed=name in closed)
    files.sync_directory(path)
    return transfer


def _is_brought(name: str) -> bool:
    parsed = parse_file_name(name)
    return name in _OTHER_FILES or (parsed is not None and parsed.mark != DELETED_SUFFIX)


def _convert_partition(source: Source, folder: PartitionFolder, target: str, files: FileSystem) -> Transfer:
    """Copy a partition, and convert its segments that hold messages from before Kafka 0.11."""
    transfer = Transfer()
    path = f"{target}/{folder.topic_partition}"
    files.make_directory(path)
    names = [entry.name for entry in files.scan(folder.path)]
    old = {
        name: base_offset
        for base_offset, name in find_logs(names)
        if begins_with_message(source.files, f"{folder.path}/{name}")
    }
    positions = {
        file_name(base_offset, suffix)
        for base_offset in old.values()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    }
    for name in names:
        if name in old:
            transfer.written += convert_segment(
                source.files, f"{folder.path}/{name}", files, f"{path}/{name}"
            )
        elif name in positions:
            continue  # positions have changed
        elif _is_brought(name):
            transfer.bring(files, f"{folder.path}/{name}", f"{path}/{name}")
    files.sync_directory(path)
    return transfer


def _closed_segments(
    names: Iterable[str], recovery_points: Mapping[TopicPartition, int], folder: PartitionFolder
) -> set[str]:
    """Return the `.log` files that are never written again.

    They are known to be on disk. The last file of which that is known is left out too: recovery may truncate
    it, and records are then appended to it.
    """
    point = recovery_points.get(folder.topic_partition, 0)
    on_disk = [name for (_, name), (end_offset, _) in pairwise(find_logs(names)) if end_offset <= point]
    return set(on_disk[:-1])
