"""Standard streams as commands need them, however they were started.

A stream that the caller has closed, as in `kafkapy check DIR 2>&-`, is None in Python, which no code expects.
And the next file that was opened would get its descriptor, and with it what libraries in C write there.

Records and paths may have characters that the encoding of the locale does not have, such as LC_ALL=en_US, or
bytes that are no text. One of them must not end a command.
"""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Open /dev/null for closed streams, and escape what cannot be encoded."""
    # The lowest free descriptor is taken, which is that of the stream.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
