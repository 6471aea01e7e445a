"""The log directories of a broker name each other, so that a missing one is noticed.

This happens at a start. A directory whose disk is not mounted, or that was left out of log.dirs, holds logs
that must not be made again, empty. If a broker has several directories, each names all of them in its
meta.properties:

    log.directory.ID=PATH    the directory.id, and where it was at the last start

Apache Kafka passes over keys that it does not know.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kafkapy.protocol.types import Uuid, random_uuid, uuid_from_text, uuid_to_text
from kafkapy.storage.disk.log_directory import LOCK_FILE, LogDirectory, LogDirectoryError, has_rotted

DIRECTORY_KEY: Final = "log.directory."
"""The prefix of the keys that name them."""

_ON_AN_EMPTY_DISK: Final = {LOCK_FILE, "lost+found"}

logger = logging.getLogger(__name__)


class Siblings:
    """What the log directories that were opened know of each other."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        """Find out which are missing.

        A directory that is there, and empty, in place of one that is known, goes offline: it is where the
        disk of the known one is mounted.

        Raises:
            LogDirectoryError: a directory is the copy of another.
            OSError: the disk failed.
        """
        self._directories = directories
        known: dict[Uuid, str] = {}
        for directory in self._online:
            known.update(_named_in(directory))
        for directory in self._online:
            _look_at_its_place(directory, known)
        present: dict[Uuid, str] = {}
        for directory in self._online:
            other = present.setdefault(directory.meta.directory_id or b"", directory.path)
            if directory.meta.directory_id is not None and other != directory.path:
                raise LogDirectoryError(
                    f"{directory.path} and {other} have the same directory.id: one is a copy of the other."
                    " Name one of them in log.dirs."
                )
        offline = {directory.path for directory in directories if directory.error is not None}
        absent = {each: path for each, path in known.items() if not any(_is(each, own) for own in present)}
        self._offline = {each: path for each, path in absent.items() if path in offline}
        self._missing = {each: path for each, path in absent.items() if path not in offline}
        for directory_id, path in self._missing.items():
            logger.critical(
                "The log directory %s, which this broker had at its last start, is missing. What it holds"
                " answers KAFKA_STORAGE_ERROR. Mount it, name it in log.dirs and start again; or, to give up"
                " what is in it, stop the broker and remove %s%s from meta.properties in %s.",
                *(path, DIRECTORY_KEY, uuid_to_text(directory_id), " and ".join(present.values())),
            )

    @property
    def missing(self) -> list[str]:
        """Paths of directories that are not named, or not there."""
        return list(self._missing.values())

    @property
    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.error is None]

    def introduce(self) -> None:
        """Have each directory name all of them in what is written when it is claimed.

        A directory that is alone, and was, names nobody.
        """
        named = {**self._missing, **self._offline}
        if named or len(self._directories) > 1:
            for directory in self._online:
                directory_id = directory.meta.directory_id or random_uuid()
                directory.meta = replace(directory.meta, directory_id=directory_id)
                named[directory_id] = directory.path
        lines = {f"{DIRECTORY_KEY}{uuid_to_text(each)}": path for each, path in named.items()}
        for directory in self._online:
            others = {
                key: value
                for key, value in directory.meta.others.items()
                if not key.startswith(DIRECTORY_KEY)
            }
            directory.meta = replace(directory.meta, others={**others, **lines})


def _named_in(directory: LogDirectory) -> dict[Uuid, str]:
    """The directories that one names; damaged entries are passed over."""
    named: dict[Uuid, str] = {}
    for key, path in directory.meta.others.items():
        if key.startswith(DIRECTORY_KEY):
            try:
                named[uuid_from_text(key.removeprefix(DIRECTORY_KEY))] = path
            except ValueError:
                logger.warning("%s of %s names no directory and is passed over.", key, directory.path)
    return named


def _look_at_its_place(directory: LogDirectory, known: dict[Uuid, str]) -> None:
    if directory.meta.directory_id is not None:
        return
    for directory_id, path in known.items():
        if path == directory.path:
            if {entry.name for entry in directory.files.scan(path)} <= _ON_AN_EMPTY_DISK:
                what = (
                    "it is empty, and was not: is its disk mounted? If that was replaced, remove "
                    f"{DIRECTORY_KEY}{uuid_to_text(directory_id)} from meta.properties in the other "
                    "directories"
                )
                directory.failed("opening it", OSError(what))
            else:  # its meta.properties is lost
                directory.meta = replace(directory.meta, directory_id=directory_id)
            return


def _is(known: Uuid, own: Uuid) -> bool:
    return known == own or has_rotted(uuid_to_text(known), uuid_to_text(own))
