"""What commands that serve HTTP share: where they listen, and that a signal ends them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

import click

from kafkapy.commands.options import Session
from kafkapy.errors import UserError
from kafkapy.serving.served import Served

F = TypeVar("F", bound=Callable[..., object])


def listen_option(default: str) -> Callable[[F], F]:
    """The option --listen."""
    return click.option(
        "--listen", metavar="HOST:PORT", default=default, show_default=True, help="Port 0 takes a free one."
    )


def parse_listen(listen: str) -> tuple[str, int]:
    """The host and the port of --listen; raises UserError."""
    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise UserError(f"--listen {listen}: expected HOST:PORT")
    return host.strip("[]"), int(port)


def serve(session: Session, served: Served) -> None:
    """Serve, and tell the address, until SIGTERM or SIGINT."""
    from kafkapy.commands.connection.failures import quieten

    quieten()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with served as started:
        if session.output.format == "text":
            click.echo(f"Listening on {started.url}")
        else:
            session.output.item({"url": started.url})
        ended.wait()
