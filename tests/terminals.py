"""A terminal in place of a stream that a test reads."""

from __future__ import annotations

from typing import Literal

import pytest


def in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: Literal["stdout", "stderr"] = "stdout", *, columns: int = 80
) -> None:
    """Let the rest of a test write to a terminal that knows colours."""
    monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
