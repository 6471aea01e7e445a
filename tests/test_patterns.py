"""Regular expressions from clients: RE2's syntax, and bounded time."""

from __future__ import annotations

import time

import pytest

from kafkapy.patterns import PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("orders-.*", ["orders-", "orders-12"], ["orders", "my-orders-1"]),
        (r"[a-z]+-\d{2}", ["ab-12"], ["ab-1", "ab-123", "AB-12"]),
        ("(?i)a|b", ["A", "b"], ["ab"]),
        (r"\pL+", ["é", "ab"], ["1", ""]),
        ("[[:alpha:]]", ["a"], ["1"]),
    ],
)
def test_a_pattern_matches_whole_texts(pattern: str, matched: list[str], not_matched: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert all(map(compiled.fullmatch, matched))
    assert not any(map(compiled.fullmatch, not_matched))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        (r"(?=a)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        ("((a{100}){100}){100}", ""),
    ],
)
def test_what_re2_does_not_know_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value).startswith(why)


def test_no_pattern_takes_exponential_time() -> None:
    begin = time.thread_time()
    assert not compile_pattern("(a*)*b").fullmatch("a" * 30_000)
    assert time.thread_time() - begin < 5, "Python's re would take for ever"
