"""The only place that touches the disk: the file operations of the storage layer.

Each is a method of `FileSystem`. A test replaces it with one that fails, tears or loses writes. Nothing else
here opens, writes, syncs or renames. Index files too are read and written with pread and pwrite, not mapped:
a store into a mapped page on a full disk is a SIGBUS that ends the process, where pwrite gives ENOSPC, and a
mapped store would bypass `FileSystem`.

A `File` counts its users. The log holds one reference. Each `FileSlice` that waits in an outbound queue and
each running flush hold another. The descriptor closes with the last one, so retention may delete a segment
whose bytes are still being sent. Counts change on the event loop only.

Crash story: nothing is on disk before `sync_data` of the file and `sync_directory` of its directory have
returned. A failed sync is never repeated: the kernel may have dropped the dirty pages and call the next one a
success.

Exhaustion: a lack of descriptors, threads or memory (`is_exhausted`) is no failure of a disk. An operation
that meets it leaves nothing, and raises ExhaustedError (log_directory.py). It is tried again: by the client,
which gets KAFKA_STORAGE_ERROR or COORDINATOR_NOT_AVAILABLE, or by the broker's next round. A lack takes no
directory offline, and needs no restart.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.disk.open_files import UNBOUNDED

Buffer = bytes | bytearray | memoryview

T = TypeVar("T")

_MAX_BUFFERS = 1024
"""IOV_MAX of Linux: a pwritev with more buffers than this fails with EINVAL."""

_FICLONE = 0x40049409
"""The ioctl that makes a file share another's blocks (linux/fs.h)."""

_COPY_CHUNK = 1 << 20

_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_PAGE = 4096
_LOOKED_AT = 128 << 10
"""The distance between the pages that are looked for: what Linux reads ahead at once."""

_LOADED_AT_ONCE = 256 << 10

TEMPORARY = ".tmp"
"""The suffix of a file's name until it is complete."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})

_NO_THREAD = "can't start new thread"
"""The text of CPython's RuntimeError."""

_F_FULLFSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_F_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)


