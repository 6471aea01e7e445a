"""Brings a data directory to a store: what the store has already is not brought again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkapy.storage.disk.checkpoints import META_PROPERTIES, CorruptCheckpointError, read_meta_properties
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.stopped import Part, parts_of
from kafkapy.tools.backup.manifest import Manifest, SavedFile, content_name, names_of, read_manifest
from kafkapy.tools.backup.store import BackupError, Store


@dataclass(slots=True)
class Saved:
    """A backup that was made."""

    manifest: Manifest
    brought: int = 0
    """The bytes that were brought."""
    known: int = 0
    """The bytes that the store had already."""

    def bring(self, store: Store, directory: Path, part: Part, old: SavedFile | None) -> SavedFile:
        """Bring a file, unless the store has it."""
        path = directory / part.name
        found = os.stat(path)
        closed = (found.st_ino, found.st_mtime_ns) if part.is_closed else None
        if closed is not None and old is not None and (old.size, old.closed) == (found.st_size, closed):
            self.known += old.size
            return old
        saved = SavedFile(found.st_size, _hash(path), closed)
        name = content_name(saved.sha256)
        if store.has(name, saved.size):
            self.known += saved.size
        else:
            store.put(name, path)
            self.brought += saved.size
        return saved


def save(store: Store, parts: Sequence[Path], at_ms: int, require: Callable[[], None]) -> Saved:
    """Back up data directories that do not change, as one; the first has the metadata.

    The backup is later than all that are there, whatever the clock says.

    Args:
        require: raises if the directories have changed meanwhile, or the store is another's now.

    Raises:
        BackupError: the store is that of another cluster, or its last backup is damaged.
        OSError: a disk failed, or is full.
    """
    names = names_of(store)
    last = read_manifest(store, names[-1]) if names else None
    cluster_id = _cluster_id(parts[0])
    if last is not None:
        if None not in (last.cluster_id, cluster_id) and last.cluster_id != cluster_id:
            raise BackupError(
                f"the backups there are of the cluster {last.cluster_id}, and {parts[0]} is of {cluster_id}:"
                " name another place for these"
            )
        at_ms = max(at_ms, last.at_ms + 1)
    before = {} if last is None else last.files
    saved = Saved(Manifest(at_ms, (), {}, cluster_id))
    directories: list[str] = []
    files: dict[str, SavedFile] = {}
    for directory in parts:
        for part in parts_of(FileSystem(), str(directory)):
            if part.is_directory:
                directories.append(part.name)
            else:
                files[part.name] = saved.bring(store, directory, part, before.get(part.name))
    saved.manifest = Manifest(at_ms, tuple(directories), files, cluster_id)
    store.sync()
    require()
    store.write(saved.manifest.name, saved.manifest.encoded())
    store.sync()
    return saved


def _cluster_id(directory: Path) -> str | None:
    try:
        meta = read_meta_properties(FileSystem(), f"{directory}/{META_PROPERTIES}")
    except CorruptCheckpointError:
        return None
    return None if meta is None else meta.cluster_id


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
