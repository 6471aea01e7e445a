"""`kafkapy context`: named clusters, in a file of the user."""

from __future__ import annotations

from pathlib import Path

import click

from kafkapy.commands.connection.client_config import check_properties
from kafkapy.commands.connection.contexts import COMMAND_CONFIG, Contexts
from kafkapy.commands.connection.references import PROMPT, has_secret, require_no_secret
from kafkapy.commands.connection.target import BOOTSTRAP_SERVERS, properties_of
from kafkapy.commands.options import names_of_contexts, settings
from kafkapy.commands.output import FORMATS, Output
from kafkapy.errors import UserError

_format = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Of the output.",
)


@click.group()
def context() -> None:
    """Name clusters, so that commands need no options to reach them.

    A context has the servers and client properties of a cluster. The one that is in use is for all commands,
    unless they have --context or --bootstrap-server.
    """


@context.command("set")
@click.argument("name")
@click.option("--bootstrap-server", metavar="HOST:PORT", help="The cluster, by one or more brokers.")
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of client properties, which is read at each use.",
)
@click.option("--security-protocol", metavar="PROTOCOL", help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")
@click.option("--sasl-mechanism", metavar="MECHANISM", help="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, …")
@click.option("--username", help="The user of the login; without a password, each command asks for it.")
@click.option("--password-file", metavar="FILE", type=click.Path(path_type=Path), help="Has the password.")
@click.option("--password-env", metavar="NAME", help="The environment variable with the password.")
@click.option("--ca-file", metavar="FILE", type=click.Path(path_type=Path), help="PEM file of authorities.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, help="Another client property.")
def set_(
    name: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    security_protocol: str | None,
    sasl_mechanism: str | None,
    username: str | None,
    password_file: Path | None,
    password_env: str | None,
    ca_file: Path | None,
    properties: tuple[str, ...],
) -> None:
    """Make a context, or change what is given of one.

    The first one is in use at once. No option takes a password: others can read arguments.
    """
    if password_file and password_env:
        raise UserError("--password-file and --password-env are given: give one of them")
    given = settings(properties, "--property")
    for key, value in given.items():
        require_no_secret("--property", key, value)
    password = None
    if password_file:
        password = f"${{file:{password_file.expanduser().absolute()}}}"
    elif password_env:
        password = f"${{{password_env}}}"
    elif username:
        password = PROMPT
    options = {
        BOOTSTRAP_SERVERS: bootstrap_server,
        COMMAND_CONFIG: str(command_config.absolute()) if command_config else None,
        "security.protocol": security_protocol,
        "sasl.mechanism": sasl_mechanism,
        "sasl.username": username,
        "sasl.password": password,
        "ssl.truststore.location": str(ca_file.expanduser().absolute()) if ca_file else None,
    }
    given = {**{key: value for key, value in options.items() if value is not None}, **given}
    contexts = Contexts()
    changed = {**contexts.contexts.get(name, {}), **given}
    if BOOTSTRAP_SERVERS not in changed and COMMAND_CONFIG not in changed:
        raise UserError(f"context {name} has no cluster: give --bootstrap-server HOST:PORT")
    _check(changed)
    contexts.contexts[name] = changed
    contexts.current = contexts.current or name
    contexts.save()
    click.echo(f"context {name} is set{', and in use' if contexts.current == name else ''}.", err=True)


@context.command()
@click.argument("name", shell_complete=names_of_contexts)
def use(name: str) -> None:
    """Use a context for the commands from now on."""
    contexts = Contexts()
    contexts.get(name)
    contexts.current = name
    contexts.save()
    click.echo(f"context {name} is in use.", err=True)


@context.command("list")
@_format
def list_(format_: str) -> None:
    """List contexts."""
    contexts = Contexts()
    rows = [
        {
            "context": name,
            "current": name == contexts.current,
            "bootstrap_server": properties.get(BOOTSTRAP_SERVERS),
            "security_protocol": properties.get("security.protocol"),
            "user": properties.get("sasl.username"),
        }
        for name, properties in sorted(contexts.contexts.items())
    ]
    columns = ("context", "current", "bootstrap_server", "security_protocol", "user")
    Output(format_).rows(rows, columns, empty="there are no contexts; kafkapy context set makes one.")


@context.command()
@click.argument("name", shell_complete=names_of_contexts, required=False)
@_format
def show(name: str | None, format_: str) -> None:
    """Show the properties of a context, or of the one in use; never a secret."""
    contexts = Contexts()
    name = name or contexts.current
    if name is None:
        raise UserError("no context is in use; kafkapy context set makes one")
    Output(format_).item(
        {
            "context": name,
            **{
                key: "(hidden)" if has_secret(key, value) else value
                for key, value in contexts.get(name).items()
            },
        }
    )


@context.command()
@click.argument("name", shell_complete=names_of_contexts)
def delete(name: str) -> None:
    """Delete a context."""
    contexts = Contexts()
    contexts.get(name)
    del contexts.contexts[name]
    if contexts.current == name:
        contexts.current = None
    contexts.save()
    click.echo(f"context {name} is deleted.", err=True)


def _check(properties: dict[str, str]) -> None:
    """Raises UserError for properties that cannot be right; secrets are not read."""
    known = properties_of(Path(properties[COMMAND_CONFIG])) if COMMAND_CONFIG in properties else {}
    check_properties({key: value for key, value in {**known, **properties}.items() if key != COMMAND_CONFIG})
