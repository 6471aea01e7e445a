"""A data directory as an archive, which any tar unpacks.

Names are those in the data directory, and sparse files (the indexes of a broker that was killed) are as long
as they are on disk.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.stopped import parts_of


def write_archive(directory: Path, new: Path) -> None:
    """Write a data directory to an archive.

    It is compressed if its name does not end with `.tar`.

    Raises:
        OSError: the disk failed, or is full.
    """
    with tarfile.open(new, "x:" if new.suffix == ".tar" else "x:gz", format=tarfile.PAX_FORMAT) as tar:
        for part in parts_of(FileSystem(), str(directory)):
            tar.add(directory / part.name, arcname=part.name, recursive=False, filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who owns it: it is for other machines."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
