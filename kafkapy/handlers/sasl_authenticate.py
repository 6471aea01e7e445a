"""SaslAuthenticate: refuse, since no listener demands a login.

Versions: 0-2.

Behaviour:

- The answer is ILLEGAL_SASL_STATE, as on a PLAINTEXT or SSL listener of Apache Kafka.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(_context: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse the login."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="This listener demands no login.",
    )
