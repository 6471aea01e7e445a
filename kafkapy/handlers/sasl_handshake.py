"""SaslHandshake: refuse, since no listener demands a login.

Versions: 0-1.

Behaviour:

- The answer is ILLEGAL_SASL_STATE, with no mechanisms, as on a PLAINTEXT or SSL listener of Apache Kafka.
- Tools that guess a broker's version from its table of APIs miss this API otherwise.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_context: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse the login."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
