"""The command that resets a pipeline, as messages name it."""

from __future__ import annotations

import shlex


def reset_command(location: str, to: str) -> str:
    """A line for a shell, whatever characters the table's location has."""
    return f"kafkapy pipeline reset {shlex.quote(location)} --to {to}"
