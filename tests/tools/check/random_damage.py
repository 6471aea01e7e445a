"""Random changes to one file of a data directory."""

from __future__ import annotations

import random
from pathlib import Path

# A broker writes it from its metadata; these logs have no metadata.
_NOT_HERE = "partition.metadata"


def damage(path: Path, chance: random.Random) -> str:
    """Change one file below `path` at random, and return what was changed."""
    files = sorted(each for each in path.rglob("*") if each.is_file() and each.stat().st_size)
    kinds = sorted({each.suffix or each.name for each in files if each.name not in (_NOT_HERE, ".lock")})
    kind = chance.choice(kinds)
    file = chance.choice([each for each in files if (each.suffix or each.name) == kind])
    data = file.read_bytes()
    at = chance.randrange(len(data))
    how = chance.choice(("flip", "cut", "zeros inside", "zeros after", "rubbish after", "delete"))
    if how == "delete":
        file.unlink()
        return f"{how} {file.name}"
    file.write_bytes(
        {
            "flip": data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
            "cut": data[:at],
            "zeros inside": data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :],
            "zeros after": data + bytes(100),
            "rubbish after": data + chance.randbytes(70),
        }[how]
    )
    return f"{how} {file.name} at {at}"
