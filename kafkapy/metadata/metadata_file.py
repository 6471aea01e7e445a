"""Finds the metadata of a broker that is alone.

It is metadata.db, in one of its log directories.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.log_directory import LogDirectoryError


def metadata_file(log_dirs: Sequence[Path], offline_dirs: Sequence[Path]) -> Path:
    """The metadata.db in one of the log directories; a new one in the first.

    Raises:
        LogDirectoryError: there are several, or the only one may be in a directory that is offline.
    """
    found = _files(log_dirs)
    if len(found) > 1:
        raise LogDirectoryError(
            f"{found[0]} and {found[1]} are metadata of two brokers, or of two times. Name only"
            " directories of one broker in log.dirs, or move away the one that is out of date."
        )
    if not found and offline_dirs:
        raise LogDirectoryError(
            f"The log directory {offline_dirs[0]} is offline or missing, and probably the"
            f" metadata with it: there is no {METADATA_FILE} in the others. Mount it, name it in log.dirs."
        )
    return found[0] if found else log_dirs[0] / METADATA_FILE


def require_no_metadata(log_dirs: Sequence[Path]) -> None:
    """Raise LogDirectoryError if a log directory has metadata of its own: its broker was alone."""
    for file in _files(log_dirs):
        raise LogDirectoryError(
            f"{file.parent} has metadata of its own ({METADATA_FILE}), and this broker takes those of"
            " zookeeper.connect. Choose another directory, or write the metadata to ZooKeeper first"
            " (kafkapy export)."
        )


def _files(log_dirs: Sequence[Path]) -> list[Path]:
    return [path / METADATA_FILE for path in log_dirs if (path / METADATA_FILE).exists()]
