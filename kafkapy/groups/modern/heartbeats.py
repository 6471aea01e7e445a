"""The parts that heartbeats of consumer, share and streams groups share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

JOIN_EPOCH: Final = 0
"""The epoch of a member that joins."""
LEAVE_EPOCH: Final = -1
"""The epoch of a member that leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that is away, and may come back before its session expires."""
UNSET: Final = -1
"""The value of a number that a heartbeat leaves as it is."""
METADATA_REFRESH_MS: Final = 2**31 - 1
"""When the topics are looked at again if nobody reports a change: as good as never."""
FIRST_COMMIT_VERSION: Final = 9
"""Members commit with this version of OffsetCommit, or a later one."""


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request."""

    client_id: str
    client_host: str
    may_describe: Callable[[str], bool] | None = None
    """Whether it may know of a topic that its regular expression matches; None if it may know all."""
