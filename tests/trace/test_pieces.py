"""Pieces of a long trace: from the end back, and what was added since."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkapy.errors import UserError
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.pieces import Piece, Pieces, Take
from kafkapy.trace.trace_file import TraceWriter


def exchange(number: int, client_id: str = "app") -> Exchange:
    request = encode_request(MetadataRequest(topics=None), 9, number, client_id)[4:]
    return Exchange(number, "127.0.0.1:1", "127.0.0.1:2", 1_700_000_000.0 + number, request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A trace of two runs, of 50 exchanges each."""
    path = tmp_path / "orders.trace"
    for _ in range(2):
        with TraceWriter(path) as writer:
            for number in range(1, 51):
                writer.write(exchange(number, "app" if number % 5 else "till"))
    return path


Found = Piece[tuple[int, Exchange]]


def taking(client_id: str = "") -> Take[tuple[int, Exchange]]:
    """Takes exchanges with their positions, or those of one client only."""

    def take(position: int, exchange: Exchange) -> tuple[int, Exchange] | None:
        fits = not client_id or (exchange.header is not None and exchange.header.client_id == client_id)
        return (position, exchange) if fits else None

    return take


def before(
    path: Path, position: int | None, most: int = 10, client_id: str = "", pieces: Pieces | None = None
) -> Found:
    pieces = pieces or Pieces(path)
    return pieces.before(pieces.end() if position is None else position, taking(client_id), most, 10)


def since(
    path: Path, position: int, most: int = 1000, client_id: str = "", pieces: Pieces | None = None
) -> Found:
    return (pieces or Pieces(path)).since(position, taking(client_id), most, 10)


def numbers(piece: Found) -> list[int]:
    return [each.connection for _, each in piece.found]


def test_the_last_come_first_and_then_those_before(path: Path) -> None:
    piece = before(path, None)
    assert numbers(piece) == list(range(50, 40, -1))
    found = numbers(piece)
    while not piece.is_at_end:
        piece = before(path, piece.position)
        found += numbers(piece)
    assert found == list(range(50, 0, -1)) * 2


def test_what_was_added_since_is_found(path: Path) -> None:
    end = since(path, 0).position
    assert end == path.stat().st_size
    assert since(path, end).found == []
    with TraceWriter(path) as writer:
        writer.write(exchange(7))
    piece = since(path, end)
    assert (numbers(piece), piece.is_at_end) == ([7], True)
    piece = since(path, 0, most=5)
    assert (numbers(piece), piece.left_out) == ([47, 48, 49, 50, 7], 96)


def test_a_line_that_is_being_written_comes_when_it_is_whole(path: Path) -> None:
    whole = path.read_bytes()
    end = len(whole)
    with path.open("ab") as file:
        file.write(b'{"connection": 9, "client": "a", "bro')
    assert numbers(before(path, None, 1)) == [50]
    assert since(path, end).position == end
    with path.open("ab") as file:
        file.write(b'ker": "b", "sent": 1, "request": "AAA="}\n')
    assert numbers(before(path, None, 1)) == numbers(since(path, end)) == [9]


def test_exchanges_are_chosen_in_both_directions(path: Path) -> None:
    assert numbers(before(path, None, 3, "till")) == [50, 45, 40]
    assert numbers(since(path, 0, client_id="till")) == list(range(5, 51, 5)) * 2


def test_an_exchange_is_found_by_its_position(path: Path) -> None:
    for position, wanted in before(path, None).found:
        assert Pieces(path).at(position).connection == wanted.connection
        for wrong in (position + 1, position - 1, path.stat().st_size + 5):
            with pytest.raises(UserError, match="has no request at"):
                Pieces(path).at(wrong)


def test_lines_of_any_length_are_found_from_both_ends(tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "lines.trace"
    small = Pieces(path, block=37, most_line=400)
    for seed in range(60):
        lines = [b'{"kafkapy_trace":1,"started":1}']
        for number in range(1, chance.randrange(2, 12)):
            pad = chance.choice((0, 1, 30, 37, 74, 380, 2000))
            lines.append(b'{"connection":%d,"client":"%s","broker":"","sent":1}' % (number, b"x" * pad))
        path.write_bytes(b"\n".join(lines) + b"\n")
        wanted = [n for n, line in enumerate(lines) if n and len(line) + 1 <= 400]
        assert numbers(since(path, 0, pieces=small)) == wanted, seed
        assert numbers(before(path, None, 1000, pieces=small))[::-1] == wanted, seed
        for position, each in since(path, 0, pieces=small).found:
            assert path.read_bytes()[position:].startswith(b'{"connection":%d' % each.connection)
        back = [position for position, _ in before(path, None, 1000, pieces=small).found]
        assert back[::-1] == [position for position, _ in since(path, 0, pieces=small).found]


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("something else\n")
    with pytest.raises(UserError, match="is no trace that `kafkapy trace --write` wrote"):
        before(other, None)
    with pytest.raises(UserError, match=r"No such file.*`kafkapy trace --write"):
        before(tmp_path / "missing", None)
    (tmp_path / "empty").write_bytes(b"")
    assert before(tmp_path / "empty", None) == Piece([], 0, is_at_end=True)
