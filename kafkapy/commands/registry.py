"""`kafkapy registry`: a schema registry for any Kafka cluster."""

from __future__ import annotations

import signal
import threading

import click

from kafkapy.commands.options import Session, connected
from kafkapy.errors import UserError

DEFAULT_ADDRESS = "127.0.0.1:8081"


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Port 0 takes a free one.",
)
@click.option("--topic", default="_schemas", show_default=True, help="The topic that keeps the schemas.")
@connected
def registry(session: Session, listen: str, topic: str) -> None:
    """Serve schemas by the REST interface of Confluent's Schema Registry.

    They are kept in a topic of the cluster, in the format of Confluent's registry and Karapace. Only one
    registry may use the topic at a time. It has no logins: let it listen where you trust all. It ends with
    SIGTERM or SIGINT.
    """
    from kafkapy.commands.connection.failures import quieten
    from kafkapy.registry.server import SchemaRegistry

    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise UserError(f"--listen {listen}: expected HOST:PORT")
    quieten()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    config = dict(session.config)
    servers = ",".join(config.pop("bootstrap_servers"))
    served = SchemaRegistry(servers, host=host.strip("[]"), port=int(port), topic=topic, client_config=config)
    with served as started:
        if session.output.format == "text":
            click.echo(f"Listening on {started.url}")
        else:
            session.output.item({"url": started.url})
        ended.wait()
