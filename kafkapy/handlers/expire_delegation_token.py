"""ExpireDelegationToken: let a delegation token expire, or remove it at once (KIP-48).

Versions: 0-2 (Apache Kafka 4 dropped v0).

Behaviour:

- The token is named by its HMAC: DELEGATION_TOKEN_NOT_FOUND if there is none.
- Its owner and its renewers may do it: DELEGATION_TOKEN_OWNER_MISMATCH for others. No other right is needed.
- A period below 0 removes the token, even if it has expired. Any other sets when it expires, within its
  maximum lifetime; for one that has expired that is DELEGATION_TOKEN_EXPIRED.
- Clients that have logged in by the token stay until the time at which it would have expired then.
- Who may ask at all: see CreateDelegationToken.

Version notes:

- v2 is flexible.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.token_requests import change_expiry
from kafkapy.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Let one token expire."""
    return await change_expiry(
        context,
        ExpireDelegationTokenResponse,
        lambda admin: admin.expire(context.principal, bytes(request.hmac), request.expiry_time_period_ms),
    )
