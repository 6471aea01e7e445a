"""A backup: which files a data directory had at one moment.

It is JSON. Times are in milliseconds since 1970; `closed` names what a file was on the broker's disk (inode,
time of change in nanoseconds), if nobody writes to it again: the next backup of the same disk knows by it
that the content is the same, without a look into the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kafkapy.tools.backup.store import FILES, BackupError, Store

BACKUPS: Final = "backups"
_FORMAT: Final = 1
SUFFIX: Final = ".json"
_TEMPORARY: Final = r"\.tmp-[0-9a-f]+"
"""The end of a file's name in a folder until all of it is there."""
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_UNFINISHED: Final = re.compile(_MOMENT.pattern + re.escape(SUFFIX) + _TEMPORARY, re.ASCII)
_SHA256: Final = re.compile("[0-9a-f]{64}")
_CONTENT: Final = re.compile(rf"{FILES}/([0-9a-f]{{2}})/\1[0-9a-f]{{62}}(?:{_TEMPORARY})?")


class SavedFile(NamedTuple):
    """A file of a data directory."""

    size: int
    sha256: str
    closed: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A backup."""

    at_ms: int
    directories: tuple[str, ...]
    files: Mapping[str, SavedFile] = field(default_factory=dict)
    cluster_id: str | None = None

    @property
    def name(self) -> str:
        return f"{BACKUPS}/{moment(self.at_ms)}{SUFFIX}"

    def encoded(self) -> bytes:
        return json.dumps(
            {
                "format": _FORMAT,
                "at_ms": self.at_ms,
                "cluster_id": self.cluster_id,
                "directories": self.directories,
                "files": {name: each._asdict() for name, each in self.files.items()},
            },
            indent=1,
        ).encode()


def is_within(name: str) -> bool:
    """Whether a name is that of a file within a data directory: others may write to the store."""
    return not name.startswith("/") and not {"", ".", ".."} & set(name.split("/"))


def content_name(sha256: str) -> str:
    """The name of a content in the store."""
    return f"{FILES}/{sha256[:2]}/{sha256}"


def is_content(name: str) -> bool:
    """Whether a name in the store is that of a content, or of one that was not brought in full."""
    return _CONTENT.fullmatch(name) is not None


def moment(at_ms: int) -> str:
    """A time as backups are named by it."""
    time = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def names_of(store: Store) -> list[str]:
    """The moments of the backups in a store, oldest first; files of others do not count."""
    found = (each.removesuffix(SUFFIX) for each in store.names(BACKUPS) if each.endswith(SUFFIX))
    return [each for each in found if _MOMENT.fullmatch(each)]


def unfinished(store: Store) -> list[str]:
    """The names in the store of backups that were not written in full."""
    return [f"{BACKUPS}/{each}" for each in store.names(BACKUPS) if _UNFINISHED.fullmatch(each)]


def read_manifest(store: Store, name: str) -> Manifest:
    """The backup of a moment.

    Raises:
        BackupError: it is damaged, or of a later release.
    """
    path = f"{BACKUPS}/{name}{SUFFIX}"
    try:
        found = json.loads(store.read(path))
        if found["format"] != _FORMAT:
            raise BackupError(f"{path} has format {found['format']}: use the release that wrote it")
        files = {
            each: SavedFile(
                saved["size"], saved["sha256"], None if saved["closed"] is None else tuple(saved["closed"])
            )
            for each, saved in found["files"].items()
        }
        for each in (*found["directories"], *files):
            if not is_within(each):
                raise ValueError(f"{each} is outside of the data directory")
        for each in files.values():
            if not _SHA256.fullmatch(each.sha256):
                raise ValueError(f"{each.sha256} is no hash")
        if moment(found["at_ms"]) != name:
            raise ValueError(f"its moment is {found['at_ms']}")
        return Manifest(found["at_ms"], tuple(found["directories"]), files, found.get("cluster_id"))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BackupError(
            f"{path} is damaged: {error!r}. Use another backup (--at), or remove this file, which"
            " gives this backup up."
        ) from None
