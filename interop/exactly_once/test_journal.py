"""Journals of several processes merge into one history.

It does not matter what they were doing when they were killed.
"""

from __future__ import annotations

from pathlib import Path

from interop.exactly_once.journal import SUFFIX, Journal, merged
from tests.promises.history import Acked, Event, Read, ReadFrom, Sent, Source, TransactionEnded

PLACE = ("topic", 0)
COPY = Sent("p", 1, PLACE, 7, transaction="p 0", source=Source("g", PLACE, 3))


def test_the_events_of_two_processes_are_in_the_order_of_their_moments(tmp_path: Path) -> None:
    one, other = (Journal(tmp_path / f"{name}{SUFFIX}") for name in ("one", "other"))
    events: list[Event] = [
        COPY,
        Acked("p", 1, 4),
        ReadFrom("r", PLACE, 0, True),
        Read("r", PLACE, 4, "p", 1, 7),
    ]
    one.append(*events[:1], at=1.0)
    other.append(*events[2:], at=3.0)
    one.append(*events[1:2], at=2.0)
    assert merged(tmp_path) == events


def test_a_line_that_a_killed_process_did_not_finish_is_not_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path / f"one{SUFFIX}")
    journal.append(COPY)
    journal.append(TransactionEnded("p 0", True))
    path = tmp_path / f"one{SUFFIX}"
    path.write_bytes(path.read_bytes()[:-5])
    assert merged(tmp_path) == [COPY]
