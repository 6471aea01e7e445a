"""References to secrets in properties, contexts and settings, read when a command connects.

    ${NAME}          the environment variable NAME
    ${file:PATH}     the content of the file, without trailing line breaks
    ${prompt}        the command asks on the terminal, without an echo

A reference may be part of a value.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

import click

from kafkapy.errors import UserError

PROMPT: Final = "${prompt}"

REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_FILE: Final = "file:"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Parts of the names of properties whose values are secrets
_SECRETS: Final = ("password", "secret", "keystore.key")
_JAAS: Final = "sasl.jaas.config"
# Options of a JAAS line that are secrets, with their values
_JAAS_SECRET: Final = re.compile(
    r"(?:\w*(?:password|secret)\w*|user_[^\s=]+)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s;]+)", re.IGNORECASE
)


def has_secret(name: str, value: str) -> bool:
    """Whether a property's value has a secret in it, and not references alone."""
    if name.endswith(_JAAS):
        secrets = [found.strip("\"'") for found in _JAAS_SECRET.findall(value)]
    else:
        secrets = [value] if any(word in name for word in _SECRETS) else []
    return not all(REFERENCE.fullmatch(secret) for secret in secrets)


def require_no_secret(option: str, name: str, value: str) -> None:
    """Raises UserError for a secret that is an argument of a command."""
    if has_secret(name, value):
        raise UserError(
            f"{option} {name}: others can read arguments; write ${{NAME}} or ${{file:PATH}} for the secret"
        )


def resolved(name: str, value: str) -> str:
    """The value with its references replaced; `name` is the property's, for messages."""
    return REFERENCE.sub(lambda found: _secret(name, found[1]), value)


def _secret(name: str, reference: str) -> str:
    if reference == "prompt":
        if not sys.stdin.isatty():
            raise UserError(f"{name}: nobody can be asked, as there is no terminal: use a file or a variable")
        answer: str = click.prompt(name, hide_input=True, err=True)
        return answer
    if reference.startswith(_FILE):
        path = Path(reference.removeprefix(_FILE)).expanduser()
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{name}: {path} cannot be read: {_reason(error)}") from None
    if not _VARIABLE.fullmatch(reference):
        raise UserError(f"{name}: '${{{reference}}}' is no reference: write ${{NAME}} or ${{file:PATH}}")
    try:
        return os.environ[reference]
    except KeyError:
        raise UserError(f"{name}: the environment variable {reference} is not set; set it") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
