"""The file operations of the storage layer, which uses the disk only through them.

Each is a method of `FileSystem`. Tests replace it with one that fails, tears or loses writes. Index files are
read and written with pread and pwrite too, not mapped: on a full disk, a store into a mapped page ends the
process with SIGBUS, but pwrite returns ENOSPC. A mapped store would also bypass `FileSystem`.
Only the plain syncs of flushes are made elsewhere, in C (sync_queue.py), unless `sync_data` is replaced.

A `File` counts its references. The log has one. Each `FileSlice` in an outbound queue and each running flush
has another. The last release closes the descriptor, so retention may delete a segment whose bytes are still
being sent. Counts change on the event loop only.

Crash story: a file is on disk only after `sync_data` of the file and `sync_directory` of its directory. A
failed sync is never repeated: the kernel may have dropped the dirty pages, and the next sync would succeed
without them.
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
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Protocol, TypeVar

from kafkapy.storage.disk.errors import NotReadyError, SyncFailedError, is_disk_full, is_out_of_descriptors
from kafkapy.storage.disk.file_names import TEMPORARY_SUFFIX
from kafkapy.storage.disk.open_files import UNBOUNDED
from kafkapy.storage.disk.write_probe import PATIENCE_SECONDS, WriteProbe, new_write_probe

Buffer = bytes | bytearray | memoryview

T = TypeVar("T")

_MAX_BUFFERS = 1024
"""IOV_MAX of Linux: a pwritev with more buffers than this fails with EINVAL."""

_FICLONE = 0x40049409
"""The ioctl that makes a file share another's blocks (linux/fs.h)."""

_COPY_CHUNK = 1 << 20

_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
PAGE = 4096
_LOOKED_AT = 128 << 10
"""The distance between the pages that are checked: the bytes that Linux reads ahead at once."""

_LOADED_AT_ONCE = 256 << 10

_F_FULLFSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_F_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)


@cache
def _libc() -> ctypes.CDLL:
    """The C library, for the one call that Python's os lacks."""
    return ctypes.CDLL(None, use_errno=True)


