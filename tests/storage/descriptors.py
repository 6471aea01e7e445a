"""A process that may open no more files: the real limit, lowered for a while."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def open_files_limit(limit: int) -> Iterator[None]:
    """Have RLIMIT_NOFILE at `limit`; descriptors that are open stay so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Have every descriptor below the limit taken. What is closed may be opened again."""
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
