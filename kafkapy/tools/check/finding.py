"""One problem in a data directory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

RESTORE: Final = "Restore the partition from a replica or a backup"
READ_AGAIN: Final = (
    "Stop the broker, remove .kafka_cleanshutdown and the partition's line in "
    "recovery-point-offset-checkpoint: the next start rebuilds it from the log"
)


class Severity(Enum):
    """How severe a finding is."""

    HARMLESS = "harmless"
    """It has no consequences."""
    REPAIRED = "repaired"
    """The next start of the broker repairs it."""
    DAMAGED = "damaged"
    """It stays until somebody follows the remedy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem: where it is, how severe it is, and what to do about it."""

    severity: Severity
    path: str
    what: str
    remedy: str
    position: int | None = None
    """The byte of the file where the problem is."""
    offset: int | None = None
    """The first offset of the log that is affected."""

    def text(self) -> str:
        """The finding as one line."""
        places = []
        if self.position is not None:
            places.append(f"byte {self.position}")
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        at = f" at {', '.join(places)}" if places else ""
        return f"{self.severity.value}: {self.path}{at}: {self.what}. {self.remedy}"

    def values(self) -> dict[str, Any]:
        """The finding for JSON."""
        return {
            "kind": "finding",
            "severity": self.severity.value,
            "file": self.path,
            "position": self.position,
            "offset": self.offset,
            "what": self.what,
            "remedy": self.remedy,
        }
