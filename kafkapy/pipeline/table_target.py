"""The format and location of a table: `delta:lake/orders`.

A location is a local path or a URI such as s3a://bucket/orders.
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
        return cls(format=kind, location=absolute(location, folder))

    @property
    def local_path(self) -> Path | None:
        """The local path; None for the URI of another store."""
        return local_path(self.location)

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
    if path is None or folder is None or not location:
        return location
    return str((folder / path.expanduser()).absolute())
