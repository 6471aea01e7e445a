"""The calls of a function, which does what it always does."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import pytest


class Call(NamedTuple):
    """One call."""

    arguments: tuple[Any, ...]
    """Those without names; of a method, the first is its object."""
    thread: str
    """The name of the thread that made it."""


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Call]:
    """The calls of a function of a module, or of a method of a class, from now on."""
    calls: list[Call] = []
    function = getattr(owner, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(Call(args, threading.current_thread().name))
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, noted)
    return calls
