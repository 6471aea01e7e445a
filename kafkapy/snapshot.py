"""A snapshot of a broker: a directory with its records, offsets and metadata at one moment.

    snapshot = broker.snapshot()
    broker.reset(snapshot)

Files of closed segments are shared with the broker on disk, and never written again by either. The directory
is one that `kafkapy serve --data` opens.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import shutil
import socket
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from kafkapy.errors import UserError
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.snapshots.stopped import copy_directory, other_directories

ARCHIVES: Final = (".tar", ".tar.gz", ".tgz")
"""How the name of a snapshot that is one file ends."""

_PREFIX: Final = "kafkapy-snapshot-"


CONTROL: Final = ".kafkapy_control"
"""The socket of a running broker in its first log directory (broker/control.py)."""

TAKEN_PREFIX: Final = ".kafkapy_snapshot-"
"""The names of snapshots that a running broker has taken for a command."""

_LONGEST_SOCKET: Final = 100
"""Longer paths of sockets are refused by the kernel."""


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """The path of a socket, by which it can be opened however long that is."""
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def require_all(directory: Path) -> None:
    """Raise SnapshotError if a stopped broker has more log directories than this one."""
    others = other_directories(FileSystem(), str(directory))
    if others:
        raise SnapshotError(
            f"{directory} is one of several log directories, and what is in {', '.join(others)} would be"
            " missing: start the broker, and use kafkapy backup while it runs, which has all of them"
        )


def require_outside(path: Path) -> None:
    """Raise SnapshotError if a copy at `path` would be in the data directory of a broker."""
    absolute = path.resolve()
    for folder in (absolute, *absolute.parents):
        if os.path.isfile(folder / METADATA_FILE):  # False for a name that is too long
            raise SnapshotError(
                f"{path} is in the data directory {folder}: what befalls that befalls the copy. Name a place"
                " outside of it, best on another disk"
            )


class TakenSnapshot(NamedTuple):
    """A snapshot that a running broker has taken for a command."""

    parts: list[Path]
    """One in each log directory; the first has the metadata."""
    at_ms: int
    """The time of its moment."""
    connection: socket.socket

    def require(self) -> None:
        """Raise SnapshotError if the broker has ended, and may have removed a part of it."""
        with contextlib.suppress(BlockingIOError):
            with contextlib.suppress(ConnectionError):
                self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            raise SnapshotError("the broker has ended meanwhile, and its snapshot with it: run this again")


@contextlib.contextmanager
def taken_by_broker(directory: Path) -> Iterator[TakenSnapshot]:
    """A snapshot that the broker running on a data directory takes.

    It is there for the duration of the block, or until the broker ends.

    Raises:
        SnapshotError: no broker answers there, or it cannot take one.
    """
    control = (directory / CONTROL).absolute()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            with short_path(control) as path:
                connection.connect(path)
            connection.sendall(b"snapshot\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline() or b'{"error": "the broker has ended"}')
        except OSError as error:
            raise SnapshotError(
                f"the broker on {directory} does not answer at {control} ({error.strerror}): run this as the"
                " broker's user; brokers in test processes have no such socket"
            ) from error
        if "error" in answer:
            raise SnapshotError(answer["error"])
        yield TakenSnapshot([Path(each) for each in answer["paths"]], int(answer["at_ms"]), connection)


def new_path(data: Path) -> Path:
    """A path for a snapshot, if possible beside the data, so that files can be shared."""
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=data.absolute().parent)
    except OSError:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
    os.rmdir(folder)
    return Path(folder)


class SnapshotError(UserError):
    """A snapshot cannot be taken or used; the message says why, in one line."""


class Snapshot:
    """A snapshot; a context manager that removes it, unless its path was named.

    Args:
        path: the directory.
        is_kept: whether it stays when the snapshot is closed.
    """

    def __init__(self, path: str | Path, *, is_kept: bool = True) -> None:
        self.path = Path(path)
        self._remove = (
            None if is_kept else weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        )

    @classmethod
    def at(cls, path: str | Path) -> Snapshot:
        """The snapshot in a directory, or in an archive that `kafkapy snapshot` has written.

        Raises:
            SnapshotError: there is none.
        """
        path = Path(path)
        if path.is_file() and path.name.endswith(ARCHIVES):
            return cls._unpacked(path)
        if not (path / METADATA_FILE).is_file():
            raise SnapshotError(
                f"{path} is no snapshot: expected a directory with a {METADATA_FILE}, or an archive of one"
                f" ({', '.join(ARCHIVES)})"
            )
        return cls(path)

    @classmethod
    def _unpacked(cls, archive: Path) -> Snapshot:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unpacked = cls(folder, is_kept=False)
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        except OSError as error:
            unpacked.close()
            raise SnapshotError(f"{archive} cannot be unpacked: {error}") from error
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
            unpacked.close()
            # Some of these messages have a line for each format that was tried.
            reason = " ".join(str(error).split())
            raise SnapshotError(f"{archive} is damaged, or no archive: {reason}") from error
        if not (folder / METADATA_FILE).is_file():
            unpacked.close()
            raise SnapshotError(f"{archive} is no snapshot: it has no {METADATA_FILE}")
        return unpacked

    def check(self) -> None:
        """Raise SnapshotError if it is closed, not whole, or a broker is running in it."""
        if not self.path.is_dir():
            raise SnapshotError(
                f"the snapshot {self.path} is gone: it was closed, or somebody has removed it"
            )
        files = FileSystem()
        lock = f"{self.path}/{LOCK_FILE}"
        if files.exists(lock):
            try:
                files.lock(lock).release()
            except BlockingIOError:
                raise SnapshotError(
                    f"{self.path} is in use by a running broker: take a snapshot of it (broker.snapshot())"
                ) from None
        require_all(self.path)

    def copy_to(self, directory: Path) -> None:
        """Copy it into an empty directory, which shares the files of closed segments with it.

        Raises:
            SnapshotError: it is closed; a broker is running in it; or a disk failed or is full.
        """
        self.check()
        try:
            copy_directory(FileSystem(), str(self.path), str(directory))
        except OSError as error:
            raise SnapshotError(f"{self.path} cannot be copied to {directory}: {error}") from error

    def close(self) -> None:
        """Remove it, unless its path was named; brokers that came from it keep their data."""
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Snapshot({str(self.path)!r})"
