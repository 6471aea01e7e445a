"""`kafkapy page`: a page that shows any Kafka cluster in a browser."""

from __future__ import annotations

import os
import signal
import threading

import click

from kafkapy.commands.options import Session, connected, registry_address, schema_registry_option
from kafkapy.errors import UserError

DEFAULT_ADDRESS = "127.0.0.1:8080"
TOKEN_VARIABLE = "KAFKAPY_PAGE_TOKEN"


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Port 0 takes a free one.",
)
@schema_registry_option
@click.option("--read-only", is_flag=True, help="Nothing can be changed by the page.")
@connected
def page(session: Session, listen: str, schema_registry: str | None, read_only: bool) -> None:
    """Show the cluster in a browser: topics, messages, groups, transactions, settings.

    What it may see and do are the rights of its own login (--command-config). With a login, or if it listens
    where other machines reach it, it asks for a token, which is in the address that it prints; the variable
    KAFKAPY_PAGE_TOKEN sets it. It ends with SIGTERM or SIGINT.
    """
    from kafkapy.commands.connection.failures import quieten
    from kafkapy.page.protection import is_local
    from kafkapy.page.server import Page

    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise UserError(f"--listen {listen}: expected HOST:PORT")
    host = host.strip("[]")
    quieten()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    config = dict(session.config)
    servers = ",".join(config.pop("bootstrap_servers"))
    if not is_local(host):
        session.output.note(
            f"Other machines reach {host}, and read what is sent: there is no TLS. Use a proxy that has it."
        )
    with Page(
        servers,
        host=host,
        port=int(port),
        token=os.environ.get(TOKEN_VARIABLE) or None,
        schema_registry=None if schema_registry is None else registry_address(schema_registry),
        read_only=read_only,
        client_config=config,
        timeout=session.timeout,
    ) as started:
        if session.output.format == "text":
            click.echo(f"Listening on {started.url}")
        else:
            session.output.item({"url": started.url})
        ended.wait()
