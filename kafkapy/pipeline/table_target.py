"""The format and location of a table: `delta:lake/orders`.

A location is a local path or a URI such as s3a://bucket/orders. A `file:` URI is a local path too. It says
that every machine of a cluster has this folder, by a shared mount, and that Hadoop's default file system is
not meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkapy.pipeline.fields import shown
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

TABLE_FORMATS: Final = ("delta", "iceberg", "parquet")

_URI: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_IN_A_CATALOG: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")


@dataclass(frozen=True, kw_only=True)
class TableTarget:
    """The format and location of a table.

    The location is an absolute local path or a URI.
    """

    format: str
    location: str

    def __post_init__(self) -> None:
        if self.format not in TABLE_FORMATS:
            raise PipelineError(
                f"table: unknown format {self.format!r}{did_you_mean(self.format, TABLE_FORMATS)}; "
                f"expected {', '.join(f'{one}:PATH' for one in TABLE_FORMATS)}"
            )
        if not self.location:
            raise PipelineError(f"table: no path in '{self.format}:'; for example {self.format}:lake/orders")

    @classmethod
    def parse(cls, text: str, folder: Path | None = None) -> TableTarget:
        """Parses `delta:lake/orders`.

        A relative path is resolved against `folder`, if it is given.
        """
        kind, separator, location = text.partition(":")
        if not separator or "/" in kind:
            raise PipelineError(
                f"table: {shown(text)} names no format; write delta:{text} (or iceberg:, parquet:)"
            )
        if _IN_A_CATALOG.fullmatch(location) and not ((folder or Path()) / location).is_dir():
            raise PipelineError(
                f"table: {shown(text)} is the name of a table in a catalog, and tables are named by their "
                f"folders; write a path such as {kind}:lake/{location.rpartition('.')[2]}, or "
                f"{kind}:./{location} for a folder of that name"
            )
        return cls(format=kind, location=absolute(location, folder))

    @property
    def local_path(self) -> Path | None:
        """The local path; None for the URI of another store."""
        return local_path(self.location)

    @property
    def scheme(self) -> str | None:
        """The scheme of the location's URI; None for a local path."""
        return None if self.local_path is not None else self.location.partition(":")[0]

    def check_reach(self, master: str, default_store: str | None = None) -> None:
        """Raises PipelineError if Spark's machines would not all mean the same folder.

        `default_store` is Hadoop's default file system, to which Spark resolves a path without a scheme.
        """
        path = self.local_path
        if path is None or self.location.startswith("file:"):
            return
        mounted = f"{self.format}:file://{path.absolute()}"
        if not master.startswith("local"):
            raise PipelineError(
                f"{self}: is a local folder, and Spark runs on {master}, where each machine has its own; "
                f"write to a store that all reach (s3a://, gs://, hdfs://), or {mounted} if all of them "
                "mount that folder"
            )
        if default_store is not None and not default_store.startswith("file:"):
            raise PipelineError(
                f"{self}: Spark would take this path for one in {default_store} (fs.defaultFS); "
                f"write {mounted}, or name a folder there"
            )

    def __str__(self) -> str:
        return f"{self.format}:{self.location}"


def local_path(location: str) -> Path | None:
    """The local path of a path or a file: URI; None for the URI of another store."""
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None if _URI.match(location) else Path(location)


def absolute(location: str, folder: Path | None) -> str:
    """A relative local path joined to `folder`.

    Absolute paths and URIs are returned unchanged.
    """
    path = local_path(location)
    if path is None or folder is None or not location or location.startswith("file:"):
        return location
    return str((folder / path.expanduser()).absolute())
