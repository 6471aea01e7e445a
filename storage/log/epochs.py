"""The leader epochs of a partition, each with its first offset.

They tell where an epoch ended (KIP-101, KIP-279).

Format: `leader-epoch-checkpoint`, one line "epoch start-offset" for the first record of each epoch.

Invariant: epochs and start offsets both rise from entry to entry.

Crash story: every batch carries its epoch, and recovery assigns the epochs of the batches that it reads. So
the file has to be right only below the recovery point, and no acknowledgement waits for it. It is saved just
before the recovery points. Until then the checkpointed recovery point is at most `saved_below`. If the epochs
cannot be saved because the disk is full, the next recovery takes longer, and nothing else happens.
Truncations need no save: stale entries are truncated again when the log is loaded (`truncate_from_start` with
the log start offset, `truncate_from_end` with the log end offset).

Source: LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from kafkapy.storage.disk.checkpoints import format_leader_epochs, read_leader_epochs
from kafkapy.storage.disk.files import FileSystem

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1

_NOWHERE: Final = 2**63 - 1
"""Above every offset."""


class LeaderEpochCache:
    """The leader epochs of one log, in memory, and their checkpoint."""

    __slots__ = (
        "_changed_from",
        "_changes",
        "_epochs",
        "_offsets",
        "_saved",
        "_saving",
        "_saving_from",
        "latest_epoch",
    )

    def __init__(self) -> None:
        # Tuples: they rarely change, and thousands of empty lists would take memory.
        self._epochs: tuple[int, ...] = ()
        self._offsets: tuple[int, ...] = ()
        self.latest_epoch = UNDEFINED_EPOCH
        """The epoch of the newest record; -1 if the log has none."""
        self._changes = 0
        """The number of changes."""
        self._saved = 0
        """The number of changes that the file has."""
        self._saving: int | None = None
        """The number of changes that the file has after the save under way; None without a save."""
        self._changed_from = _NOWHERE
        """The lowest offset that has changed since the last save began."""
        self._saving_from = _NOWHERE
        """The lowest changed offset of a save that has not succeeded yet."""

    @classmethod
    def load(cls, files: FileSystem, path: str) -> LeaderEpochCache:
        """The cache that the checkpoint at `path` describes; empty if there is no file.

        Raises:
            CorruptCheckpointError: the file is damaged. Rebuild it from the log, by `assign` for every batch.
            OSError: the disk failed.
        """
        cache = cls()
        for epoch, start_offset in read_leader_epochs(files, path):
            cache.assign(epoch, start_offset)
        cache.file_holds(cache.entries, 0)
        return cache

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` wrote the record at `start_offset`; return whether the entries changed.

        Older entries that contradict it are dropped, since the newest leader is right.
        """
        if epoch < 0 or start_offset < 0:
            return False
        if epoch == self.latest_epoch and start_offset >= self._offsets[-1]:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._offsets, start_offset))
        self._changed(min((start_offset, *self._offsets[keep:])))
        self._epochs = (*self._epochs[:keep], epoch)
        self._offsets = (*self._offsets[:keep], start_offset)
        self.latest_epoch = epoch
        return True

    def earliest_epoch(self, log_start_offset: int) -> int:
        """The epoch of the first record of the log; -1 if unknown."""
        if self._offsets and self._offsets[0] <= log_start_offset:
            return self._epochs[0]
        return UNDEFINED_EPOCH

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 if it is older than every entry."""
        found = bisect_right(self._offsets, offset)
        return self._epochs[found - 1] if found else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and its end offset; (-1, -1) for a future epoch.

        An epoch older than every entry ends where the oldest entry starts: its records are deleted, and a
        follower has to start there.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return self._epochs[higher - 1] if higher else epoch, self._offsets[higher]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at or after `end_offset`: the log was truncated there."""
        keep = bisect_left(self._offsets, end_offset)
        if keep < len(self._offsets):
            self._changed(self._offsets[keep])
            self._epochs, self._offsets = self._epochs[:keep], self._offsets[:keep]
            self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end before `start_offset`; the one that holds it starts there now."""
        covered = bisect_right(self._offsets, start_offset)
        if covered and (covered > 1 or self._offsets[0] != start_offset):
            self._epochs = self._epochs[covered - 1 :]
            self._offsets = (start_offset, *self._offsets[covered:])
            self._changes += 1  # No offset needs a save: a start truncates the file's entries again.

    def become(self, other: LeaderEpochCache) -> None:
        """Take over the epochs of another cache."""
        differing = set(self.entries).symmetric_difference(other.entries)
        self._epochs, self._offsets = other._epochs, other._offsets
        self.latest_epoch = other.latest_epoch
        if differing:
            self._changed(min(start for _, start in differing))

    def clear(self) -> None:
        """Forget everything: the log was emptied."""
        self.truncate_from_end(0)

    # --- the checkpoint -------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> bool:
        """Whether the file is older than this cache."""
        return self._saved != self._changes

    @property
    def saved_below(self) -> int:
        """The offset below which the file is right."""
        return min(self._changed_from, self._saving_from)

    def _changed(self, offset: int) -> None:
        """Note that an entry that starts at `offset` is new, or gone."""
        self._changes += 1
        self._changed_from = min(self._changed_from, offset)

    def file_holds(self, entries: Sequence[tuple[int, int]], log_start_offset: int) -> None:
        """Note that the file has these entries, for a log that starts at `log_start_offset`."""
        file = LeaderEpochCache()
        for epoch, start_offset in entries:
            file.assign(epoch, start_offset)
        file.truncate_from_start(log_start_offset)
        differing = set(file.entries).symmetric_difference(self.entries)
        self._saved = self._changes - (list(entries) != self.entries)
        self._changed_from = min((start for _, start in differing), default=_NOWHERE)
        self._saving_from = _NOWHERE

    def begin_save(self) -> bytes | None:
        """The content for the checkpoint, to be written by any thread; `end_save` follows.

        None if no save is needed, or one is under way.
        """
        if self._saving is not None or not self.unsaved:
            return None
        self._saving = self._changes
        self._saving_from, self._changed_from = self.saved_below, _NOWHERE
        return format_leader_epochs(self.entries)

    def end_save(self, *, saved: bool) -> None:
        """Note whether the content was saved.

        Any thread may call this.
        """
        if saved and self._saving is not None:
            self._saved, self._saving_from = self._saving, _NOWHERE
        self._saving = None

    def save(self, files: FileSystem, path: str, *, durable: bool = True) -> None:
        """Write the checkpoint at once.

        Raises:
            OSError: the disk failed.
        """
        files.write_atomically(path, format_leader_epochs(self.entries), durable=durable)
        self.file_holds(self.entries, 0)
