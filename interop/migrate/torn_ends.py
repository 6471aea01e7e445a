"""What a power cut may leave at the end of a log: torn, zeroed, garbled."""

from __future__ import annotations

import random
from pathlib import Path

from kafkapy.protocol.records import iter_headers

_CRC_COVERED = 21
"""The position in a batch from which its CRC covers the bytes."""


def tear_ends(data: Path, seed: int) -> None:
    """Damage the end of each log of `tail`, each in its own way."""
    rng = random.Random(seed)
    ways = (_cut, _zeros, _garbage, _flip)
    for folder in sorted(data.glob("tail-*")):
        rng.choice(ways)(max(folder.glob("*.log")), rng)


def _cut(path: Path, rng: random.Random) -> None:
    """Keep only a part of the last write."""
    content = path.read_bytes()
    path.write_bytes(content[: -rng.randrange(1, 200)])


def _zeros(path: Path, rng: random.Random) -> None:
    """Append zeros, as if the file had grown and its data was lost."""
    with path.open("ab") as file:
        file.write(bytes(rng.choice((7, 512, 4096))))


def _garbage(path: Path, rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.randrange(1, 3000)))


def _flip(path: Path, rng: random.Random) -> None:
    """Flip a bit in one of the last batches."""
    content = bytearray(path.read_bytes())
    batches = list(iter_headers(content))[-10:]
    if batches:
        position, header = rng.choice(batches)
        content[position + rng.randrange(_CRC_COVERED, header.size)] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
