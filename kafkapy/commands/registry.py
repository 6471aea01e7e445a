"""`kafkapy registry`: a schema registry for any Kafka cluster."""

from __future__ import annotations

import click

from kafkapy.commands.options import Session, connected
from kafkapy.commands.serving import listen_option, parse_listen, serve

DEFAULT_ADDRESS = "127.0.0.1:8081"


@click.command()
@listen_option(DEFAULT_ADDRESS)
@click.option("--topic", default="_schemas", show_default=True, help="The topic that keeps the schemas.")
@connected
def registry(session: Session, listen: str, topic: str) -> None:
    """Serve schemas by the REST interface of Confluent's Schema Registry.

    They are kept in a topic of the cluster, in the format of Confluent's registry and Karapace. Only one
    registry may use the topic at a time. It has no logins: let it listen where you trust all. It ends with
    SIGTERM or SIGINT.
    """
    from kafkapy.registry.server import SchemaRegistry

    host, port = parse_listen(listen)
    config = dict(session.config)
    servers = ",".join(config.pop("bootstrap_servers"))
    serve(session, SchemaRegistry(servers, host=host, port=port, topic=topic, client_config=config))
