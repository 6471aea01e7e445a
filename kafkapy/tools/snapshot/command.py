"""`kafkapy snapshot DIR NEW`, `kafkapy snapshot DIR NEW.tar`"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkapy.errors import UserError
from kafkapy.snapshot import ARCHIVES, Snapshot, require_all, require_outside
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.snapshots.placing import placed
from kafkapy.storage.snapshots.stopped import copy_directory
from kafkapy.tools.snapshot.archive import write_archive

_OTHER_ARCHIVES: Final = {".zip", ".bz2", ".xz", ".zst", ".tbz2", ".txz", ".tzst", ".7z"}
"""The ends of names of archives that it does not write."""


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
def snapshot(directory: Path, new: Path) -> None:
    """Copy the data directory DIR of a stopped broker to NEW.

    The files of closed segments are shared on disk, and no broker of kafkapy writes to them again: it takes
    about as long for a gigabyte as for a byte. If NEW ends with .tar, .tar.gz or .tgz, it becomes an archive,
    for other machines and for kafkapy.Broker(snapshot=…). DIR may be such an archive: then NEW gets what is
    in it.
    """
    if new.exists():
        raise UserError(f"{new} exists: name a new one")
    if new.suffix in _OTHER_ARCHIVES:
        raise UserError(f"{new}: expected a directory, or a name with {', '.join(ARCHIVES)}")
    require_outside(new)
    if not new.absolute().parent.is_dir():
        raise UserError(f"{new.absolute().parent} does not exist: make it first")
    if directory.is_file():
        with Snapshot.at(directory) as unpacked:
            _copy(unpacked.path, new)
    else:
        _copy_directory(directory, new)
    click.echo(f"{new} has the data of {directory}. Start it with: kafkapy serve --data {_data(new)}")


def _copy_directory(directory: Path, new: Path) -> None:
    if not (directory / METADATA_FILE).is_file():
        raise UserError(
            f"{directory} has no {METADATA_FILE}: it is not the data directory of a broker of kafkapy that is"
            " alone. For one of Apache Kafka: kafkapy import"
        )
    files = FileSystem()
    lock = None
    try:
        if files.exists(f"{directory}/{LOCK_FILE}"):
            lock = files.lock(f"{directory}/{LOCK_FILE}")
        require_all(directory)
        _copy(directory, new)
    except BlockingIOError:
        raise UserError(
            f"{directory} is in use by a running broker: stop it, or copy it with kafkapy backup"
        ) from None
    finally:
        if lock is not None:
            lock.release()


def _copy(directory: Path, new: Path) -> None:
    try:
        with placed(new) as path:
            if new.name.endswith(ARCHIVES):
                write_archive(directory, path)
            else:
                path.mkdir()
                copy_directory(FileSystem(), str(directory), str(path))
    except OSError as error:
        raise UserError(f"{directory} cannot be copied to {new}: {error}") from error


def _data(new: Path) -> str:
    return f"DIR, after kafkapy snapshot {new} DIR" if new.name.endswith(ARCHIVES) else str(new)
