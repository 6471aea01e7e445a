"""One thing that is wrong in a data directory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """How bad it is."""

    HARMLESS = "harmless"
    """Nothing comes of it."""
    REPAIRED = "repaired"
    """The next start of the broker puts it right by itself."""
    DAMAGED = "damaged"
    """It stays wrong until somebody does what the remedy says."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, how bad that is, and what to do about it."""

    severity: Severity
    path: str
    what: str
    remedy: str
    position: int | None = None
    """Byte of the file."""
    offset: int | None = None
    """First offset of the log that it concerns."""

    def text(self) -> str:
        """One line."""
        places = []
        if self.position is not None:
            places.append(f"byte {self.position}")
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        at = f" at {', '.join(places)}" if places else ""
        return f"{self.severity.value}: {self.path}{at}: {self.what}. {self.remedy}"

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": "finding",
            "severity": self.severity.value,
            "file": self.path,
            "position": self.position,
            "offset": self.offset,
            "what": self.what,
            "remedy": self.remedy,
        }