class StorageError(KafkaError):
    """A disk failed: the request gets KAFKA_STORAGE_ERROR. `log_dir` says which log directory."""

    def __init__(self, log_dir: str | Path, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.log_dir = Path(log_dir)


class TransientStorageError(StorageError):
    """The same operation may succeed later: nothing is wrong with the disk.

    It left nothing behind, and the log directory stays online.
    """


class DiskFullError(TransientStorageError):
    """No space is left; the log directory takes writes again when there is some."""


class ExhaustedError(TransientStorageError):
    """The process, or the system, has no descriptor, thread or memory left (`is_exhausted`)."""


class CorruptLogError(StorageError):
    """A log is damaged where it was already on disk. It stays as it is and is not served."""


class SyncFailedError(OSError):
    """A sync failed; there is no second try, whatever the reason.

    The kernel may have dropped what was to be synced.
    """


def is_disk_full(error: BaseException) -> bool:
    """Whether no space, or no quota, is left.

    What was to be written was not. It may be when there is space again.
    """
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

    That says nothing about the disk, and it passes: an operation that met it is tried again later.
    """
    if isinstance(error, OSError):
        return error.errno in _EXHAUSTED and not isinstance(error, SyncFailedError)
    # Python has no exception type of its own for a missing thread.
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def what_is_lacking(error: BaseException) -> str:
    """What `is_exhausted` found, and what to do about it."""
    if isinstance(error, OSError) and is_out_of_descriptors(error):
        return f"{error.strerror}. Raise the limit of open files (ulimit -n)."
    if isinstance(error, RuntimeError):
        return "no thread can be started. Raise the limit of processes and threads (ulimit -u)."
    return "out of memory. Give the process more."


@cache
def _libc() -> ctypes.CDLL:
    """The C library, for the one call that Python's os lacks."""
    return ctypes.CDLL(None, use_errno=True)


class File:
    """An open file and the number of its users."""

    __slots__ = ("_references", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._references = 1

    def acquire(self) -> File:
        """Count one user more."""
        self._references += 1
        return self

    def release(self) -> None:
        """Count one user less; the last one closes the file."""
        self._references -= 1
        if self._references == 0:
            os.close(self.fd)
            self.fd = -1


class FileSlice:
    """`nbytes` bytes of a file from `position`, for os.sendfile.

    It keeps the file open until `release`.
    """

    __slots__ = ("_released", "file", "nbytes", "position")

    def __init__(self, file: File, position: int, nbytes: int) -> None:
        self.file = file.acquire()
        self.position = position
        self.nbytes = nbytes
        self._released = False

    @property
    def fileno(self) -> int:
        """The descriptor that sendfile reads from."""
        return self.file.fd

    def is_cached(self, offset: int, nbytes: int) -> bool:
        """Whether `nbytes` bytes from `offset` on can probably be sent without the disk."""
        return is_cached(self.file, self.position + offset, nbytes)

    def load(self, offset: int, nbytes: int) -> None:
        """Load `nbytes` bytes from `offset` on into the page cache; this blocks.

        Raises:
            OSError: the disk failed.
        """
        buffer = memoryview(bytearray(min(nbytes, _LOADED_AT_ONCE)))
        position, end = self.position + offset, self.position + offset + nbytes
        while position < end:
            count = os.preadv(self.file.fd, [buffer[: end - position]], position)
            if count == 0:
                return
            position += count

    def read(self) -> bytes:
        """The bytes themselves, for a connection that must see them (TLS) and for tests.

        Raises:
            OSError: the disk failed, or the file ended early.
        """
        data = os.pread(self.file.fd, self.nbytes, self.position)
        while len(data) < self.nbytes:
            more = os.pread(self.file.fd, self.nbytes - len(data), self.position + len(data))
            if not more:
                raise OSError(errno.EIO, "the file ended inside a slice")
            data += more
        return data

    def release(self) -> None:
        """Let the file close. Safe to call again."""
        if not self._released:
            self._released = True
            self.file.release()


class FileSystem:
    """The operations of the storage layer on a real disk. Each raises OSError."""

    open_files = UNBOUNDED
    """Lists the files that stay open, so that they stay few."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes the file if it is missing."""
        return File(self._descriptor(path, os.O_RDWR | (os.O_CREAT if create else 0)))

    def _descriptor(self, path: str, flags: int) -> int:
        return self._with_room(lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))

    def _with_room(self, opens: Callable[[], T]) -> T:
        """Call `opens`; while no descriptor is left for it, close something else."""
        while True:
            try:
                return opens()
            except OSError as error:
                if not is_out_of_descriptors(error) or not self.open_files.make_room():
                    raise

    @contextlib.contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        """A descriptor for a moment."""
        fd = self._descriptor(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)
            self.open_files.refill()

    def create(self, path: str) -> None:
        """Make an empty file, or empty the one that is there."""
        with self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            pass

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        """Up to `nbytes` bytes; fewer only at the end of the file."""
        data = os.pread(file.fd, nbytes, position)
        if len(data) == nbytes or not data:
            return data
        parts = [data]
        got = len(data)
        while got < nbytes and (data := os.pread(file.fd, nbytes - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_into(self, file: File, buffer: memoryview, position: int) -> int:
        """Fill `buffer`; return the bytes read, fewer than asked only at the end of the file."""
        got = 0
        while got < len(buffer):
            count = os.preadv(file.fd, [buffer[got:]], position + got)
            if count == 0:
                break
            got += count
        return got

    def begin_to_read(self, file: File, position: int, nbytes: int) -> bool:
        """Whether bytes of a file can be had without waiting for the disk.

        If not, the disk begins to read them.
        """
        cached = is_cached(file, position, nbytes)
        if not cached and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fd, position, nbytes, os.POSIX_FADV_WILLNEED)
        return cached

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        """Write all of `buffers` from `position`; return the bytes written.

        After an error any part may have been written.
        """
        if len(buffers) > _MAX_BUFFERS:
            first = self.write_at(file, buffers[:_MAX_BUFFERS], position)
            return first + self.write_at(file, buffers[_MAX_BUFFERS:], position + first)
        total = sum(map(len, buffers))
        written = os.pwritev(file.fd, buffers, position)
        while written < total:
            rest = memoryview(b"".join(buffers))[written:]
            count = os.pwrite(file.fd, rest, position + written)
            if count == 0:
                raise OSError(errno.EIO, "a write wrote nothing")
            written += count
        return total

    def truncate(self, file: File, size: int) -> None:
        """Truncate the file, or grow it by a hole."""
        os.ftruncate(file.fd, size)

    def allocate(self, file: File, size: int) -> None:
        """Give the file real blocks for `size` bytes."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fd, 0, size)
        else:
            self.write_at(file, [bytes(size)], 0)

    def sync_data(self, file: File) -> None:
        """Put the file's data, and its size, on disk. Raises SyncFailedError."""
        try:
            if _F_FULLFSYNC is not None:
                fcntl.fcntl(file.fd, _F_FULLFSYNC)
            elif hasattr(os, "fdatasync"):
                os.fdatasync(file.fd)
            else:
                os.fsync(file.fd)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror) from error

    can_sync_file_system = sys.platform == "linux"
    """Whether `sync_file_system` exists here."""

    def sync_file_system(self, path: str) -> None:
        """Put on disk everything that was written to the file system of the directory `path`.

        It does not matter who wrote it.
        """
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            if _libc().syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise SyncFailedError(code, os.strerror(code), path)

    def sync_path(self, path: str) -> None:
        """Put on disk what was written to a file that is not open here."""
        file = self.open(path)
        try:
            self.sync_data(file)
        finally:
            file.release()

    def sync_directory(self, path: str) -> None:
        """Put the names in a directory on disk."""
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            _fsync(fd)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name on the same file system."""
        os.link(source, target)

    def copy(self, source: str, target: str) -> int | None:
        """Make `target` a copy of a file, on disk when this returns.

        Returns the bytes that were written for it; None if the file system could have the two share their
        blocks (btrfs, XFS). Holes stay holes: Kafka's index files are 10 MiB of them.
        """
        with (
            self._opened(source, os.O_RDONLY) as reading,
            self._opened(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as writing,
        ):
            written = None if _clone(reading, writing) else _copy_data(reading, writing)
            _fsync(writing)
            return written

    def unlink(self, path: str) -> None:
        """Remove a file; it is no error if it is gone already."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, 0o755)

    def make_directories(self, path: str) -> None:
        """Make a directory and its parents; it is no error if they exist."""
        os.makedirs(path, 0o755, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory and all in it; it is no error if it is gone already."""
        with contextlib.suppress(FileNotFoundError):
            if not os.path.isdir(path) or os.path.islink(path):
                os.unlink(path)
                return
            try:
                os.rmdir(path)  # this takes no descriptor
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                self._with_room(lambda: shutil.rmtree(path))

    def scan(self, path: str) -> list[os.DirEntry[str]]:
        """The entries of a directory, by name."""
        with self._with_room(lambda: os.scandir(path)) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        self.open_files.refill()
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When the file last changed, in milliseconds since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, file: File, modified_ms: int) -> None:
        """Make the file look as if it had last changed then."""
        os.utime(file.fd, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def free_bytes(self, path: str) -> int:
        """How many bytes an unprivileged process may still write to the file system of `path`."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_bytes(self, path: str) -> int:
        """The size of the file system of `path`."""
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize

    def read(self, path: str) -> bytes:
        """The content of a small file."""
        with self._opened(path, os.O_RDONLY) as fd, open(fd, "rb", closefd=False) as file:
            return file.read()

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        """Replace a file so that a crash leaves the old content or the new, never a part.

        `durable` syncs the file before the rename and the directory after it. Without it the file system
        decides the order of the two on disk; a reader must then bear an empty file after a power cut.
        """
        temporary = path + TEMPORARY
        self.write_file(temporary, data, durable=durable)
        self.rename(temporary, path)
        if durable:
            self.sync_directory(os.path.dirname(path))

    def write_file(self, path: str, data: Buffer, *, durable: bool = False) -> None:
        """Write a file whose name does not count yet, and sync it if `durable`.

        If that fails, no file is left.
        """
        try:
            with self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if durable:
                    _fsync(fd)
        except BaseException:
            self.unlink(path)
            raise

    def lock(self, path: str) -> File:
        """Take the lock that Apache Kafka takes on `.lock`, until the file is released.

        Kafka's is a POSIX record lock. This is an open-file-description lock where there is one: it excludes
        a JVM's lock as a plain POSIX lock does, and a second broker of this same process too.

        Raises:
            BlockingIOError: somebody holds it.
        """
        file = self.open(path, create=True)
        try:
            if _F_OFD_SETLK is not None and sys.platform == "linux":
                flock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(file.fd, _F_OFD_SETLK, flock)
            else:
                fcntl.lockf(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.release()
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(error.errno, "locked by another process", path) from None
            raise
        return file


def is_cached(file: File, position: int, nbytes: int) -> bool:
    """Whether bytes of a file can probably be had without waiting for the disk.

    The kernel says at once of a page whether it has it (RWF_NOWAIT); some pages are asked for. True if it
    does not say (macOS, some file systems).
    """
    if _NOWAIT is None:
        return True
    at, last = position, position + nbytes - 1
    try:
        while True:
            os.preadv(file.fd, [bytearray(1)], at, _NOWAIT)
            if at >= last:
                return True
            # A reader that goes on has had the first page already, whatever comes after it.
            at = min(at + (_PAGE if at == position else _LOOKED_AT), last)
    except BlockingIOError:
        return False
    except OSError:
        return True  # otherwise the reader gets the error


def _fsync(fd: int) -> None:
    """Put all of a file, or the names in a directory, on disk."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise SyncFailedError(error.errno, error.strerror) from error


def _clone(reading: int, writing: int) -> bool:
    """Let two files share their blocks (ioctl FICLONE); False if the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(writing, _FICLONE, reading)
    except OSError as error:
        if is_disk_full(error):
            raise
        return False
    return True


def _copy_data(reading: int, writing: int) -> int:
    """Copy what is not a hole; return how many bytes that was."""
    size = os.fstat(reading).st_size
    position = written = 0
    while position < size:
        start, end = _next_data(reading, position, size)
        os.lseek(reading, start, os.SEEK_SET)
        os.lseek(writing, start, os.SEEK_SET)
        while start < end and (chunk := os.read(reading, min(_COPY_CHUNK, end - start))):
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(writing, rest) :]
            start += len(chunk)
            written += len(chunk)
        position = end
    os.ftruncate(writing, size)
    return written


def _next_data(fd: int, position: int, size: int) -> tuple[int, int]:
    """Where the next data of a file begins and ends; (size, size) if only a hole is left."""
    try:
        start = os.lseek(fd, position, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (position, size)


def release_all(files: Iterable[File]) -> None:
    """Release each file."""
    for file in files:
        file.release()
