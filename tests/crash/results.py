"""What a run of the crash tests tried and found, for scripts/torture: one JSON line for each `note`, appended
to the file that KAFKAPY_RESULTS names. Without that nothing is written."""

from __future__ import annotations

import json
import os
from typing import Final

FILE: Final = "KAFKAPY_RESULTS"


def note(test: str, what: str, *, tried: int, acknowledged: int = 0, lost: int = 0, **more: object) -> None:
    """`test` is the line of the scoreboard; `tried` counts crash points, states, damages or loops.

    A test notes what it did before it asserts: `lost` counts what it found to be lost.
    """
    path = os.environ.get(FILE)
    if path:
        entry = {
            "test": test,
            "what": what,
            "tried": tried,
            "acknowledged": acknowledged,
            "lost": lost,
            **more,
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
