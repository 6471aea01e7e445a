"""Tables, JSON and YAML."""

from __future__ import annotations

import json

import pytest
import yaml

from kafkapy.commands.output import Output
from tests.commands.conftest import print_to_a_terminal

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
    print_to_a_terminal(monkeypatch)
    Output("text").rows([{"topic": "a\x1b[2Jb[red]"}], ("topic",))
    shown = capsys.readouterr().out
    assert "\x1b[1;36mtopic" in shown
    assert "a�[2Jb[red]" in shown
