"""`kafkapy restore SRC NEWDIR [--at TIME]`"""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

import click

from kafkapy.protocol.errors import KafkaError
from kafkapy.snapshot import require_outside
from kafkapy.storage.snapshots.placing import placed
from kafkapy.tools.backup.later import add_later_records
from kafkapy.tools.backup.manifest import Manifest, content_name, moment, names_of, read_manifest
from kafkapy.tools.backup.store import BackupError, Store, open_store


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="As it was then, between two backups too.")
def restore(source: str, new: Path, at: str | None) -> None:
    """Make a data directory NEW of a backup in SRC, of the last one by default.

    TIME is as in 2026-11-29T08:00 (local without an offset), or as backups are named:
    2026-11-29T08:00:00.000Z. Topics and settings are those of the last backup that is not later, records,
    committed offsets and transactions those up to TIME that the next one has.
    """
    if new.exists():
        raise BackupError(f"{new} exists: name a new directory")
    require_outside(new)
    store = open_store(source)
    manifest, later, until_ms = _chosen(store, source, at)
    new.absolute().parent.mkdir(parents=True, exist_ok=True)
    try:
        with placed(new) as path:
            _fetch(store, manifest, path)
            if later is not None:
                beside = path.with_name(f"{path.name}.later")
                _fetch(store, later, beside)
                add_later_records(path, beside, until_ms)
    except KafkaError as error:
        raise BackupError(f"{source} cannot be restored as of {moment(until_ms)}: {error.message}") from error
    except OSError as error:
        raise BackupError(f"{source} cannot be restored to {new}: {error}") from error
    click.echo(f"{new} is as of {moment(until_ms)}. Start it with: kafkapy serve --data {new}")


def _chosen(store: Store, source: str, at: str | None) -> tuple[Manifest, Manifest | None, int]:
    """The last backup up to a time, the next one if it is needed, and the time."""
    names = names_of(store)
    if not names:
        raise BackupError(f"{source} has no backups: name what kafkapy backup wrote to")
    if at is None:
        last = read_manifest(store, names[-1])
        return last, None, last.at_ms
    try:
        at_ms = round(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        raise BackupError(f"--at {at}: expected a time as 2026-11-29T08:00") from None
    wanted = moment(at_ms)
    before = [name for name in names if name <= wanted]
    if not before:
        raise BackupError(f"{source} has no backup of {wanted} or before: the first is of {names[0]}")
    found = read_manifest(store, before[-1])
    after = names[len(before) :]
    if found.at_ms == at_ms or not after:
        return found, None, found.at_ms
    return found, read_manifest(store, after[0]), at_ms


def _fetch(store: Store, manifest: Manifest, new: Path) -> None:
    new.mkdir()
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
