"""The results of the crash tests, for scripts/torture.

Each `note` appends a JSON line to the file that KAFKAPY_RESULTS names. Without this variable nothing is
written.
"""

from __future__ import annotations

import json
import os
from typing import Final

FILE: Final = "KAFKAPY_RESULTS"


def note(test: str, what: str, *, tried: int, acknowledged: int = 0, lost: int = 0, **more: object) -> None:
    """Note a result; `test` is its line in the table, `tried` counts states, damages or others.

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
