"""However metadata.db rots, it is refused, or says what it said.

No wrong setting deletes records.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kafkapy.metadata.sqlite_tree import SqliteTree
from kafkapy.metadata.store import Create, MetadataStoreError, Node, SetData
from tests.crash.bit_rot import spoil
from tests.crash.results import note

STATES = int(os.environ.get("KAFKAPY_ROT_STATES", "120"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))


def _read(path: Path) -> dict[str, Node]:
    tree = SqliteTree(str(path), sync=False)
    try:
        return tree.subtree("/")
    finally:
        tree.close()


def _written(path: Path) -> dict[str, Node]:
    """A tree of a few pages, some of it changed since."""
    tree = SqliteTree(str(path), sync=False)
    tree.begin()
    names = [f"/topics/t{number}" for number in range(150)]
    tree.apply([Create("/topics"), *(Create(name, b'{"retention.ms": "123456789"}') for name in names)], 0)
    tree.apply([SetData(name, b'{"retention.ms": "-1"}') for name in names[::3]], 0)
    tree.commit()
    tree.close()
    return _read(path)


@pytest.mark.slow
def test_rotten_metadata_is_never_taken_for_right(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    original = tmp_path / "original.db"
    nodes = _written(original)
    refused = 0
    for number in range(STATES):
        path = tmp_path / f"{number}.db"
        path.write_bytes(original.read_bytes())
        what = spoil(path, chance)
        try:
            found = _read(path)
        except MetadataStoreError:
            refused += 1
        else:
            # An emptied file is a new one, as after a power cut at the first start.
            assert found == nodes or not found, f"KAFKAPY_SEED={SEED}, {what}: believed"
    note("R4", "rotten metadata.db", tried=STATES, refused=refused)
    assert refused
