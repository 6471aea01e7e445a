"""Ends a command after an OSError with one line.

The error of a failed write to standard output names no file. Python would try to write the rest of the output
at exit and report a second error, so the rest is discarded.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click

_OF_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE, errno.EBADF})


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Give errors of writes in the block the name of their file.

    Python gives it to errors of opening only.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def end_with(error: OSError, *, code: int) -> NoReturn:
    """Report the error and exit with `code`; report nothing if the reader closed the pipe."""
    what = error.filename
    if what is None and error.errno in _OF_WRITING:
        what = "standard output"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        message = error.strerror or str(error)
        click.echo(f"kafkapy: {what}: {message}." if what else f"kafkapy: {message}.", err=True)
    sys.exit(code)
