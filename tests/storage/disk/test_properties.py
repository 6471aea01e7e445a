"""Java's .properties text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.storage.disk.properties import format_properties, parse_properties

TEXTS = [
    ("a=b", {"a": "b"}),
    ("a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("  a = b ", {"a": "b "}),
    ("a", {"a": ""}),
    ("a==b", {"a": "=b"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\ b=c", {"a b": "c"}),
    ("#a=b\n!c=d\n\n \t\ne=f", {"e": "f"}),
    ("a=b\\\n   c", {"a": "bc"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a=1\r\na=2\rb=3", {"a": "2", "b": "3"}),
    ("a=\\u00e9\\t\\z", {"a": "é\tz"}),
    ("a=b\\", {"a": "b"}),
    ("a=b\\\n#c", {"a": "b#c"}),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_malformed_unicode_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match="uXXXX"):
        parse_properties("a=\\u12g4")


def test_text_is_written_as_java_writes_it() -> None:
    text = format_properties({"version": "0", "cluster.id": "a=b c", "b": " x"}, comment="", seconds=1)
    assert text == "#\n#Thu Jan 01 00:00:01 UTC 1970\nb=\\ x\ncluster.id=a\\=b c\nversion=0\n"


@given(st.dictionaries(st.text(), st.text()))
def test_what_was_written_is_read_back(entries: dict[str, str]) -> None:
    assert parse_properties(format_properties(entries, comment="", seconds=0)) == entries
