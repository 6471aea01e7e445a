"""The errors of storage: a disk that failed, one that is full, and what the process lacks.

The operations on files (files.py) raise OSError; log_directory.py makes a StorageError of it, for the client.

Exhaustion: a lack of descriptors, threads or memory (`is_exhausted`) is no failure of a disk. The operation
leaves nothing and raises ExhaustedError (log_directory.py). The client, which gets KAFKA_STORAGE_ERROR or
COORDINATOR_NOT_AVAILABLE, tries again, or the broker does in its next round. A lack takes no directory
offline, and needs no restart.
"""

from __future__ import annotations

import errno
from pathlib import Path

from kafkapy.protocol.errors import ErrorCode, KafkaError

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})

_NO_THREAD = "can't start new thread"
"""The text of CPython's RuntimeError."""


class StorageError(KafkaError):
    """A disk failed, and the request gets KAFKA_STORAGE_ERROR.

    `log_dir` is its log directory.
    """

    def __init__(self, log_dir: str | Path, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.log_dir = Path(log_dir)


class TransientStorageError(StorageError):
    """The disk has not failed, so the same operation may succeed later.

    The failed operation has changed nothing, and the log directory stays online.
    """


class DiskFullError(TransientStorageError):
    """The disk is full.

    The log directory takes writes again when there is space.
    """


class StuckError(TransientStorageError):
    """The file system of a log directory takes no writes at present, or syncs nothing.

    A write would block its thread until that changes (write_probe.py).
    """


class ExhaustedError(TransientStorageError):
    """The process, or the system, has no descriptor, thread or memory left (`is_exhausted`)."""


class CorruptLogError(StorageError):
    """A log is damaged below its recovery point.

    It is not changed and not served.
    """


class NotReadyError(Exception):
    """A read would have held its thread for long (`FileSystem.cached_only`).

    The caller has another thread provide what is missing, then calls `release` and reads again.
    """

    def release(self) -> None:
        """Release what the error holds, if it was not released."""


class SyncFailedError(OSError):
    """A sync failed.

    It must not be tried again, whatever the reason.

    The kernel may have dropped the data.
    """


def is_disk_full(error: BaseException) -> bool:
    """Whether no space, or no quota, is left, so that a write may succeed later."""
    return (
        isinstance(error, OSError)
        and error.errno in (errno.ENOSPC, errno.EDQUOT)
        and not isinstance(error, SyncFailedError)
    )


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether the process, or the system, may open no more files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def is_exhausted(error: BaseException) -> bool:
    """Whether the process, or the system, lacks descriptors, threads or memory.

    That says nothing about the disk, and is temporary: the operation is tried again later.
    """
    if isinstance(error, OSError):
        return error.errno in _EXHAUSTED and not isinstance(error, SyncFailedError)
    # Python has no exception type of its own for a missing thread.
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def what_is_lacking(error: BaseException) -> str:
    """The resource that is lacking, and what to do about it, for a message."""
    if isinstance(error, OSError) and is_out_of_descriptors(error):
        return f"{error.strerror}. Raise the limit of open files (ulimit -n)."
    if isinstance(error, RuntimeError):
        return "no thread can be started. Raise the limit of processes and threads (ulimit -u)."
    return "out of memory. Give the process more."
