"""The open files of this process: a lower limit for a while, and which files are open."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_files_limit(limit: int) -> Iterator[None]:
    """Set RLIMIT_NOFILE to `limit`; open descriptors stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Take every descriptor below the limit.

    A descriptor that is closed can be used again.
    """
    taken: list[int] = []
    with open_files_limit(max(map(int, os.listdir("/proc/self/fd"))) + 1):
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            yield
        finally:
            for fd in taken:
                os.close(fd)


def open_below(path: Path) -> list[str]:
    """The files below `path` that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(each for each in found if each.startswith(f"{path}/"))
