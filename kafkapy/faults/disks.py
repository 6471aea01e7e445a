"""Faults of disks: they fill, fail and are slow, for some files of the log directories.

While such a fault is switched on, the broker's file system (`kafkapy.storage.disk.files`) is of the class
`FaultyFiles`, whose calls ask the faults first. Without any it is of its own class again, and nothing asks
anything.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeVar, Unpack, get_args

from kafkapy.faults.fault import Fault, HowOften, often, shown
from kafkapy.faults.kinds import positive
from kafkapy.storage.disk.errors import SyncFailedError
from kafkapy.storage.disk.files import Buffer, File, FileSystem

if TYPE_CHECKING:
    from kafkapy.faults.switched_on import SwitchedOn
    from kafkapy.storage.directories.log_manager import LogManager

F = TypeVar("F")

Operation = Literal["write", "sync", "read"]

_F_GETPATH: Final = 50
"""The fcntl of macOS that tells the path of an open file."""
_PATH_BYTES: Final = 1024


class Place(NamedTuple):
    """The files that a fault concerns; None: any."""

    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None

    def has(self, path: str) -> bool:
        """Whether a file, or a log directory, is concerned."""
        if self.log_dir is not None and not f"{path}/".startswith(f"{os.path.realpath(self.log_dir)}/"):
            return False
        if self.topic is None:
            return True
        name, _, number = os.path.basename(os.path.dirname(path)).rpartition("-")
        return name == self.topic and number.isdigit() and self.partition in (None, int(number))


class DiskFault(Fault):
    """A fault that meets calls of the disk; any thread makes them."""

    counted = "calls"

    def __init__(
        self, place: Place, call: str, operation: Operation, code: int | None, seconds: float
    ) -> None:
        """`code` is what the calls fail with, unless they only take `seconds` longer."""
        super().__init__(f"disk({shown(place._asdict())}).{call}")
        self._place = place
        self._operation = operation
        self._code = code
        self._seconds = seconds

    @property
    def fills(self) -> bool:
        """Whether the disk is full, and not only a call fails."""
        return self._code == errno.ENOSPC

    def concerns_directory(self, path: str) -> bool:
        """Whether a log directory as a whole is concerned."""
        return self._place.topic is None and self._place.has(os.path.realpath(path))

    @property
    def log_dir(self) -> str | None:
        """The log directory that alone is concerned; None: any."""
        return self._place.log_dir

    def meet(self, operation: Operation, path: str) -> float:
        """The seconds that a call is to wait, which are none if it is not met; raises OSError."""
        if operation != self._operation or not self._place.has(path) or not self.takes():
            return 0.0
        if self._code is None:
            return self._seconds
        raise OSError(self._code, os.strerror(self._code), path)


class FaultyFiles(FileSystem):
    """A file system some of whose calls fail or are slow."""

    faults: tuple[DiskFault, ...] = ()

    sleep: Callable[[float], None] = staticmethod(time.sleep)
    """Lets a slow call take its time."""

    def _meet(self, operation: Operation, file: File) -> None:
        if not self.faults:
            return
        path = _path_of(file)
        for fault in self.faults:
            if seconds := fault.meet(operation, path):
                self.sleep(seconds)

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        """Write all of `buffers`, unless a fault meets that."""
        self._meet("write", file)
        return super().write_at(file, buffers, position)

    def allocate(self, file: File, size: int) -> None:
        """Give the file blocks, unless a fault meets that."""
        self._meet("write", file)
        super().allocate(file, size)

    def sync_data(self, file: File) -> None:
        """Sync a file, unless a fault meets that."""
        try:
            self._meet("sync", file)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror) from error
        super().sync_data(file)

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        """Read bytes, unless a fault meets that."""
        self._meet("read", file)
        return super().read_at(file, nbytes, position)

    def read_into(self, file: File, buffer: memoryview, position: int) -> int:
        """Fill a buffer, unless a fault meets that."""
        self._meet("read", file)
        return super().read_into(file, buffer, position)

    def free_bytes(self, path: str) -> int:
        """The free bytes of a disk: none while a fault fills it."""
        if any(fault.fills and fault.concerns_directory(path) for fault in self.faults):
            return 0
        return super().free_bytes(path)


def lead(logs: LogManager, faults: tuple[DiskFault, ...]) -> None:
    """Have the calls of the logs' file system meet these faults."""
    files = logs.files
    if faults and type(files) is FileSystem:
        files.__class__ = FaultyFiles
    if isinstance(files, FaultyFiles):
        files.faults = faults
        if not faults and type(files) is FaultyFiles:
            files.__class__ = FileSystem  # type: ignore[assignment]
    for directory in logs.directories:
        directory.syncs_plainly = files.syncs_plainly


@dataclass(frozen=True, slots=True)
class FaultyDisks(Generic[F]):
    """The files that a fault concerns, and what it may do to calls of the disk.

    Each method switches a fault on and returns it. It meets every call, unless it is told to meet so many
    `times` at most, only every n-th, or each with a `probability` that a `seed` makes repeatable.
    """

    switched_on: SwitchedOn
    shown: Callable[[Fault], F]
    place: Place

    def fill(self, **how_often: Unpack[HowOften]) -> F:
        """Let writes find the disk full.

        A log directory that is concerned as a whole has no free bytes, so producers are refused at once.
        """
        return self._switch_on("fill()", "write", errno.ENOSPC, 0.0, how_often)

    def fail(self, on: Operation, **how_often: Unpack[HowOften]) -> F:
        """Let each "write", "sync" or "read" fail with an I/O error (EIO)."""
        return self._switch_on(f"fail({_operation(on)!r})", on, errno.EIO, 0.0, how_often)

    def slow(self, seconds: float, on: Operation, **how_often: Unpack[HowOften]) -> F:
        """Let each "write", "sync" or "read" take so many seconds longer."""
        call = f"slow({positive('seconds', seconds):g}, {_operation(on)!r})"
        return self._switch_on(call, on, None, seconds, how_often)

    def _switch_on(
        self, call: str, operation: Operation, code: int | None, seconds: float, how_often: HowOften
    ) -> F:
        fault = DiskFault(self.place, call, operation, code, seconds)
        self.switched_on.add(fault, often(**how_often))
        return self.shown(fault)


def _operation(on: Operation) -> Operation:
    if on not in get_args(Operation):
        raise ValueError(f"on={on!r}: expected one of {', '.join(map(repr, get_args(Operation)))}")
    return on


def _path_of(file: File) -> str:
    """The path of an open file."""
    if sys.platform == "linux":
        return os.readlink(f"/proc/self/fd/{file.fd}")
    return fcntl.fcntl(file.fd, _F_GETPATH, bytes(_PATH_BYTES)).rstrip(b"\0").decode()
