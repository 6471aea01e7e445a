"""The identity of log directories: to which broker they belong, and which belong together.

meta.properties names the cluster and the broker. If the disk of a directory is not mounted, or the directory
was left out of log.dirs, its logs must not be created again, empty. So if a broker has several directories,
each also names all of them:

    log.directory.ID=PATH    the directory.id, and the path at the last start

A broker alone keeps its metadata in a log directory; that of a cluster shares them with others, elsewhere. So
that nobody serves the logs of a cluster's broker alone by mistake, as topics of their own, they are marked:

    metadata.shared=true     the broker shared its metadata at the last start

Apache Kafka ignores keys that it does not know.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kafkapy.protocol.types import Uuid, random_uuid, uuid_from_text, uuid_to_text
from kafkapy.storage.disk.log_directory import LOCK_FILE, LogDirectory, LogDirectoryError, is_damaged_id

DIRECTORY_KEY: Final = "log.directory."
"""The prefix of the keys that name a broker's directories."""

SHARED_KEY: Final = "metadata.shared"
"""Marks the directories of a cluster's broker."""

_ON_AN_EMPTY_DISK: Final = {LOCK_FILE, "lost+found"}

logger = logging.getLogger(__name__)


class Identity(NamedTuple):
    """The cluster and the broker of log directories; None if the directories are new."""

    cluster_id: str | None
    node_id: int | None


def identity_of(directories: Iterable[LogDirectory]) -> Identity:
    """The identity that open directories state.

    Raises:
        LogDirectoryError: they belong to several brokers.
    """
    identity = Identity(None, None)
    for directory in directories:
        meta = directory.meta
        for found, other in ((meta.cluster_id, identity.cluster_id), (meta.node_id, identity.node_id)):
            if None not in (found, other) and found != other and not is_damaged_id(found, other):
                raise LogDirectoryError(
                    f"{directory.path} belongs to {found}, other log directories to {other}. Name only "
                    "directories of one broker in log.dirs."
                )
        identity = Identity(
            meta.cluster_id or identity.cluster_id,
            identity.node_id if meta.node_id is None else meta.node_id,
        )
    return identity


def mark_shared(directory: LogDirectory, *, shared: bool) -> None:
    """Let a directory say whether its broker shares its metadata.

    That is written when the directory is claimed.
    """
    others = {key: value for key, value in directory.meta.others.items() if key != SHARED_KEY}
    if shared:
        others[SHARED_KEY] = "true"
    if others != directory.meta.others:
        directory.meta = replace(directory.meta, others=others)


def require_not_shared(directories: Iterable[LogDirectory]) -> None:
    """See that a broker without metadata may make topics of the logs in its directories.

    Raises:
        LogDirectoryError: they are those of a cluster's broker.
    """
    marked = [directory for directory in _online(directories) if SHARED_KEY in directory.meta.others]
    if marked:
        meta = marked[0].meta
        raise LogDirectoryError(
            f"{marked[0].path} belongs to broker {meta.node_id} of cluster {meta.cluster_id}, which shares"
            " its metadata with others, and this broker is alone. Set zookeeper.connect. Or, to leave the"
            f" cluster and make topics of these logs, remove {SHARED_KEY} from meta.properties in"
            f" {' and '.join(directory.path for directory in marked)}."
        )


def are_empty(directories: Iterable[LogDirectory]) -> bool:
    """Whether nothing is in the log directories.

    They are new, or their disks are lost or not mounted.

    Raises:
        OSError: the disk failed.
    """
    return all(_is_empty(directory) for directory in _online(directories))


