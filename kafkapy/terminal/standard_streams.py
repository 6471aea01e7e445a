"""Standard streams that the caller has closed, as in `kafkapy check DIR 2>&-`, lead to /dev/null.

Python has None in place of such a stream, which no code expects. And the next file that was opened would get
its descriptor, and with it what libraries in C write there.
"""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Open /dev/null in place of each standard stream that is closed.

    The lowest free descriptor is taken, which is that of the stream.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
