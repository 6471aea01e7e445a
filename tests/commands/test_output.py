"""Tables, JSON and YAML."""

from __future__ import annotations

import json

import pytest
import yaml

from kafkapy.commands.output import Output, aligned
from tests.terminals import in_a_terminal

ROWS: list[dict[str, object]] = [
    {"topic": "orders", "lag": 12, "more": True},
    {"topic": "a", "lag": None, "more": False},
]


def test_text_is_aligned_with_numbers_at_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").rows(ROWS, ("topic", "lag"))
    assert capsys.readouterr().out == "TOPIC   LAG\norders   12\na         -\n"


def test_json_and_yaml_have_all_values_in_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").rows(ROWS, ("topic",))
    assert json.loads(capsys.readouterr().out) == ROWS
    Output("yaml").rows(ROWS, ("topic",))
    assert yaml.safe_load(capsys.readouterr().out) == ROWS


def test_no_rows_are_an_empty_document_and_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").rows([], ("topic",))
    assert json.loads(capsys.readouterr().out) == []
    Output("text").rows([], ("topic",), empty="there are no topics.")
    assert tuple(capsys.readouterr()) == ("", "there are no topics.\n")


def test_a_terminal_gets_a_table_in_colour_and_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(monkeypatch)
    Output("text").rows([{"topic": "a\x1b[2Jb[red]"}], ("topic",))
    shown = capsys.readouterr().out
    assert "\x1b[1;36mtopic" in shown
    assert "a�[2Jb[red]" in shown


@pytest.mark.parametrize("is_terminal", [True, False])
def test_records_of_anybody_are_written_in_each_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    if is_terminal:
        in_a_terminal(monkeypatch)
    row = {"value": {"half": "\ud800", "steers": "\x9b2J"}, "nested": json.loads("[" * 400 + "]" * 400)}
    Output("text").line(row, "half \ud800")
    Output("json").line(row, "")
    Output("yaml").line(row, "")
    text, document, listed = capsys.readouterr().out.splitlines()
    assert text in ("half ?", "half �")
    assert json.loads(document) == row
    assert listed.startswith('[{"value": {"half": "\\ud800", "steers": ')
    assert "\x9b" not in document


def test_what_others_wrote_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Output("text").line({}, "a\tb\x07\nc")
    assert capsys.readouterr().out == "a\tb\x07\nc\n"  # to a file as it is
    for line in aligned([{"group": "g\x1b[2J\nforged"}], ("group",)):
        assert line.isprintable()
    in_a_terminal(monkeypatch)
    Output("text").line({}, "a\tb\x07\x1b[2J\nc")
    assert capsys.readouterr().out == "a\tb��[2J\nc\n"
