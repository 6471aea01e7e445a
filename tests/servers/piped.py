"""A process whose output only the test reads, line by line, as it comes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def piped(*command: str, merged: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program with pipes for stdout and stderr, and kill it after the block.

    If `merged`, both have one pipe.
    """
    errors = subprocess.STDOUT if merged else subprocess.PIPE
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def serve_options(directory: Path, *more: str) -> tuple[str, ...]:
    """The options of a broker on any free port, whose data is below `directory`."""
    return ("serve", "--listen", "127.0.0.1:0", "--data", str(directory / "data"), *more)


def address_of(process: subprocess.Popen[str]) -> str:
    """Where a broker listens: waits for the line that says so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Listening on "):
            return line.split("://")[1].strip()
    raise AssertionError("the broker has ended")
