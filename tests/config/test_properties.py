"""Java's .properties syntax."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.properties import read_properties
from kafkapy.storage.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a=b=c", {"a": "b=c"}),
        ("# a=b\n! c=d\n\n  \t\n  e=f", {"e": "f"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n    c,\\\n\td", {"a": "b,c,d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        (r"a\=b\:c\ d=e", {"a=b:c d": "e"}),
        (r"a=\t\n\u00e9\q", {"a": "\t\n\u00e9q"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=b\\\n#c", {"a": "b#c"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_file_is_utf_8_or_else_latin_1(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.dirs=/daten/größe\n", encoding=encoding)
    assert read_properties(path) == {"log.dirs": "/daten/größe"}