def find_missing(directories: Sequence[LogDirectory]) -> list[str]:
    """The paths of log directories that this broker had at its last start and that are missing.

    Each directory is made to name all of them, which is written when it is claimed. If a known directory is
    now empty and without meta.properties, it goes offline: its disk is probably not mounted.

    Raises:
        LogDirectoryError: a directory is the copy of another.
        OSError: the disk failed.
    """
    known: dict[Uuid, str] = {}
    for directory in _online(directories):
        known.update(_named_in(directory))
    for directory in _online(directories):
        _look_at_its_place(directory, known)
    present = _present(directories)
    absent = {each: path for each, path in known.items() if not any(_is(each, own) for own in present)}
    _name_all(directories, absent)
    offline = {directory.path for directory in directories if directory.error is not None}
    missing = {each: path for each, path in absent.items() if path not in offline}
    for directory_id, path in missing.items():
        logger.critical(
            "The log directory %s, which this broker had at its last start, is missing. What it holds answers"
            " KAFKA_STORAGE_ERROR. Mount it, name it in log.dirs and start again; or, to give up what is in"
            " it, stop the broker and remove %s%s from meta.properties in %s.",
            path,
            DIRECTORY_KEY,
            uuid_to_text(directory_id),
            " and ".join(present.values()),
        )
    return list(missing.values())


def _online(directories: Iterable[LogDirectory]) -> list[LogDirectory]:
    return [directory for directory in directories if directory.error is None]


def _named_in(directory: LogDirectory) -> dict[Uuid, str]:
    """The directories that `directory` names.

    Damaged entries are skipped.
    """
    named: dict[Uuid, str] = {}
    for key, path in directory.meta.others.items():
        if key.startswith(DIRECTORY_KEY):
            try:
                named[uuid_from_text(key.removeprefix(DIRECTORY_KEY))] = path
            except ValueError:
                logger.warning("%s of %s names no directory and is passed over.", key, directory.path)
    return named


def _is_empty(directory: LogDirectory) -> bool:
    return {entry.name for entry in directory.files.scan(directory.path)} <= _ON_AN_EMPTY_DISK


def _look_at_its_place(directory: LogDirectory, known: Mapping[Uuid, str]) -> None:
    if directory.meta.directory_id is not None:
        return
    for directory_id, path in known.items():
        if path == directory.path:
            if _is_empty(directory):
                what = (
                    "it is empty, and was not: is its disk mounted? If that was replaced, remove "
                    f"{DIRECTORY_KEY}{uuid_to_text(directory_id)} from meta.properties in the other "
                    "directories"
                )
                directory.failed("opening it", OSError(what))
            else:  # only its meta.properties was lost
                directory.meta = replace(directory.meta, directory_id=directory_id)
            return


def _present(directories: Iterable[LogDirectory]) -> dict[Uuid, str]:
    """The online directories by their ids.

    Raises:
        LogDirectoryError: a directory is the copy of another.
    """
    present: dict[Uuid, str] = {}
    for directory in _online(directories):
        other = present.setdefault(directory.meta.directory_id or b"", directory.path)
        if directory.meta.directory_id is not None and other != directory.path:
            raise LogDirectoryError(
                f"{directory.path} and {other} have the same directory.id: one is a copy of the other."
                " Name one of them in log.dirs."
            )
    return present


def _is(known: Uuid, own: Uuid) -> bool:
    return known == own or is_damaged_id(uuid_to_text(known), uuid_to_text(own))


def _name_all(directories: Sequence[LogDirectory], absent: Mapping[Uuid, str]) -> None:
    """Have each directory name all of them.

    The only directory of a broker names none.
    """
    named = dict(absent)
    if named or len(directories) > 1:
        for directory in _online(directories):
            directory_id = directory.meta.directory_id or random_uuid()
            directory.meta = replace(directory.meta, directory_id=directory_id)
            named[directory_id] = directory.path
    lines = {f"{DIRECTORY_KEY}{uuid_to_text(each)}": path for each, path in named.items()}
    for directory in _online(directories):
        others = {
            key: value for key, value in directory.meta.others.items() if not key.startswith(DIRECTORY_KEY)
        }
        directory.meta = replace(directory.meta, others={**others, **lines})
