"""RenewDelegationToken: let a delegation token expire later (KIP-48).

Versions: 0-2 (Apache Kafka 4 dropped v0).

Behaviour:

- The token is named by its HMAC: DELEGATION_TOKEN_NOT_FOUND if there is none.
- One that has expired stays so: DELEGATION_TOKEN_EXPIRED.
- Its owner and its renewers may renew it: DELEGATION_TOKEN_OWNER_MISMATCH for others. No other right is
  needed.
- It expires after the period that is asked, and at most after delegation.token.expiry.time.ms, but never
  later than its maximum lifetime. A period of 0 or less stands for the longest.
- Who may ask at all: see CreateDelegationToken.

Version notes:

- v2 is flexible.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.token_requests import change_expiry
from kafkapy.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Renew one token."""
    return await change_expiry(
        context,
        RenewDelegationTokenResponse,
        lambda admin: admin.renew(context.principal, bytes(request.hmac), request.renew_period_ms),
    )
