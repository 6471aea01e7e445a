"""Exchanges as lines for people: filtered, and in colour on terminals.

12:00:00.123 #1 app Produce v9 acks=-1 orders-0 (3 records) -> orders-0@5 310 B, 60 B 1.2 ms
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import click

from kafkapy.protocol.message import TopMessage
from kafkapy.trace.exchange import CLOSED, CONNECTED, Exchange
from kafkapy.trace.facts import errors_of, printable, shown, topics_of
from kafkapy.trace.told import told
from kafkapy.trace.topic_names import TopicNames


@dataclass(frozen=True)
class Filters:
    """Which exchanges are shown: those that fit every filter that has values.

    APIs by name in any case; client ids and topics by name, or by patterns with `*`.
    """

    apis: frozenset[str] = frozenset()
    client_ids: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    only_errors: bool = False

    def fit(self, exchange: Exchange, names: TopicNames) -> bool:
        """Whether the exchange is shown; of events, all if there is no filter, else failures."""
        if not exchange.request:
            return self == Filters() or exchange.note not in (CONNECTED, CLOSED)
        if self.apis and exchange.api.lower() not in self.apis:
            return False
        header = exchange.header
        if self.client_ids and not _fits(header.client_id if header else "", self.client_ids):
            return False
        request, response = exchange.request_message, exchange.response_message
        if self.topics:
            named = [name for message in (request, response) if message for name in topics_of(message, names)]
            if not any(_fits(name, self.topics) for name in named):
                return False
        return not self.only_errors or bool(exchange.note or (response and errors_of(response)))


def _fits(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Lines:
    """Prints exchanges; with `full`, every field of both messages too."""

    def __init__(self, filters: Filters, *, full: bool, write: Callable[[str], Any] | None = None) -> None:
        self._filters, self._full = filters, full
        self._names = TopicNames()
        self._write = write or _to_standard_output()

    def show(self, exchange: Exchange) -> None:
        """Print an exchange, if the filters let it pass."""
        self._names.learn(exchange)
        if self._filters.fit(exchange, self._names):
            self._write(self._text(exchange))

    def _text(self, exchange: Exchange) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(exchange.sent))
        start = click.style(f"{moment}.{int(exchange.sent % 1 * 1000):03d} #{exchange.connection}", dim=True)
        if not exchange.request:
            return f"{start} {exchange.client} {exchange.broker}: {exchange.note}\n"
        about = told(exchange, self._names)
        words = [start, about.client_id or "-"]
        words.append(click.style(f"{about.api} v{about.version}", fg="cyan", bold=True))
        words += filter(None, [about.request])
        if about.answer:
            words += ["->", about.answer]
        sizes = f"{about.request_size} B"
        if about.answer_size is not None:
            sizes += f", {about.answer_size} B"
        words.append(sizes)
        if about.milliseconds is not None:
            words.append(f"{about.milliseconds:.1f} ms")
        words += [click.style(text, fg="red") for text in about.errors]
        if about.note:
            words.append(click.style(f"({about.note})", fg="yellow"))
        lines = [" ".join(words)]
        if self._full and exchange.header is not None:
            lines += _fields("request", exchange.request_message, exchange.header.api_version)
            lines += _fields("answer", exchange.response_message, exchange.response_version)
        return "\n".join(lines) + "\n"


def _fields(name: str, message: TopMessage | None, version: int) -> list[str]:
    if message is None:
        return []
    return [f"    {name} {printable(json.dumps(shown(message, version), ensure_ascii=False))}"]


def _to_standard_output() -> Callable[[str], Any]:
    """Writes whole lines at once; what is no terminal gets no colours."""
    has_colours = sys.stdout.isatty()

    def write(text: str) -> None:
        click.echo(text, nl=False, color=has_colours)

    return write
