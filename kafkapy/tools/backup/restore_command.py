"""`kafkapy restore SRC NEWDIR [--at TIME]`"""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import datetime
from pathlib import Path

import click

from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.backup.manifest import Manifest, content_name, moment, names_of, read_manifest
from kafkapy.tools.backup.store import BackupError, Store, open_store


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="As it was then: by the last backup that is not later.")
def restore(source: str, new: Path, at: str | None) -> None:
    """Make a data directory NEW of a backup in SRC, of the last one by default.

    TIME is as in 2026-11-29T08:00 (local without an offset), or as backups are named:
    2026-11-29T08:00:00.000Z.
    """
    if new.exists():
        raise BackupError(f"{new} exists: name a new directory")
    store = open_store(source)
    manifest = _chosen(store, source, at)
    try:
        new.mkdir(parents=True)
        _fetch(store, manifest, new)
        _sync(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    click.echo(f"{new} is as of {moment(manifest.at_ms)}. Start it with: kafkapy serve --data {new}")


def _chosen(store: Store, source: str, at: str | None) -> Manifest:
    names = names_of(store)
    if not names:
        raise BackupError(f"{source} has no backups: name what kafkapy backup wrote to")
    if at is None:
        return read_manifest(store, names[-1])
    try:
        wanted = moment(int(datetime.fromisoformat(at).timestamp() * 1000))
    except ValueError:
        raise BackupError(f"--at {at}: expected a time as 2026-11-29T08:00") from None
    before = [name for name in names if name <= wanted]
    if not before:
        raise BackupError(f"{source} has no backup of {wanted} or before: the first is of {names[0]}")
    return read_manifest(store, before[-1])


def _sync(new: Path) -> None:
    """Have everything on disk: the directory says that its broker was stopped in order."""
    files = FileSystem()
    if files.can_sync_file_system:
        files.sync_file_system(str(new.absolute()))
    else:
        os.sync()


def _fetch(store: Store, manifest: Manifest, new: Path) -> None:
    for directory in manifest.directories:
        (new / directory).mkdir()
    for name, saved in manifest.files.items():
        path = new / name
        store.get(content_name(saved.sha256), path)
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != saved.sha256:
                raise BackupError(
                    f"{content_name(saved.sha256)} is damaged in the store: {name} cannot be restored. Use a"
                    " backup that does not have it."
                )
