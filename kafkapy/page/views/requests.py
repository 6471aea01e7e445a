"""Requests as they happen: what a live tap, `kafkapy trace --write`, has written of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.types import ZERO_UUID
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.facts import shown
from kafkapy.trace.lines import Filters
from kafkapy.trace.pieces import Pieces, Take
from kafkapy.trace.told import Told, told
from kafkapy.trace.topic_names import TopicNames

PATH: Final = "/requests"

_SHOWN: Final = 100
_SECONDS: Final = 2.0
"""A search ends after so long, and can be continued."""
_MOST_FRAME: Final = 2 * 1024 * 1024
_MOST_CHARS: Final = 256 * 1024
"""Of a request or an answer with all of its fields."""
_APIS: Final = sorted(api.name for api in API_SCHEMAS.values())


@dataclass(frozen=True)
class Row:
    """An exchange, or an event of a connection, as it is shown; `told` is None for an event."""

    position: int
    exchange: Exchange
    told: Told | None

    @property
    def sent(self) -> int:
        """Milliseconds since 1970."""
        return round(self.exchange.sent * 1000)


def view(call: Call) -> Answer:
    asked, pieces = _asked(call), _pieces(call)
    end = pieces.end()
    piece = pieces.before(call.number("pos", end), _taking(call, asked), _SHOWN, _SECONDS)
    return Answer(
        "requests.html",
        {
            "title": "Requests",
            "file": str(pieces.path),
            "asked": asked,
            "apis": _APIS,
            "rows": piece.found,
            "is_at_end": piece.is_at_end,
            "has_stopped": len(piece.found) < _SHOWN and not piece.is_at_end,
            "older": {**asked.values, "pos": piece.position},
            "live": {**asked.values, "pos": end},
        },
    )


def new(call: Call) -> Answer:
    """The requests since the last look: a piece of a page, and the position for the next look."""
    piece = _pieces(call).since(call.number("pos", 0), _taking(call, _asked(call)), _SHOWN, _SECONDS)
    return Answer(
        "requests_rows.html",
        {"rows": piece.found[::-1]},
        headers={"x-position": str(piece.position), "x-skipped": str(piece.left_out)},
    )


def one(call: Call) -> Answer:
    """All fields of a request and its answer."""
    position = int(call.path["position"])
    pieces = _pieces(call)
    exchange = pieces.at(position)
    if max(len(exchange.request), len(exchange.response or b"")) > _MOST_FRAME:
        raise UserError(f"it is too large to be shown: see kafkapy trace read {pieces.path} --full")
    row = _row(position, exchange, _names(call))
    assert row.told is not None
    request = answer = None
    if (header := exchange.header) is not None:
        request = _fields(exchange.request_message, header.api_version)
        if exchange.response is not None:
            answer = _fields(exchange.response_message, exchange.response_version)
    title = f"{row.told.api} v{row.told.version}"
    return Answer("request.html", {"title": title, "row": row, "request": request, "answer": answer})


@dataclass(frozen=True)
class _Asked:
    """What a view of requests asks for."""

    api: str
    client: str
    topic: str
    only_errors: bool

    @property
    def values(self) -> dict[str, str]:
        return {
            "api": self.api,
            "client": self.client,
            "topic": self.topic,
            "errors": "1" if self.only_errors else "",
        }

    @property
    def filters(self) -> Filters:
        return Filters(
            frozenset([self.api.lower()] if self.api else []),
            (self.client,) if self.client else (),
            (self.topic,) if self.topic else (),
            self.only_errors,
        )


def _asked(call: Call) -> _Asked:
    api = call.text("api")
    if api and api.lower() not in {name.lower() for name in _APIS}:
        raise UserError(f"Kafka has no API {api[:40]!r}: names are as in Fetch and JoinGroup")
    return _Asked(api, call.text("client"), call.text("topic"), call.text("errors") == "1")


def _pieces(call: Call) -> Pieces:
    pieces = call.sources.trace
    assert pieces is not None  # without any, the page has no such views
    return pieces


def _names(call: Call) -> TopicNames:
    """What the page knows of topics; a trace may be of another cluster, or of one that is away."""
    try:
        topics = call.sources.topics.metadata().topics.values()
    except UserError:
        return TopicNames()
    return TopicNames({topic.id: topic.name for topic in topics if topic.id != ZERO_UUID})


def _taking(call: Call, asked: _Asked) -> Take[Row]:
    """Makes rows of what is asked for."""
    filters, names = asked.filters, _names(call)

    def take(position: int, exchange: Exchange) -> Row | None:
        names.learn(exchange)
        return _row(position, exchange, names) if filters.fit(exchange, names) else None

    return take


def _row(position: int, exchange: Exchange, names: TopicNames) -> Row:
    return Row(position, exchange, told(exchange, names) if exchange.request else None)


def _fields(message: TopMessage | None, version: int) -> tuple[str, bool] | None:
    """All fields as JSON, and whether it is cut; None if the message cannot be read."""
    if message is None:
        return None
    text = json.dumps(shown(message, version), ensure_ascii=False, indent=2)
    return text[:_MOST_CHARS], len(text) > _MOST_CHARS
