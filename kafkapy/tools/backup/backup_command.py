"""`kafkapy backup DEST`"""

from __future__ import annotations

import time
from pathlib import Path

import click

from kafkapy.snapshot import TakenSnapshot, require_all, require_outside, taken_by_broker
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.tools.backup.manifest import moment
from kafkapy.tools.backup.saving import Saved, save
from kafkapy.tools.backup.store import BackupError, Store, folder_of, open_store
from kafkapy.tools.backup.turn import Turn, turn


@click.command()
@click.argument("destination", metavar="DEST")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("kafkapy-data"),
    show_default=True,
    help="The data directory; the first of log.dirs.",
)
def backup(destination: str, data: Path) -> None:
    """Back up a data directory to DEST: a directory, or the URL of an object store.

    The broker may run, and clients continue: it takes a snapshot, and everything in the backup is of that
    moment. Of the next backup to the same DEST only what is new is brought.
    """
    if not (data / METADATA_FILE).is_file():
        raise BackupError(
            f"{data} has no {METADATA_FILE}: name the data directory of a broker of kafkapy that is alone"
            " (--data), the one with that file"
        )
    try:
        store = open_store(destination)
        if (folder := folder_of(destination)) is not None:
            require_outside(folder)
        with turn(store, "kafkapy backup") as own:
            saved = _backed_up(data, store, own)
    except OSError as error:
        raise BackupError(f"{data} cannot be backed up to {destination}: {error}") from error
    _report(saved, destination)


def _backed_up(data: Path, store: Store, own: Turn) -> Saved:
    def require() -> None:
        own.require()
        if taken is not None:
            taken.require()

    taken: TakenSnapshot | None = None
    files = FileSystem()
    try:
        lock = files.lock(f"{data}/{LOCK_FILE}")
    except BlockingIOError:
        with taken_by_broker(data) as taken:
            return save(store, taken.parts, taken.at_ms, require)
    else:
        try:
            require_all(data)
            return save(store, [data], time.time_ns() // 1_000_000, require)
        finally:
            lock.release()


def _report(saved: Saved, destination: str) -> None:
    mb = 1e6
    click.echo(
        f"Backed up {len(saved.manifest.directories)} partitions to {destination} as of"
        f" {moment(saved.manifest.at_ms)}: {saved.brought / mb:.1f} MB were brought,"
        f" {saved.known / mb:.1f} MB were there"
    )
