"""Reads the batches in the commits of a Delta table from its transaction log.

    _delta_log/00000000000000000012.json     a commit: one action per line; `commitInfo` has `userMetadata`
    _delta_log/_last_checkpoint              {"version": 10, ...}: a recent version; may be absent

Commits older than the table's log retention are deleted. Format: Delta's PROTOCOL.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kafkapy.pipeline.tables.batch import Batch

if TYPE_CHECKING:
    from kafkapy.pipeline.stores import HadoopFiles

_LAST_CHECKPOINT: Final = "_delta_log/_last_checkpoint"


class DeltaLog:
    """The transaction log of a table.

    `files` is the table's folder.
    """

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files
        self._newest = -1
        self._newest_batch: Batch | None = None

    def batches(self) -> Iterator[Batch | None]:
        """The batches, newest first, without commits of others.

        A last None if older commits were deleted.
        """
        self._look()
        if self._newest_batch is not None:
            yield self._newest_batch
        for version in range(self._newest - 1, -1, -1):
            if not self._files.exists(_name(version)):
                yield None
                return
            if (found := self._batch(version)) is not None:
                yield found

    def _look(self) -> None:
        """Finds the newest version without a listing, which would be slow."""
        newest = self._newest
        if newest < 0 and self._files.exists(_LAST_CHECKPOINT):
            newest = int(json.loads(self._files.read_text(_LAST_CHECKPOINT))["version"])
        while self._files.exists(_name(newest + 1)):
            newest += 1
        if newest > self._newest:
            self._newest, self._newest_batch = newest, self._batch(newest)

    def _batch(self, version: int) -> Batch | None:
        return _written(self.commit_info(version).get("userMetadata"), version)

    def commit_info(self, version: int) -> dict[str, Any]:
        """What a commit says of itself: `operation`, `timestamp`, `userMetadata` and more.

        Empty if it is gone.
        """
        if self._files.exists(_name(version)):
            for line in self._files.read_text(_name(version)).splitlines():
                if (info := json.loads(line).get("commitInfo")) is not None:
                    return dict(info)
        return {}


def _name(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def version_of(path: str) -> int:
    """The version of the commit in that file."""
    return int(path.rpartition("/")[2].removesuffix(".json"))


def _written(metadata: Any, version: int) -> Batch | None:
    """The batch in a commit's `userMetadata`; None if no pipeline has written it."""
    try:
        return Batch.from_mapping(json.loads(metadata), str(version))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
