"""`kafkapy page`: a page that shows any Kafka cluster in a browser."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kafkapy.commands.options import Session, connected, registry_address, schema_registry_option
from kafkapy.commands.serving import listen_option, parse_listen, serve
from kafkapy.remote.address import FAULTS_VARIABLE

DEFAULT_ADDRESS = "127.0.0.1:8080"
TOKEN_VARIABLE = "KAFKAPY_PAGE_TOKEN"


@click.command()
@listen_option(DEFAULT_ADDRESS)
@schema_registry_option
@click.option(
    "--faults",
    envvar=FAULTS_VARIABLE,
    metavar="URL",
    help=f"Where `kafkapy run` serves faults; by default ${FAULTS_VARIABLE}.",
)
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Show the requests that `kafkapy trace --write FILE` writes.",
)
@click.option(
    "--pipeline",
    "pipelines",
    metavar="PIPELINE",
    multiple=True,
    help="Show the pipelines of a YAML file, or the one of a table.",
)
@click.option("--login", is_flag=True, help="Each user logs in with a name and a password of the broker's.")
@click.option("--read-only", is_flag=True, help="Nothing can be changed by the page.")
@connected
def page(
    session: Session,
    listen: str,
    schema_registry: str | None,
    faults: str | None,
    trace: Path | None,
    pipelines: tuple[str, ...],
    login: bool,
    read_only: bool,
) -> None:
    """Show the cluster in a browser: topics, messages, groups, transactions, settings.

    What it may see and do are the rights of its own login (--command-config). With a login, or if it listens
    where other machines reach it, it asks for a token, which is in the address that it prints; the variable
    KAFKAPY_PAGE_TOKEN sets it. With --login, users have their own rights, and --command-config has no user.
    It ends with SIGTERM or SIGINT.
    """
    from kafkapy.commands.connection.client_config import client_config
    from kafkapy.page.protection import is_local
    from kafkapy.page.server import Page

    host, port = parse_listen(listen)
    config = client_config(session.properties, without_user=True) if login else dict(session.config)
    servers = ",".join(config.pop("bootstrap_servers"))
    if not is_local(host):
        session.output.note(
            f"Other machines reach {host}, and read what is sent: there is no TLS. Use a proxy that has it."
        )
    served = Page(
        servers,
        host=host,
        port=port,
        token=os.environ.get(TOKEN_VARIABLE) or None,
        schema_registry=None if schema_registry is None else registry_address(schema_registry),
        faults=faults,
        trace=trace,
        pipelines=pipelines,
        read_only=read_only,
        login=login,
        client_config=config,
        timeout=session.timeout,
    )
    serve(session, served)
