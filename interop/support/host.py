"""Where a process runs: its address, and how it is started there."""

from __future__ import annotations

from typing import Final, NamedTuple


class Host(NamedTuple):
    """This machine, or what a process takes for a machine of its own."""

    address: str
    enter: tuple[str, ...] = ()
    """The command that starts another one there."""


LOCAL: Final = Host("127.0.0.1")
