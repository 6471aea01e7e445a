"""`kafkapy tokens`: what kafka-delegation-tokens.sh does.

A token is named by its id. Its HMAC, which is the password of its login, is never an argument: renewals
ask the broker for it.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.commands.units import milliseconds, time_text
from kafkapy.errors import UserError

_COLUMNS: Final = ("token_id", "owner", "requester", "renewers", "issued", "expires", "max_time")


@click.group()
def tokens() -> None:
    """Create, show, renew and expire delegation tokens (kafka-delegation-tokens.sh).

    The connection needs a login, and none by a token.
    """


@tokens.command()
@click.option("--owner", metavar="User:NAME", help="Else the user who is logged in.")
@click.option("--renewer", "renewers", metavar="User:NAME", multiple=True, help="Who may renew it, too.")
@click.option("--max-life-time", metavar="DURATION", help="Such as 7d; else the brokers' longest.")
@connected
def create(session: Session, owner: str | None, renewers: tuple[str, ...], max_life_time: str | None) -> None:
    """Create a token, and show its id and HMAC: the user and the password of a SCRAM login."""
    from kafkapy.commands import messages
    from kafkapy.commands.connection.failures import check

    type_, name = (None, None) if owner is None else _principal(owner)
    request = messages.CreateDelegationTokenRequest(
        owner_principal_type=type_,
        owner_principal_name=name,
        renewers=[_principal(each) for each in renewers],
        max_lifetime_ms=-1 if max_life_time is None else milliseconds(max_life_time, "--max-life-time"),
    )
    answer = session.admin.to_controller(request)
    check(answer.error_code, None, "tokens")
    session.output.item(
        {
            "token_id": answer.token_id,
            "hmac": base64.b64encode(answer.hmac).decode(),
            "owner": f"{answer.principal_type}:{answer.principal_name}",
            "issued": time_text(answer.issue_timestamp_ms),
            "expires": time_text(answer.expiry_timestamp_ms),
            "max_time": time_text(answer.max_timestamp_ms),
        }
    )


@tokens.command("list")
@click.option("--owner", "owners", metavar="User:NAME", multiple=True, help="Only this owner's.")
@connected
def list_(session: Session, owners: tuple[str, ...]) -> None:
    """List the tokens that the user may see."""
    rows = [
        {
            "token_id": token.token_id,
            "owner": f"{token.principal_type}:{token.principal_name}",
            "requester": _requester(token),
            "renewers": [f"{each.principal_type}:{each.principal_name}" for each in token.renewers],
            "issued": time_text(token.issue_timestamp),
            "expires": time_text(token.expiry_timestamp),
            "max_time": time_text(token.max_timestamp),
        }
        for token in _described(session, owners)
    ]
    session.output.rows(rows, _COLUMNS, empty="there are no tokens.")


@tokens.command()
@click.argument("token_id")
@click.option("--for", "period", metavar="DURATION", help="For so long from now; else as long as may be.")
@connected
def renew(session: Session, token_id: str, period: str | None) -> None:
    """Let a token expire later, within its longest life."""
    from kafkapy.commands import messages
    from kafkapy.commands.connection.failures import check

    duration = -1 if period is None else milliseconds(period, "--for")
    request = messages.RenewDelegationTokenRequest(hmac=_hmac(session, token_id), renew_period_ms=duration)
    answer = session.admin.to_controller(request)
    check(answer.error_code, None, f"token {token_id}")
    session.output.item({"token_id": token_id, "expires": time_text(answer.expiry_timestamp_ms)})


@tokens.command()
@click.argument("token_id")
@click.option("--in", "period", metavar="DURATION", help="After so long from now; else at once.")
@dry_run
@yes
@connected
def expire(session: Session, token_id: str, period: str | None, dry_run: bool, yes: bool) -> None:
    """Let a token expire: nobody can log in with it from then on."""
    from kafkapy.commands import messages
    from kafkapy.commands.connection.failures import check

    duration = -1 if period is None else milliseconds(period, "--in")
    hmac = _hmac(session, token_id)
    if dry_run:
        then = int(time.time() * 1000) + max(duration, 0)
        session.output.item({"token_id": token_id, "would_expire": time_text(then)})
        return
    confirm(f"Let token {token_id} expire?", sure=yes)
    request = messages.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=duration)
    answer = session.admin.to_controller(request)
    check(answer.error_code, None, f"token {token_id}")
    session.output.item({"token_id": token_id, "expires": time_text(answer.expiry_timestamp_ms)})


def _described(session: Session, owners: Sequence[str] = ()) -> list[Any]:
    from kafkapy.commands import messages
    from kafkapy.commands.connection.failures import check

    wanted = [_principal(each) for each in owners] or None
    answer = session.admin.send(messages.DescribeDelegationTokenRequest(owners=wanted))
    check(answer.error_code, None, "tokens")
    return sorted(answer.tokens, key=lambda token: str(token.token_id))


def _hmac(session: Session, token_id: str) -> bytes:
    for token in _described(session):
        if token.token_id == token_id:
            return bytes(token.hmac)
    raise UserError(f"there is no token {token_id}; kafkapy tokens list names those that the user may see")


def _requester(token: Any) -> str | None:
    name = getattr(token, "token_requester_principal_name", None)
    return f"{token.token_requester_principal_type}:{name}" if name else None


def _principal(text: str) -> tuple[str, str]:
    type_, separator, name = text.partition(":")
    if not separator or not name:
        raise UserError(f"{text} is no principal: expected User:NAME")
    return type_, name
