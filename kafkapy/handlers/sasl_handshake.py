"""SaslHandshake: choose the mechanism of a login.

Versions: 0-1.

Behaviour:

- The answer has the mechanisms of the listener, in the order of `sasl.enabled.mechanisms`.
- A mechanism that is not among them is UNSUPPORTED_SASL_MECHANISM.
- On a listener without logins (PLAINTEXT, SSL), after a login that counts without an end, and during one, the
  answer is ILLEGAL_SASL_STATE. Tools that guess a broker's version from its table of APIs need this API
  everywhere.

Version notes:

- v0: the tokens of the login follow as frames without a header.
- v1: they follow in SaslAuthenticate.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

FIRST_VERSION_WITH_SASL_AUTHENTICATE = 1


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin a login."""
    login = context.connection.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    raw_tokens = context.api_version < FIRST_VERSION_WITH_SASL_AUTHENTICATE
    error = login.handshake(request.mechanism, raw_tokens=raw_tokens)
    return SaslHandshakeResponse(error_code=error, mechanisms=login.mechanisms)
