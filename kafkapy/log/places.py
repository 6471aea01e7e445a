"""Where data directories are: on this machine, or in an object store by fsspec."""

from __future__ import annotations

import os
import re
from typing import Final

from kafkapy.log.read_options import ReadOptions
from kafkapy.log.store_files import StoreFiles
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_AT_ONCE: Final = 8
"""The least number of threads that read from a store."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
_LAST_SLASHES: Final = re.compile(r"(?<!:)(?<!:/)/+$")
_LOGIN: Final = re.compile(r"://[^/@:]*:[^/@]+@")


def local_or_url(place: str) -> str:
    """Return a place as it is read.

    `file://` is a path of this machine, and URLs end without a slash.

    Raises:
        LogSourceError: it is a URL with a password, which messages would show.
    """
    if _LOGIN.search(place):
        raise LogSourceError(
            "The URL of a data directory has a password in it: leave it out; it is a storage option."
        )
    place = place.removeprefix("file://")
    return _LAST_SLASHES.sub("", place) if _URL.match(place) else place


def open_files(options: ReadOptions) -> ReadOnlyFiles:
    """Return the file operations for the places that the options name.

    Raises:
        LogSourceError: they are in different kinds of places, or fsspec or the store's package is missing.
    """
    urls = [path for path in options.paths if _URL.match(path)]
    if not urls:
        if options.storage_options:
            raise LogSourceError(
                f"Storage options are for URLs such as s3://bucket/dir, and {', '.join(options.paths)} is on "
                f"this machine: leave them out."
            )
        return ReadOnlyFiles()
    if len(urls) < len(options.paths):
        raise LogSourceError(
            f"{', '.join(options.paths)} are partly in a store and partly on this machine: read one after "
            f"the other."
        )
    return StoreFiles(urls, options.storage_options)


def readers_of(files: ReadOnlyFiles) -> int:
    """Return how many threads may well read at the same time."""
    cores = os.cpu_count() or 1
    return max(cores, _AT_ONCE) if isinstance(files, StoreFiles) else cores
