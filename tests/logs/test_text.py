"""Text from clients takes no more room in the log than it needs."""

from __future__ import annotations

from kafkapy.logs.text import CHARACTERS, NAMES, listed, shortened


def test_a_long_text_shows_its_beginning_and_its_length() -> None:
    assert shortened("short") == "short"
    assert shortened("x" * CHARACTERS) == "x" * CHARACTERS
    assert shortened("x" * 40_000) == "x" * CHARACTERS + "… (40000 characters)"


def test_of_many_names_the_first_are_shown() -> None:
    assert listed(["a", "b"]) == "a, b"
    names = [f"n{number}" for number in range(NAMES + 5)]
    assert listed(names) == ", ".join(names[:NAMES]) + " and 5 more"
