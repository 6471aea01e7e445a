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

from collections.abc import Awaitable

from kafkapy.handlers.context import RequestContext
from kafkapy.process.patterns import Pattern, PatternError, compile_pattern
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kafkapy.transactions.metadata import BY_LABEL


def handle(
    context: RequestContext, request: ListTransactionsRequest
) -> Steps[ListTransactionsResponse] | Awaitable[ListTransactionsResponse]:
    """List the ids that pass the filters."""
    if request.transactional_id_pattern:
        return _compile_and_list(context, request, request.transactional_id_pattern)
    return _list(context, request, None)


async def _compile_and_list(
    context: RequestContext, request: ListTransactionsRequest, regex: str
) -> ListTransactionsResponse:
    """Compile the regular expression in a worker thread: a short one may take seconds."""
    try:
        pattern = await context.broker.blocking(compile_pattern, regex)
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return await context.broker.turns.finish(_list(context, request, pattern))


def _list(
    context: RequestContext, request: ListTransactionsRequest, pattern: Pattern | None
) -> Steps[ListTransactionsResponse]:
    transactions = context.broker.transactions
    if transactions.runtime.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in BY_LABEL]
    )
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    now_ms = context.broker.clock.now_ms()
    for found in transactions.listed():
        yield
        if (
            (not states or found.state.label in states)
            and (not producer_ids or found.producer_id in producer_ids)
            and (request.duration_filter < 0 or now_ms - found.start_ms > request.duration_filter)
            and (pattern is None or pattern.fullmatch(found.transactional_id))
        ):
            response.transaction_states.append(
                TransactionState(
                    transactional_id=found.transactional_id,
                    producer_id=found.producer_id,
                    transaction_state=found.state.label,
                )
            )
    return response
