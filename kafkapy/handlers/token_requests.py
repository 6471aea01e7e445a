"""What the requests about delegation tokens have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.controller.delegation_tokens import DelegationTokenAdmin
from kafkapy.handlers.context import RequestContext
from kafkapy.network.entrance import ANONYMOUS
from kafkapy.protocol.errors import ErrorCode, KafkaError

Answer = TypeVar("Answer")

NO_TIME: Final = -1
"""The time in the answer to a client whose connection may not ask."""

USER_TYPE: Final = "User"
"""The only type of principals that may renew a token."""


def require_allowed(context: RequestContext) -> None:
    """Check that the client may ask about tokens on its connection.

    Raises:
        KafkaError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, it has not proved who it is (PLAINTEXT, or SSL
            without a certificate), or has logged in by a token itself.
    """
    connection = context.connection
    protocol = connection.listener.protocol
    is_anonymous = protocol is SecurityProtocol.SSL and connection.principal == ANONYMOUS
    if connection.by_token or protocol is SecurityProtocol.PLAINTEXT or is_anonymous:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def token_admin(context: RequestContext) -> DelegationTokenAdmin:
    """The tokens of the cluster.

    Raises:
        KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, there is no secret key.
    """
    admin = context.broker.admin.delegation_tokens
    if admin is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return admin


async def change_expiry(
    context: RequestContext,
    answer: Callable[..., Answer],
    change: Callable[[DelegationTokenAdmin], Awaitable[int]],
) -> Answer:
    """Change when a token expires; return the answer, with that time or the error."""
    try:
        require_allowed(context)
    except KafkaError as error:
        return answer(error_code=error.code, expiry_timestamp_ms=NO_TIME)
    try:
        return answer(expiry_timestamp_ms=await change(token_admin(context)))
    except KafkaError as error:
        return answer(error_code=error.code)


def parts_of(principal: str) -> tuple[str, str]:
    """The type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
