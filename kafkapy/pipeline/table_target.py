"""The format and place of a table: `delta:lake/orders` or `iceberg:catalog.schema.orders`.

A location is a local path or a URI such as s3a://bucket/orders. A `file:` URI is a local path too. It says
that every machine of a cluster has this folder, by a shared mount, and that Hadoop's default file system is
not meant.

A name with dots and without a slash is that of a table in a catalog of Spark. The catalog decides where the
files are, and may tell no one before the table exists, nor let others write there. So the definition names a
folder for the state of the pipeline (`state`), which a table at a location has within itself. It may also
name the folder of the table's files (`files`), which the catalog is told when the table is created.
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
# At least CATALOG.SCHEMA.TABLE; a schema may have several parts.
_NAME: Final = r"[A-Za-z_][\w-]*"
_IN_A_CATALOG: Final = re.compile(rf"{_NAME}(\.{_NAME}){{2,}}")
_WITHOUT_A_CATALOG: Final = re.compile(rf"{_NAME}\.{_NAME}")


@dataclass(frozen=True, kw_only=True)
class TableTarget:
    """The format and place of a table.

    The location is an absolute local path or a URI. If `in_catalog`, it is the name of the table in a
    catalog, `state` is the location of the folder with the pipeline's state, and `files` that of the table's
    files if the catalog does not decide where they are.
    """

    format: str
    location: str
    in_catalog: bool = False
    state: str | None = None
    files: str | None = None

    def __post_init__(self) -> None:
        if self.format not in TABLE_FORMATS:
            raise PipelineError(
                f"table: unknown format {self.format!r}{did_you_mean(self.format, TABLE_FORMATS)}; "
                f"expected {', '.join(f'{one}:PATH' for one in TABLE_FORMATS)}"
            )
        if not self.location:
            raise PipelineError(f"table: no path in '{self.format}:'; for example {self.format}:lake/orders")
        if self.in_catalog and self.format == "parquet":
            raise PipelineError(
                f"table: {shown(str(self))}: a pipeline writes no Parquet tables of catalogs; write "
                f"delta:{self.location} or iceberg:{self.location}, or parquet:./{self.location} for a folder"
            )
        if self.in_catalog and not self.state:
            raise PipelineError(
                f"table: {shown(str(self))} is a table of a catalog, and the state of its pipeline needs a "
                f"folder: add state: with a path or URI, for example lake/_{self.parts[-1]}; or write "
                f"{self.format}:./{self.location} for a folder of that name"
            )
        if self.state and not self.in_catalog:
            raise PipelineError("state: a table at a path has its state in its own folder; leave it out")
        if self.files and not self.in_catalog:
            raise PipelineError("files: a table at a path has its files in its own folder; leave it out")
        if self.files and self.files.rstrip("/") == (self.state or "").rstrip("/"):
            raise PipelineError("files: is the folder of the state; name another one")

    @classmethod
    def parse(
        cls, text: str, folder: Path | None = None, state: str | None = None, files: str | None = None
    ) -> TableTarget:
        """Parses `delta:lake/orders`.

        Relative paths are resolved against `folder`, if it is given.
        """
        kind, separator, location = text.partition(":")
        if not separator or "/" in kind:
            raise PipelineError(
                f"table: {shown(text)} names no format; write delta:{text} (or iceberg:, parquet:)"
            )
        if is_in_a_catalog(location):
            place = None if state is None else absolute(state, folder)
            files = None if files is None else absolute(files, folder)
            return cls(format=kind, location=location, in_catalog=True, state=place, files=files)
        if _WITHOUT_A_CATALOG.fullmatch(location) and not ((folder or Path()) / location).is_dir():
            raise PipelineError(
                f"table: {shown(text)} is a name without a catalog; write {kind}:spark_catalog.{location}, "
                f"or {kind}:./{location} for a folder of that name"
            )
        return cls(format=kind, location=absolute(location, folder), state=state, files=files)

    @property
    def parts(self) -> list[str]:
        """The parts of the name in a catalog."""
        return self.location.split(".")

    @property
    def folder(self) -> str:
        """The location of the folder with the pipeline's state: the table's own, or `state`."""
        return self.state or self.location

    @property
    def local_path(self) -> Path | None:
        """The local path of `folder`; None for the URI of another store."""
        return local_path(self.folder)

    @property
    def scheme(self) -> str | None:
        """The scheme of the URI of `folder`; None for a local path."""
        return None if self.local_path is not None else self.folder.partition(":")[0]

    def check_reach(self, master: str, default_store: str | None = None) -> None:
        """Raises PipelineError if Spark's machines would not all mean the same folder.

        `default_store` is Hadoop's default file system, to which Spark resolves a path without a scheme.
        """
        path = self.local_path
        if path is None or self.folder.startswith("file:"):
            return
        where = f"state: {path.absolute()}" if self.in_catalog else str(self)
        before = "state: " if self.in_catalog else f"{self.format}:"
        mounted = f"{before}file://{path.absolute()}"
        if not master.startswith("local"):
            raise PipelineError(
                f"{where}: is a local folder, and Spark runs on {master}, where each machine has its own; "
                f"write to a store that all reach (s3a://, gs://, hdfs://), or {mounted} if all of them "
                "mount that folder"
            )
        if default_store is not None and not default_store.startswith("file:"):
            raise PipelineError(
                f"{where}: Spark would take this path for one in {default_store} (fs.defaultFS); "
                f"write {mounted}, or name a folder there"
            )

    def __str__(self) -> str:
        return f"{self.format}:{self.location}"


def is_in_a_catalog(location: str) -> bool:
    """Whether it is the name of a table in a catalog."""
    return _IN_A_CATALOG.fullmatch(location) is not None


def is_name_in_a_catalog(text: str) -> bool:
    """Whether a table of a catalog, within its schema, may have this name."""
    return re.fullmatch(_NAME, text) is not None


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
