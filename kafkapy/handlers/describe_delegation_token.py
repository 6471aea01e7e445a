"""DescribeDelegationToken: the delegation tokens that a client may see (KIP-48).

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- A client sees the tokens of which it is the owner, the requester or a renewer. To see others it needs
  DESCRIBE on the token, or DESCRIBE_TOKENS on its owner. Without an authorizer it sees all.
- With a list of owners, only the tokens that concern one of them are shown; an empty list shows none.
- The answer has the HMACs, which are the passwords of logins with the tokens.
- Tokens that have expired are shown until they are removed.
- Who may ask at all: see CreateDelegationToken.

Version notes:

- v2 is flexible.
- v3 shows the requester (KIP-373).
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.token_requests import parts_of, require_allowed, token_admin
from kafkapy.loop.turns import Steps
from kafkapy.metadata.delegation_tokens import DelegationToken
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.security.token_cache import TokenCache


def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse]:
    """Show the tokens that the client may see."""
    try:
        require_allowed(context)
        cache = token_admin(context).cache
        owners: set[str] | None = None
        if request.owners is not None:
            owners = set()
            for asked in request.owners:
                yield
                owners.add(f"{asked.principal_type}:{asked.principal_name}")
        shown = []
        for token in context.broker.metadata.image.delegation_tokens.values():
            yield
            if _is_asked_for(token, owners) and _may_see(context, token):
                texts = len(token.owner) + len(token.requester) + sum(map(len, token.renewers))
                context.charge(10 + 2 * len(token.renewers), texts, ErrorCode.REQUEST_TIMED_OUT)
                shown.append(_described(token, cache))
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    return DescribeDelegationTokenResponse(tokens=shown)


def _is_asked_for(token: DelegationToken, owners: set[str] | None) -> bool:
    return owners is None or not owners.isdisjoint((token.owner, token.requester, *token.renewers))


def _may_see(context: RequestContext, token: DelegationToken) -> bool:
    return (
        token.concerns(context.principal)
        or context.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id, log_if_denied=False)
        or context.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, log_if_denied=False)
    )


def _described(token: DelegationToken, cache: TokenCache) -> DescribedDelegationToken:
    kind, name = parts_of(token.owner)
    requester_kind, requester_name = parts_of(token.requester)
    renewers = (parts_of(each) for each in token.renewers)
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.id,
        hmac=cache.hmac_of(token.id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in renewers
        ],
    )
