"""AlterUserScramCredentials: set and delete the SCRAM credentials of users (KIP-554).

Versions: 0.

Behaviour:

- Any broker changes them. They count for the next login.
- Clients send no passwords, but what a password gives with a salt after so many iterations, from 4,096 to
  16,384; otherwise UNACCEPTABLE_CREDENTIAL.
- Users are answered once, in the order asked, those of deletions first.
- A user that is named twice, even with different mechanisms, is DUPLICATE_RESOURCE, unless the first change
  has an error of its own; a deletion of a credential that does not exist is RESOURCE_NOT_FOUND.
"""

from __future__ import annotations

from kafkapy.controller.user_credentials import CredentialChange
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change what can be changed."""
    turns = context.broker.turns
    changes = await turns.finish(_by_user(request))
    errors: dict[str, KafkaError | None]
    try:
        errors = await context.broker.admin.user_credentials.alter(changes)
    except KafkaError as error:
        errors = dict.fromkeys(changes, error)
    results = await turns.finish(answer_each(errors.items(), lambda outcome: _result(*outcome)))
    return AlterUserScramCredentialsResponse(results=results)


def _by_user(request: AlterUserScramCredentialsRequest) -> Steps[dict[str, CredentialChange]]:
    """The first change of each user."""
    changes: dict[str, CredentialChange] = {}

    def add(user: str, change: CredentialChange) -> None:
        first = changes.get(user)
        changes[user] = change if first is None else first._replace(is_first_of_several=True)

    for deleted in request.deletions:
        yield
        add(deleted.name, CredentialChange(deleted.mechanism, None))
    for asked in request.upsertions:
        yield
        salt, salted_password = bytes(asked.salt), bytes(asked.salted_password)
        add(asked.name, CredentialChange(asked.mechanism, asked.iterations, salt, salted_password))
    return changes


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
