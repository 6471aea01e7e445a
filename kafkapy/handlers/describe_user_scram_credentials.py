"""DescribeUserScramCredentials: show no credentials, since no user can log in (KIP-554).

Versions: 0.

Behaviour:

- A request for all users is answered with none.
- Each user that is asked for by name is RESOURCE_NOT_FOUND. One that is asked for twice is
  DUPLICATE_RESOURCE.
- kafka-configs sends this request when it shows the quotas of users.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Answer each user once."""
    users = yield from counted(user.name for user in request.users or ())
    results = yield from answer_each(users.items(), lambda named: _describe(*named))
    return DescribeUserScramCredentialsResponse(results=results)


def _describe(user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    else:
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=error, error_message=message)
