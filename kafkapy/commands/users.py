"""`kafkapy users`: what kafka-configs.sh --entity-type users does with SCRAM credentials."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from kafkapy.commands.connection.references import resolved
from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.errors import UserError

_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_COLUMNS: Final = ("user", "mechanism", "iterations")

_mechanism = click.option(
    "--mechanism", type=click.Choice(list(_MECHANISMS)), default="SCRAM-SHA-512", show_default=True
)


@click.group()
def users() -> None:
    """List, set and delete users who log in by SCRAM (kafka-configs.sh --entity-type users)."""


@users.command("list")
@connected
def list_(session: Session) -> None:
    """List the users who have credentials."""
    session.output.rows(_described(session, None), _COLUMNS, empty="no user has credentials.")


@users.command()
@click.argument("names", metavar="USER...", nargs=-1, required=True)
@connected
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Show which credentials users have."""
    session.output.rows(_described(session, names), _COLUMNS)


@users.command("set")
@click.argument("name", metavar="USER")
@_mechanism
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
@click.option("--password-file", metavar="FILE", type=click.Path(path_type=Path), help="Has the password.")
@click.option("--password-env", metavar="NAME", help="The environment variable with the password.")
@connected
def set_(
    session: Session,
    name: str,
    mechanism: str,
    iterations: int,
    password_file: Path | None,
    password_env: str | None,
) -> None:
    """Set a user's password, which is asked for unless an option says where it is.

    The broker gets a salted hash, never the password.
    """
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    password = _password(name, password_file, password_env).encode()
    salt = os.urandom(24)
    hashed = _salted(mechanism, password, salt, iterations)
    upsertion = (name, _MECHANISMS[mechanism], iterations, salt, hashed)
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    _alter(session, request, name, mechanism, "set")


@users.command()
@click.argument("name", metavar="USER")
@_mechanism
@dry_run
@yes
@connected
def delete(session: Session, name: str, mechanism: str, dry_run: bool, yes: bool) -> None:
    """Delete a user's credentials of a mechanism."""
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    if dry_run:
        if mechanism not in [row["mechanism"] for row in _described(session, (name,))]:
            raise UserError(f"user {name} has no {mechanism} credentials; kafkapy users describe shows all")
        _show(session, name, mechanism, "would be deleted")
        return
    confirm(f"Delete the {mechanism} credentials of {name}?", sure=yes)
    request = AlterUserScramCredentialsRequest(deletions=[(name, _MECHANISMS[mechanism])], upsertions=[])
    _alter(session, request, name, mechanism, "deleted")


def _alter(session: Session, request: Any, name: str, mechanism: str, done: str) -> None:
    from kafkapy.commands.connection.failures import check

    for result in session.admin.to_controller(request).results:
        check(result.error_code, result.error_message, f"user {name}")
    _show(session, name, mechanism, done)


def _show(session: Session, name: str, mechanism: str, result: str) -> None:
    session.output.rows(
        [{"user": name, "mechanism": mechanism, "result": result}], ("user", "mechanism", "result")
    )


def _described(session: Session, names: tuple[str, ...] | None) -> list[dict[str, Any]]:
    from kafka.protocol.admin import DescribeUserScramCredentialsRequest

    from kafkapy.commands.connection.failures import check

    users_ = None if names is None else [(name,) for name in names]
    answer = session.admin.to_controller(DescribeUserScramCredentialsRequest(users=users_))
    check(answer.error_code, answer.error_message, "users")
    words = {number: name for name, number in _MECHANISMS.items()}
    rows = []
    for result in sorted(answer.results, key=lambda result: str(result.user)):
        check(result.error_code, result.error_message, f"user {result.user}")
        rows += [
            {"user": result.user, "mechanism": words[each.mechanism], "iterations": each.iterations}
            for each in result.credential_infos
        ]
    return rows


def _password(name: str, file: Path | None, variable: str | None) -> str:
    if file and variable:
        raise UserError("--password-file and --password-env are given: give one of them")
    if file:
        return resolved("--password-file", f"${{file:{file}}}")
    if variable:
        return resolved("--password-env", f"${{{variable}}}")
    if not sys.stdin.isatty():
        raise UserError("nobody can be asked for the password here: give --password-file or --password-env")
    answer: str = click.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return answer


def _salted(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    import hashlib

    if not password:
        raise UserError("the password is empty")
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password, salt, iterations)
