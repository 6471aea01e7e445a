"""Brings a data directory to a store: what the store has already is not brought again."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.stopped import parts_of
from kafkapy.tools.backup.manifest import Manifest, SavedFile, content_name, names_of, read_manifest
from kafkapy.tools.backup.store import BackupError, Store


@dataclass(slots=True)
class Saved:
    """A backup that was made."""

    manifest: Manifest
    brought: int
    """The bytes that were brought."""
    known: int
    """The bytes that the store had already."""


def save(store: Store, directory: Path, at_ms: int) -> Saved:
    """Back up a data directory that does not change.

    Raises:
        BackupError: there is a backup of this moment, or a damaged one.
        OSError: a disk failed, or is full.
    """
    names = names_of(store)
    before = read_manifest(store, names[-1]).files if names else {}
    directories: list[str] = []
    files: dict[str, SavedFile] = {}
    brought = known = 0
    for part in parts_of(FileSystem(), str(directory)):
        if part.is_directory:
            directories.append(part.name)
            continue
        path = directory / part.name
        found = os.stat(path)
        closed = (found.st_ino, found.st_mtime_ns) if part.is_closed else None
        old = before.get(part.name)
        if closed is not None and old is not None and (old.size, old.closed) == (found.st_size, closed):
            files[part.name] = old
            known += old.size
            continue
        saved = SavedFile(found.st_size, _hash(path), closed)
        files[part.name] = saved
        if store.has(content_name(saved.sha256)):
            known += saved.size
        else:
            store.put(content_name(saved.sha256), path)
            brought += saved.size
    manifest = Manifest(at_ms, tuple(directories), files)
    if store.has(manifest.name):
        raise BackupError(f"there is a backup of this moment already: {manifest.name}")
    store.write(manifest.name, manifest.encoded())
    return Saved(manifest, brought, known)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
