"""As when the limit of processes is reached: threads cannot be started."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest


def no_thread_starts(monkeypatch: pytest.MonkeyPatch, allowed: Callable[[str], bool]) -> None:
    """Refuse the start of threads whose names are not `allowed`."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if not allowed(thread.name):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
