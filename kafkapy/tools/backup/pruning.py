"""Removes old backups from a store, and what only they had.

    1. the backups that stay are read: if one is damaged, nothing is removed
    2. the others are removed, the oldest first; from then on nobody needs what only they had
    3. the content that no backup names is removed, and what interrupted commands have left

Other files than those of backups are nobody's to remove.

Crash story: each step leaves the backups that stay whole. After an interruption, the next run removes the
content that is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkapy.tools.backup.manifest import (
    BACKUPS,
    SUFFIX,
    content_name,
    is_content,
    names_of,
    read_manifest,
    unfinished,
)
from kafkapy.tools.backup.store import Store


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    removed: list[str]
    """Moments of backups, oldest first."""
    left: list[str]
    contents: int
    nbytes: int


def remove_all_but(store: Store, keep: int, require: Callable[[], None], *, dry_run: bool) -> Pruned:
    """Remove all backups but the last `keep`; the store is this command's alone.

    Args:
        require: raises if the store is another's now, whose backups may need what these did not.

    Raises:
        BackupError: one of those that stay is damaged.
        OSError: the store cannot be used.
    """
    removed, left, needed = _planned(store, keep)
    if not dry_run:
        for name in (*(f"{BACKUPS}/{each}{SUFFIX}" for each in removed), *unfinished(store)):
            require()
            store.remove(name)
        store.sync()
    contents = nbytes = 0
    for content, size in store.contents():
        if content not in needed and is_content(content):
            contents, nbytes = contents + 1, nbytes + size
            if not dry_run:
                require()
                store.remove(content)
    return Pruned(removed, left, contents, nbytes)


def remove_oldest(store: Store, keep: int) -> str | None:
    """Remove the oldest backup of those that go, and return its moment; None if all stay.

    No other command needs it, so it takes no turn: on a full disk, none can be announced.

    Raises:
        BackupError: one of those that stay is damaged.
        OSError: the store cannot be used.
    """
    removed, _, _ = _planned(store, keep)
    if not removed:
        return None
    store.remove(f"{BACKUPS}/{removed[0]}{SUFFIX}")
    return removed[0]


def _planned(store: Store, keep: int) -> tuple[list[str], list[str], set[str]]:
    """The moments of the backups that go, of those that stay, and what these need."""
    names = names_of(store)
    removed, left = names[:-keep], names[-keep:]
    needed = {
        content_name(saved.sha256) for name in left for saved in read_manifest(store, name).files.values()
    }
    return removed, left, needed
