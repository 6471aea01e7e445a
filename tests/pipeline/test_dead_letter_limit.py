"""How many dead letters a run may have, and what is said of more."""

from __future__ import annotations

import click
import pytest

from kafkapy.pipeline import PipelineDefinition
from kafkapy.pipeline.dead_letter_limit import DeadLetterLimit
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.stream_failures import explain


@pytest.mark.parametrize(
    ("text", "letters", "records", "before", "exceeded"),
    [
        ("0", 0, 10, 0, False),
        ("0", 1, 10, 0, True),
        ("5", 5, 5, 0, False),
        ("5", 6, 1_000, 0, True),
        ("5", 3, 1_000, 2, False),
        ("5", 3, 1_000, 3, True),
        ("5", 0, 1_000, 6, False),  # a batch without dead letters is written
        ("0%", 1, 1_000_000, 0, True),
        ("1%", 10, 1_000, 0, False),
        ("1%", 11, 1_000, 0, True),
        ("1%", 1, 3, 0, True),
        ("0.1%", 1, 1_000, 500, False),
        ("0.1 %", 2, 1_000, 0, True),
        ("29%", 29, 100, 0, False),
        ("100%", 7, 7, 0, False),
    ],
)
def test_a_number_is_of_a_run_and_a_share_is_of_a_batch(
    text: str, letters: int, records: int, before: int, exceeded: bool
) -> None:
    assert DeadLetterLimit.parse(text).exceeded(letters, records, before) is exceeded


def test_what_a_batch_has_too_many_of_ends_the_run_with_a_status_of_its_own() -> None:
    mapping = {"topic": "orders", "table": "delta:lake/orders", "dead_letter": "orders.dlq"}
    definition = PipelineDefinition.from_mapping(mapping)
    # A record's value that looks like a broker's absence does not start the query again.
    error = LimitError("orders: 5 of 9 records ... cannot reach a Kafka broker at x")
    failure = explain(error, definition)
    assert isinstance(failure.error, LimitError)
    assert not failure.passing
    assert failure.error.exit_status == 3


def test_the_command_line_ends_with_the_status_of_the_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkapy import cli

    @click.command(name="refuse")
    def refuse() -> None:
        raise LimitError("orders: too many")

    monkeypatch.setitem(cli.main.commands, "refuse", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main(["refuse"])
    assert ended.value.code == 3
    assert capsys.readouterr().err == "kafkapy: orders: too many\n"
