"""SaslAuthenticate: a token of a login, and the answer to it.

Versions: 0-2.

Behaviour:

- SaslHandshake comes first. Without it, the answer is ILLEGAL_SASL_STATE, and the connection is closed.
- A login that fails is answered with SASL_AUTHENTICATION_FAILED after
  connection.failed.authentication.delay.ms, and the connection is closed. What is wrong is only said where it
  tells nothing about users.
- On a listener without logins (PLAINTEXT, SSL), the answer is ILLEGAL_SASL_STATE.

Version notes:

- v1 says for how many milliseconds the login counts (KIP-368); 0 is without an end.
- v2 is flexible.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Continue a login."""
    login = context.connection.login
    if login is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="This listener demands no login.",
        )
    answer = await login.authenticate(request.auth_bytes)
    return SaslAuthenticateResponse(
        error_code=answer.error_code,
        error_message=answer.message,
        auth_bytes=answer.token or b"",
        session_lifetime_ms=answer.lifetime_ms,
    )
