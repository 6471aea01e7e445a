"""The cluster that a command is for, from its options, a context or the default.

In this order: `--bootstrap-server`; the context that `--context` or `KAFKAPY_CONTEXT` names; the current
context; the broker on this machine. With `--bootstrap-server`, the current context is not used: its password
is not for other servers. `--command-config` adds properties to whichever it is, and replaces those of the
same names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafkapy.commands.connection.contexts import COMMAND_CONFIG, Contexts
from kafkapy.configs.properties import read_properties
from kafkapy.errors import UserError

DEFAULT_SERVER: Final = "127.0.0.1:9092"
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"


def client_properties(
    bootstrap_server: str | None = None, command_config: Path | None = None, context: str | None = None
) -> dict[str, str]:
    """The client properties for the cluster, with `bootstrap.servers` and references."""
    properties: dict[str, str] = {}
    if context is not None or bootstrap_server is None:
        contexts = Contexts()
        name = context or contexts.current
        if name is not None:
            properties = dict(contexts.get(name))
            if (file := properties.pop(COMMAND_CONFIG, None)) is not None:
                properties = {**properties_of(Path(file)), **properties}
    if command_config is not None:
        properties |= properties_of(command_config)
    if bootstrap_server is not None:
        properties[BOOTSTRAP_SERVERS] = bootstrap_server
    properties.setdefault(BOOTSTRAP_SERVERS, DEFAULT_SERVER)
    return properties


def properties_of(path: Path) -> dict[str, str]:
    """The properties of a client's file; raises UserError for one that cannot be read."""
    try:
        return read_properties(path.expanduser())
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
