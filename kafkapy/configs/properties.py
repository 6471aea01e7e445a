"""server.properties: a file in Java's .properties syntax (storage/disk/properties.py)."""

from __future__ import annotations

from pathlib import Path

from kafkapy.storage.disk.properties import parse_properties


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file: UTF-8, or Latin-1 (Java's own) where it is not UTF-8.

    Raises:
        OSError: the file cannot be read.
        ValueError: a malformed \\uXXXX escape.
    """
    data = path.read_bytes()
    try:
        return parse_properties(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return parse_properties(data.decode("latin-1"))
