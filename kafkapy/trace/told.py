"""What is told of an exchange in a line, in its parts; all of it can be printed."""

from __future__ import annotations

from dataclasses import dataclass

from kafkapy.logs.text import shortened
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.facts import errors_of, keys_of, printable, topics_text
from kafkapy.trace.topic_names import TopicNames


@dataclass(frozen=True)
class Told:
    """An exchange: its client, its API, and what both messages are about; sizes are bytes."""

    client_id: str
    """Empty if the request has none, or cannot be read."""
    api: str
    version: int
    request: str
    answer: str
    request_size: int
    answer_size: int | None
    milliseconds: float | None
    errors: tuple[str, ...]
    note: str


def told(exchange: Exchange, names: TopicNames) -> Told:
    """What is told of an exchange with a request."""
    request, response, header = exchange.request_message, exchange.response_message, exchange.header
    words: list[str] = []
    if request is not None:
        words += [f"{name}={value}" for name, value in keys_of(request).items()]
        words += filter(None, [topics_text(request, names)])
    errors = {} if response is None else errors_of(response)
    return Told(
        client_id=printable(shortened(header.client_id)) if header and header.client_id else "",
        api=exchange.api,
        version=int.from_bytes(exchange.request[2:4], "big", signed=True),
        request=" ".join(words),
        answer=topics_text(response, names) if response is not None else "",
        request_size=len(exchange.request),
        answer_size=None if exchange.response is None else len(exchange.response),
        milliseconds=exchange.milliseconds,
        errors=tuple(f"{count} x {name}" if count > 1 else name for name, count in errors.items()),
        note=printable(exchange.note),
    )
