"""CreateDelegationToken: create a token to log in with in place of its owner (KIP-48).

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- A client that has not proved who it is, or has logged in by a token, is answered with
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; without delegation.token.secret.key, all others are answered with
  DELEGATION_TOKEN_AUTH_DISABLED.
- The owner is the client, or another principal for which it has the right CREATE_TOKENS:
  DELEGATION_TOKEN_AUTHORIZATION_FAILED otherwise.
- Renewers are users: INVALID_PRINCIPAL_TYPE otherwise.
- Any broker creates them. The answer has the HMAC, which is the password of logins with the token.
- The token lives for as long as asked, and at most for delegation.token.max.lifetime.ms. It expires after
  delegation.token.expiry.time.ms if nobody renews it.

Version notes:

- v2 is flexible.
- v3 names another owner, and the answer the requester (KIP-373).
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.token_requests import (
    NO_TIME,
    USER_TYPE,
    parts_of,
    require_allowed,
    token_admin,
)
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkapy.security.acls.model import Operation, ResourceType

MOST_RENEWERS = 1_000
"""More are refused before they are looked at; the texts of all have a bound besides."""


async def handle(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Create a token."""
    requester = context.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    kind, name = parts_of(owner)
    requester_kind, requester_name = parts_of(requester)
    response = CreateDelegationTokenResponse(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
    )
    try:
        _require_may_create(context, owner, request)
    except KafkaError as error:
        response.error_code = error.code
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME
        return response
    try:
        admin = token_admin(context)
        renewers = [f"{each.principal_type}:{each.principal_name}" for each in request.renewers]
        token = await admin.create(owner, requester, renewers, request.max_lifetime_ms)
    except KafkaError as error:
        response.error_code = error.code
        return response
    response.token_id, response.hmac = token.id, admin.cache.hmac_of(token.id)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiry_timestamp
    response.max_timestamp_ms = token.max_timestamp
    return response


def _require_may_create(context: RequestContext, owner: str, request: CreateDelegationTokenRequest) -> None:
    """Check what a broker of Apache Kafka checks before the request reaches its controller.

    Raises:
        KafkaError: the client may not create such a token.
    """
    require_allowed(context)
    if request.owner_principal_name and not request.owner_principal_type:
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if owner != context.principal:
        context.require(Operation.CREATE_TOKENS, ResourceType.USER, owner)
    if len(request.renewers) > MOST_RENEWERS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "A token has too many renewers.")
    if any(each.principal_type != USER_TYPE for each in request.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
