"""ListTransactions: list the transactional ids that this broker coordinates (KIP-664).

Versions: 0-2.

Behaviour:

- Filters select by state, by producer id, and by how long the transaction has lasted, in milliseconds. One
  that is empty selects all.
- An unknown name of a state matches nothing, and is returned.
- While some ids are still being loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS.

Version notes:

- v1 filters by duration (KIP-994).
- v2 filters by a regular expression of RE2 for the complete id (KIP-1152), which may be
  INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.patterns import Pattern, PatternError, compile_pattern
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.transactions.metadata import BY_LABEL, TransactionMetadata

PIECE_SECONDS: Final = 0.05
"""The CPU time of a thread after which other work has its turn."""


def handle(
    context: RequestContext, request: ListTransactionsRequest
) -> Steps[ListTransactionsResponse] | Awaitable[ListTransactionsResponse]:
    """List the ids that pass the filters."""
    if request.transactional_id_pattern:
        return _compile_and_list(context, request, request.transactional_id_pattern)
    return _list(context, request)


async def _compile_and_list(
    context: RequestContext, request: ListTransactionsRequest, regex: str
) -> ListTransactionsResponse:
    """Compile the expression and match in a worker thread: each may take seconds."""
    broker = context.broker
    try:
        pattern = await broker.costly(compile_pattern, regex)
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    response = await broker.turns.finish(_list(context, request))
    found, response.transaction_states = response.transaction_states, []
    number = 0
    while number < len(found):
        matching, number = await broker.costly(_matching, pattern, found, number)
        response.transaction_states += matching
    return response


def _matching(
    pattern: Pattern, found: Sequence[TransactionState], number: int
) -> tuple[list[TransactionState], int]:
    """Match ids from this number on, for a while; return those that match, and the next number."""
    matching, stop_at = [], time.thread_time() + PIECE_SECONDS
    while number < len(found):
        if pattern.fullmatch(found[number].transactional_id):
            matching.append(found[number])
        number += 1
        if time.thread_time() >= stop_at:
            break
    return matching, number


def _list(context: RequestContext, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    transactions = context.broker.transactions
    if transactions.runtime.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = ListTransactionsResponse()
    states, producer_ids = set[str](), set[int]()

    def unknown(name: str) -> str | None:
        if name not in BY_LABEL:
            return name
        states.add(name)
        return None

    response.unknown_state_filters = yield from answer_each(request.state_filters, unknown)
    yield from visit_each(request.producer_id_filters, producer_ids.add)
    now_ms = context.broker.clock.now_ms()

    def listed(found: TransactionMetadata) -> TransactionState | None:
        if (
            (request.state_filters and found.state.label not in states)
            or (producer_ids and found.producer_id not in producer_ids)
            or (request.duration_filter >= 0 and now_ms - found.start_ms <= request.duration_filter)
        ):
            return None
        if not context.may(
            Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, found.transactional_id, log_if_denied=False
        ):
            return None
        context.charge(3, len(found.transactional_id), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return TransactionState(
            transactional_id=found.transactional_id,
            producer_id=found.producer_id,
            transaction_state=found.state.label,
        )

    try:
        response.transaction_states = yield from answer_each(transactions.listed(), listed)
    except KafkaError as error:
        response.error_code = error.code
    return response
