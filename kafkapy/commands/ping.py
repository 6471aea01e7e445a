"""`kafkapy ping`: whether brokers answer, and how fast."""

from __future__ import annotations

import time
from typing import Any

import click

from kafkapy.commands.options import Session, connected
from kafkapy.errors import UserError


@click.command()
@click.option(
    "--count", "-c", type=click.IntRange(min=1), default=3, show_default=True, help="Requests to each."
)
@connected
def ping(session: Session, count: int) -> None:
    """See whether all brokers of a cluster answer, and how fast.

    The first request of a broker includes its connection, with handshake and login. Exit status 1 if a broker
    does not answer.
    """
    rows = []
    for row in session.admin.advertised():
        try:
            first, *others = [_milliseconds(session, row["broker"]) for _ in range(count + 1)]
        except UserError as error:
            rows.append({**row, "result": "no answer", "error": str(error)})
            continue
        times = {"first_ms": first, "min_ms": min(others), "max_ms": max(others)}
        rows.append({**row, "result": "answers", **times, "error": None})
    session.results(rows, ("broker", "host", "result", "first_ms", "min_ms", "max_ms"))


def _milliseconds(session: Session, broker: int) -> float:
    from kafka.protocol.metadata import ApiVersionsRequest

    request: Any = ApiVersionsRequest(client_software_name="kafkapy", client_software_version="0")
    began = time.perf_counter()
    session.admin.send(request, broker)
    return round((time.perf_counter() - began) * 1000, 2)
