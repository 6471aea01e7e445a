"""The transactions of a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkapy.observe.asking import ask
from kafkapy.observe.waiting import NotYet, until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState

if TYPE_CHECKING:
    from kafkapy.observe.asking import Observed

COMMITTED: Final = "CompleteCommit"
ABORTED: Final = "CompleteAbort"

_WORDS: Final = {
    "Empty": "it has had no transaction",
    "Ongoing": "its transaction is open",
    "PrepareCommit": "its transaction is being committed",
    "PrepareAbort": "its transaction is being aborted",
    COMMITTED: "its last transaction was committed",
    ABORTED: "its last transaction was aborted",
    "PrepareEpochFence": "its producer is being fenced",
    "Dead": "it is being forgotten",
}
"""What a state means, in words."""


async def wait_until_ended(core: Observed, name: str, state: str, seconds: float) -> None:
    """Return when the last transaction of the id has ended so."""

    async def look() -> NotYet | None:
        found = await _state(core, name)
        if found is None:
            return NotYet("there is no such transactional id")
        if found.transaction_state == state:
            return None
        parts = [f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions]
        within = f", with {', '.join(parts)}" if parts else ""
        return NotYet(_WORDS[found.transaction_state] + within)

    how = "committed" if state == COMMITTED else "aborted"
    await until(look, f"the transaction of {name} to be {how}", seconds)


async def _state(core: Observed, name: str) -> TransactionState | None:
    request = DescribeTransactionsRequest(transactional_ids=[name])
    answer = await ask(core, request)
    state: TransactionState = answer.transaction_states[0]
    return state if state.error_code == ErrorCode.NONE else None
