"""Saves the leader epochs of many logs in the background, so that no acknowledgement waits.

After a restart, each log that is written gets a new leader epoch, so its `leader-epoch-checkpoint` has to be
replaced. One file costs two syncs. Many files in a log directory share two syncs of the file system: one
before the renames and one after them.

Crash story: a file is renamed when its content is on disk. The recovery points that rely on it are written
when its new name is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, ParamSpec

from kafkapy.storage.disk.checkpoints import LEADER_EPOCHS
from kafkapy.storage.disk.errors import is_disk_full, is_exhausted
from kafkapy.storage.disk.file_names import TEMPORARY_SUFFIX
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.partition_log import PartitionLog

MANY: Final = 10
"""The least number of files in a log directory that share two syncs of its file system."""

P = ParamSpec("P")

logger = logging.getLogger(__name__)


class EpochSave(NamedTuple):
    """The leader epochs of one log, as they were on the event loop."""

    log: PartitionLog
    path: str
    content: bytes
    recovery_point: int
    """The recovery point of the log if the save fails."""


def begin_saves(logs: Iterable[PartitionLog]) -> list[EpochSave]:
    """The saves that these logs need.

    Call `save` with them next.
    """
    saves = []
    for log in logs:
        recovery_point = log.recovery_point
        content = log.leader_epochs.begin_save() if log.flushed_offset > 0 else None
        if content is not None:
            saves.append(EpochSave(log, f"{log.path}/{LEADER_EPOCHS}", content, recovery_point))
    return saves


def save(directory: LogDirectory, saves: list[EpochSave]) -> list[EpochSave]:
    """Write the files, in any thread; return those that could not be written.

    A failed disk takes the directory offline.
    """
    saved: list[EpochSave] = []
    if directory.error is None and saves:
        try:
            saved = _save(directory, saves)
        except (OSError, MemoryError) as error:
            directory.failed("saving leader epochs", error)
    done = {id(each) for each in saved}
    failed = [each for each in saves if id(each) not in done]
    for each in saves:
        each.log.leader_epochs.end_save(saved=id(each) in done)
    return failed


def _save(directory: LogDirectory, saves: list[EpochSave]) -> list[EpochSave]:
    """Write the files; return those that are on disk.

    Raises:
        OSError: the disk failed.
    """
    files = directory.files
    many = directory.syncs_at_once or len(saves) >= MANY
    together = many and directory.durable and files.can_sync_file_system
    if not together:
        write = partial(files.write_atomically, durable=directory.durable)
        return [each for each in saves if _attempt(each, write, each.path, each.content)]
    written = [
        each for each in saves if _attempt(each, files.write_file, each.path + TEMPORARY_SUFFIX, each.content)
    ]
    if not written:
        return []
    files.sync_file_system(directory.path)
    renamed = [
        each for each in written if _attempt(each, files.rename, each.path + TEMPORARY_SUFFIX, each.path)
    ]
    files.sync_file_system(directory.path)
    return renamed


def _attempt(each: EpochSave, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Run a step of a save; return False if the log was deleted or moved, or space is lacking.

    Raises:
        OSError: the disk failed.
    """
    try:
        call(*args, **kwargs)
    except FileNotFoundError:
        return False
    except (OSError, MemoryError) as error:
        if not is_disk_full(error) and not is_exhausted(error):
            raise
        # Only more of the log is recovered after a crash.
        logger.info("The leader epochs of %s are saved later: %s", each.log.topic_partition, error)
        return False
    return True
