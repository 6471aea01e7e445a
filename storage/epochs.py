"""Which leader epoch wrote which offsets of a partition: where did epoch n end? (KIP-101, KIP-279)

Format: `leader-epoch-checkpoint`, one line "epoch start-offset" for the first record of each epoch.

Invariant: epochs and start offsets both rise from entry to entry.

Crash story: every batch carries its epoch, so the part of the log that recovery reads again gives its entries
again (`assign` of each batch). The file need only hold what lies below the recovery point: it is saved as
part of the flush that moves that point. Truncations need no save at all; a stale entry is cut again when the
log is loaded (`truncate_from_start` with the log start offset, `truncate_from_end` with the log end offset).

Source: LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kafkapy.storage.checkpoints import format_leader_epochs, read_leader_epochs
from kafkapy.storage.files import FileSystem

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCache:
    """The leader epochs of one log, in memory, and their checkpoint."""

    __slots__ = ("_epochs", "_offsets", "latest_epoch", "unsaved")

    def __init__(self) -> None:
        # Tuples: they rarely change, and thousands of empty lists would count.
        self._epochs: tuple[int, ...] = ()
        self._offsets: tuple[int, ...] = ()
        self.latest_epoch = UNDEFINED_EPOCH
        """The epoch of the newest record, -1 for a log that has none."""
        self.unsaved = False
        """The file is older than this cache."""

    @classmethod
    def load(cls, files: FileSystem, path: str) -> LeaderEpochCache:
        """The cache that the checkpoint at `path` describes; empty where there is none.

        Raises:
            CorruptCheckpointError: build it from the log instead, by `assign` of every batch.
            OSError: the disk failed.
        """
        cache = cls()
        for epoch, start_offset in read_leader_epochs(files, path):
            cache.assign(epoch, start_offset)
        cache.unsaved = False
        return cache

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` wrote the record at `start_offset`; whether that was news.

        Older entries that contradict it go: the newest leader is right.
        """
        if epoch < 0 or start_offset < 0:
            return False
        if epoch == self.latest_epoch and start_offset >= self._offsets[-1]:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._offsets, start_offset))
        self._epochs = (*self._epochs[:keep], epoch)
        self._offsets = (*self._offsets[:keep], start_offset)
        self.latest_epoch = epoch
        self.unsaved = True
        return True

    def earliest_epoch(self, log_start_offset: int) -> int:
        """The epoch of the first record of the log; -1 where it is not known."""
        if self._offsets and self._offsets[0] <= log_start_offset:
            return self._epochs[0]
        return UNDEFINED_EPOCH

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 where it is older than every entry."""
        found = bisect_right(self._offsets, offset)
        return self._epochs[found - 1] if found else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and where it ended; (-1, -1) for an epoch from the future.

        An epoch older than every entry ends where the oldest entry starts: its records are deleted, and a
        follower that asks must start there.
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
        """Forget the epochs that start at or after `end_offset`: the log was cut there."""
        keep = bisect_left(self._offsets, end_offset)
        if keep < len(self._offsets):
            self._epochs, self._offsets = self._epochs[:keep], self._offsets[:keep]
            self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
            self.unsaved = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end before `start_offset`; the one that holds it starts there now."""
        covered = bisect_right(self._offsets, start_offset)
        if covered and (covered > 1 or self._offsets[0] != start_offset):
            self._epochs = self._epochs[covered - 1 :]
            self._offsets = (start_offset, *self._offsets[covered:])
            self.unsaved = True

    def become(self, other: LeaderEpochCache) -> None:
        """Take over the epochs of another cache."""
        self._epochs, self._offsets = other._epochs, other._offsets
        self.latest_epoch = other.latest_epoch
        self.unsaved = True

    def clear(self) -> None:
        """Forget everything: the log was emptied."""
        self.truncate_from_end(0)

    def snapshot(self) -> bytes:
        """The content for the checkpoint, which counts as saved from now on: a worker thread may write it.

        Whoever fails to write it sets `unsaved` again.
        """
        self.unsaved = False
        return format_leader_epochs(self.entries)

    def save(self, files: FileSystem, path: str, *, durable: bool = True) -> None:
        """Write the checkpoint at once.

        Raises:
            OSError: the disk failed.
        """
        files.write_atomically(path, format_leader_epochs(self.entries), durable=durable)
        self.unsaved = False
