"""How a command ends when the system fails it: with one line, as after any other mistake.

A failed write to standard output names no file. Python would write the rest of the output once more when it
exits, and complain again; so the rest goes nowhere.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final, NoReturn

import click

_OF_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE, errno.EBADF})


def end_with(error: OSError, *, code: int) -> NoReturn:
    """Exit with `code`; without a word if whoever read the output has seen enough."""
    what = error.filename
    if what is None and error.errno in _OF_WRITING:
        what = "standard output"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        message = error.strerror or str(error)
        click.echo(f"kafkapy: {what}: {message}." if what else f"kafkapy: {message}.", err=True)
    sys.exit(code)
