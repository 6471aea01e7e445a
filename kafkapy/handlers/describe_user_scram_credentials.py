"""DescribeUserScramCredentials: show which users can log in by SCRAM (KIP-554).

Versions: 0.

Behaviour:

- A request for all users is answered with those that have a credential.
- Of each credential, the mechanism and the number of iterations are shown, and nothing of the password.
- A user without credentials is RESOURCE_NOT_FOUND. One that is asked for twice is DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps, counted
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafkapy.security.sasl.users import credentials_of, users_with_credentials


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Answer each user once."""
    image = context.broker.metadata.image
    asked = (user.name for user in request.users or ())
    users = yield from counted(asked if request.users else (yield from users_with_credentials(image)))
    results = yield from answer_each(users.items(), lambda named: _describe(image, *named))
    return DescribeUserScramCredentialsResponse(results=results)


def _describe(image: MetadataImage, user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not (credentials := credentials_of(image, user)):
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        infos = [
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in credentials.items()
        ]
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=user, error_code=error, error_message=message)
