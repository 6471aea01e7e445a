"""Keys that are pressed on a terminal, without a line break after them."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Keys:
    """The keys of a terminal; none if standard input is not one."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def next(self, seconds: float) -> str | None:
        """The next key within so many seconds; None if there is none."""
        if self._descriptor is None:
            time.sleep(seconds)
            return None
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return None
        pressed = os.read(self._descriptor, 1)
        if not pressed:  # the terminal has gone
            self._descriptor = None
            return None
        return pressed.decode(errors="replace")


@contextmanager
def pressed_keys() -> Iterator[Keys]:
    """Read keys one by one, and give the terminal back as it was; Ctrl-C stays an interrupt."""
    if not sys.stdin.isatty():
        yield Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before: list[Any] = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