class File:
    """An open file and the number of references to it."""

    __slots__ = ("_references", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._references = 1

    def acquire(self) -> File:
        """Add a reference."""
        self._references += 1
        return self

    def release(self) -> None:
        """Remove a reference; the last one closes the file."""
        self._references -= 1
        if self._references == 0:
            self._close()

    def _close(self) -> None:
        os.close(self.fd)
        self.fd = -1


class HasSize(Protocol):
    """The result of a stat of a file."""

    @property
    def st_size(self) -> int:
        """The number of bytes."""


class DirectoryEntry(Protocol):
    """An entry of a directory: os.DirEntry, or that of a file system in memory."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def path(self) -> str:
        """The path of the directory, and the name."""

    def is_dir(self) -> bool:
        """Whether it is a directory."""

    def is_file(self) -> bool:
        """Whether it is a file."""

    def stat(self) -> HasSize:
        """Raises OSError."""


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

    def read_cached(self) -> memoryview | None:
        """The bytes; None if some of them may have to be read from the disk."""
        if _NOWAIT is None:
            return None
        data = memoryview(bytearray(self.nbytes))
        try:
            count = os.preadv(self.file.fd, [data], self.position, _NOWAIT)
        except OSError:  # a read of the file will find the fault
            return None
        return data if count == self.nbytes else None

    def read(self) -> bytes:
        """The bytes, for connections that cannot use sendfile (TLS) and for tests.

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
        """Release the file; this may be called again."""
        if not self._released:
            self._released = True
            self.file.release()


class NotCachedError(NotReadyError):
    """A read would have waited for the disk.

    `slice` has the bytes to load.
    """

    def __init__(self, wanted: FileSlice) -> None:
        super().__init__()
        self.slice = wanted

    def release(self) -> None:
        self.slice.release()


class FileSystem:
    """The operations of the storage layer on a real disk.

    Each raises OSError.
    """

    open_files = UNBOUNDED
    """The list of open files, which limits their number."""

    _hurried: int | None = None
    """The thread whose reads must not take long."""

    _waits: bool = False
    """Whether that thread waits for the disk all the same."""

    @contextlib.contextmanager
    def cached_only(self, *, or_wait: bool = False) -> Iterator[None]:
        """Have reads of this thread raise NotReadyError instead of what takes long.

        They would wait for the disk, or read a whole segment. With `or_wait`, they wait for the disk.
        """
        self._hurried, self._waits = threading.get_ident(), or_wait
        try:
            yield
        finally:
            self._hurried = None

    @contextlib.contextmanager
    def waiting_for_disk(self) -> Iterator[None]:
        """Have reads of this thread take as long as they need, inside of `cached_only` as well."""
        hurried = self.is_hurried
        if hurried:
            self._hurried = None
        try:
            yield
        finally:
            if hurried:
                self._hurried = threading.get_ident()

    @property
    def is_hurried(self) -> bool:
        """Whether this thread is inside of `cached_only`."""
        return self._hurried is not None and self._hurried == threading.get_ident()

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing.

        With `create`, create it if it is missing.
        """
        return File(self._descriptor(path, os.O_RDWR | (os.O_CREAT if create else 0)))

    def _descriptor(self, path: str, flags: int) -> int:
        return self._with_room(lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))

    def _with_room(self, opens: Callable[[], T]) -> T:
        """Call `opens`; while no descriptor is left, close another file and try again."""
        while True:
            try:
                return opens()
            except OSError as error:
                if not is_out_of_descriptors(error) or not self.open_files.make_room():
                    raise

    @contextlib.contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        """Open a descriptor for the duration of a block."""
        fd = self._descriptor(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)
            self.open_files.refill()

    def create(self, path: str) -> None:
        """Create an empty file, or empty an existing one; other names of that keep its content."""
        with self._opened(path, os.O_WRONLY | os.O_CREAT) as fd:
            found = os.fstat(fd)
            if found.st_nlink == 1:
                if found.st_size:
                    os.ftruncate(fd, 0)
                return
        self.unlink(path)
        with self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
            pass

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        """Up to `nbytes` bytes; fewer only at the end of the file.

        Raises:
            NotCachedError: inside of `cached_only`.
        """
        if self.is_hurried:
            self._require_cached(file, nbytes, position)
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
        """Fill `buffer`; return the bytes read, fewer than asked only at the end of the file.

        Raises:
            NotCachedError: inside of `cached_only`.
        """
        if self.is_hurried:
            self._require_cached(file, len(buffer), position)
        got = 0
        while got < len(buffer):
            count = os.preadv(file.fd, [buffer[got:]], position + got)
            if count == 0:
                break
            got += count
        return got

    def _require_cached(self, file: File, nbytes: int, position: int) -> None:
        if not self._waits and not is_cached(file, position, nbytes):
            raise NotCachedError(FileSlice(file, position, nbytes))

    def begin_to_read(self, file: File, position: int, nbytes: int) -> bool:
        """Whether bytes of a file can be read without waiting for the disk.

        If not, the kernel begins to read them.
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
        total = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
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
        """Sync the file's data and size to disk.

        Raises SyncFailedError.
        """
        try:
            if _F_FULLFSYNC is not None:
                fcntl.fcntl(file.fd, _F_FULLFSYNC)
            elif hasattr(os, "fdatasync"):
                os.fdatasync(file.fd)
            else:
                os.fsync(file.fd)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror) from error

    @property
    def syncs_plainly(self) -> bool:
        """Whether `sync_data` is a system call and nothing else.

        Then it may be made in C (sync_queue.py).
        """
        return type(self).sync_data is FileSystem.sync_data

    def write_probe(self, file: File, fresh: float) -> WriteProbe | None:
        """A probe of whether the file system of an open file takes writes; None if there is none.

        A write that passed is trusted for `fresh` seconds.
        """
        return new_write_probe(file.fd, fresh, PATIENCE_SECONDS)

    can_sync_file_system = sys.platform == "linux"
    """Whether `sync_file_system` exists here."""
    logs_synced_at_once = 200
    """The least number of logs for which that costs less than to sync the files of each."""

    def is_synced_at_once(self, logs: int) -> bool:
        """Whether one sync of the file system costs less than to sync the files of so many logs."""
        return self.can_sync_file_system and logs >= self.logs_synced_at_once

    def sync_file_system(self, path: str) -> None:
        """Sync everything in the file system of the directory `path`, by whomever it was written."""
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            if _libc().syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise SyncFailedError(code, os.strerror(code), path)

    def sync_path(self, path: str) -> None:
        """Sync a file that is not open."""
        file = self.open(path)
        try:
            self.sync_data(file)
        finally:
            file.release()

    def sync_all(self, path: str) -> None:
        """Sync everything on the file system of a directory, and more where only that is possible."""
        if self.can_sync_file_system:
            self.sync_file_system(path)
        else:
            os.sync()

    def sync_directory(self, path: str) -> None:
        """Sync the names in a directory."""
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            _fsync(fd)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name on the same file system."""
        os.link(source, target)

    def is_shared(self, path: str) -> bool:
        """Whether a file has another name, as in a snapshot; False if it is missing."""
        try:
            return os.stat(path).st_nlink > 1
        except FileNotFoundError:
            return False

    def unshare(self, path: str) -> None:
        """Give a file that is closed, and about to change, content that no other name has."""
        if self.is_shared(path):
            temporary = path + TEMPORARY_SUFFIX
            self.unlink(temporary)
            self.copy(path, temporary)
            self.rename(temporary, path)

    def copy_start(self, source: str, target: str, nbytes: int) -> None:
        """Copy the first bytes of a file, which may be written meanwhile, to a new one.

        Nothing is synced. The copy is shorter if the file is.
        """
        with (
            self._opened(source, os.O_RDONLY) as reading,
            self._opened(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as writing,
        ):
            _copy_start(reading, writing, nbytes)

    def copy(self, source: str, target: str) -> int | None:
        """Copy a file to `target`, and sync it.

        Returns the number of bytes written; None if the two files share their blocks (btrfs, XFS). Holes
        remain holes: the active segment's index files are holes of 10 MiB.
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

    def scan(self, path: str) -> Sequence[DirectoryEntry]:
        """The entries of a directory, by name."""
        with self._with_room(lambda: os.scandir(path)) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        self.open_files.refill()
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def size_of(self, file: File) -> int:
        """The size of an open file, which may have been renamed or removed."""
        return os.fstat(file.fd).st_size

    def modified_ms(self, path: str) -> int:
        """The time when the file last changed, in milliseconds since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, file: File, modified_ms: int) -> None:
        """Set the time when the file last changed, in milliseconds since 1970."""
        os.utime(file.fd, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def free_bytes(self, path: str) -> int:
        """The bytes that an unprivileged process may still write to the file system of `path`."""
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
        decides their order on disk, and the file may be empty after a power loss.
        """
        temporary = path + TEMPORARY_SUFFIX
        self.write_file(temporary, data, durable=durable)
        self.rename(temporary, path)
        if durable:
            self.sync_directory(os.path.dirname(path))

    def write_file(self, path: str, data: Buffer, *, durable: bool = False) -> None:
        """Write a temporary file, and sync it if `durable`.

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

        Kafka's is a POSIX record lock. On Linux this is an open-file-description lock: it excludes a JVM's
        lock as a POSIX lock does, and also a second broker in this process.

        Raises:
            BlockingIOError: another broker has the lock.
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
    """Whether bytes of a file can probably be read without waiting for the disk.

    A read with RWF_NOWAIT fails if a page is not in the page cache; some of the pages are tried. True if the
    system does not support it (macOS, some file systems).
    """
    if _NOWAIT is None:
        return True
    at, last = position, position + nbytes - 1
    try:
        while True:
            os.preadv(file.fd, [bytearray(1)], at, _NOWAIT)
            if at >= last:
                return True
            # A sequential reader has read the first page already, so the second is checked too.
            at = min(at + (PAGE if at == position else _LOOKED_AT), last)
    except BlockingIOError:
        return False
    except OSError:
        return True  # otherwise the reader gets the error


def _fsync(fd: int) -> None:
    """Sync a file, or the names in a directory."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise SyncFailedError(error.errno, error.strerror) from error


def _clone(reading: int, writing: int) -> bool:
    """Let two files share their blocks (ioctl FICLONE); return False if that is not possible."""
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
    """Copy everything but holes; return the number of bytes copied."""
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


def _copy_start(reading: int, writing: int, nbytes: int) -> None:
    """Copy the first bytes of a file in the kernel, which shares blocks where it can."""
    copied = 0
    try:
        while copied < nbytes and hasattr(os, "copy_file_range"):
            count = os.copy_file_range(reading, writing, nbytes - copied, copied, copied)
            if count == 0:
                break
            copied += count
    except OSError as error:
        if is_disk_full(error):
            raise
    while copied < nbytes and (data := os.pread(reading, min(_COPY_CHUNK, nbytes - copied), copied)):
        copied += os.pwrite(writing, data, copied)


def _next_data(fd: int, position: int, size: int) -> tuple[int, int]:
    """The start and end of the next data in a file; (size, size) if only a hole is left."""
    try:
        start = os.lseek(fd, position, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (position, size)


def release_all(files: Iterable[File]) -> None:
    """Release each file."""
    for file in files:
        file.release()
