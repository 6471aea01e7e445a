"""The login of this broker at another one, by SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.inter_broker.peers import PeerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.links import LinkLogin
from kafkapy.security.sasl.client_login import ClientLoginError


async def log_in(login: LinkLogin, host: str, ask: Callable[[TopMessage], Awaitable[Any]], place: str) -> int:
    """Log in; return for how many milliseconds that counts, 0 for ever.

    Args:
        login: its mechanism, and what this broker shows.
        host: of the other broker, as its listener advertises it.
        ask: sends a request, and returns the answer.
        place: the other broker, for messages.

    Raises:
        PeerError: the other broker does not let this one in, or does not know the password itself.
    """
    chosen = await ask(SaslHandshakeRequest(mechanism=login.mechanism))
    if chosen.error_code:
        raise PeerError(
            f"{place} lets nobody in by {login.mechanism}, but by {', '.join(chosen.mechanisms)}:"
            f" {ErrorCode(chosen.error_code).name}"
        )
    attempt = login.begin(host)
    try:
        token: bytes | None = await attempt.first()
    except ClientLoginError as error:
        raise PeerError(f"this broker cannot log in at {place}: {error}") from None
    lifetime_ms = 0
    while token is not None:
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            raise PeerError(f"{place} does not let this broker in: {answer.error_message}")
        lifetime_ms = answer.session_lifetime_ms
        try:
            token = await attempt.answer(answer.auth_bytes)
        except ClientLoginError as error:
            raise PeerError(f"{place} is not believed: {error}") from None
    return lifetime_ms
