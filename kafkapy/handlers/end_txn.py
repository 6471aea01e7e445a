"""EndTxn: commit or abort a transaction.

Versions: 0-5.

Behaviour:

- The answer comes when the outcome is written. The markers in the partitions follow it, so consumers may see
  the outcome a moment later.
- A request that comes again gets the same answer. While the markers are being written, it gets
  CONCURRENT_TRANSACTIONS.
- INVALID_TXN_STATE: there is no transaction, or it has ended otherwise.

Version notes:

- v2 says PRODUCER_FENCED; before, it is INVALID_PRODUCER_EPOCH.
- v5 gives the producer a new epoch at each end, and a new id when the epochs are used up (KIP-890). It may
  abort a transaction that has no partitions. In a cluster, where that is not in effect, the epoch is that of
  the request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kafkapy.coordination.answer import Answer
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.transactions.metadata import EPOCH_AT_EACH_END
from kafkapy.transactions.state_machine import Producer

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_WITH_EPOCHS: Final = 5


def handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """End the transaction."""
    answer: Answer[EndTxnResponse] = Answer()
    version = context.api_version

    def done(error: ErrorCode, producer: Producer) -> None:
        if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        answer(EndTxnResponse(error_code=error, producer_id=producer.id, producer_epoch=producer.epoch))

    context.broker.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        commit=request.committed,
        version=EPOCH_AT_EACH_END if version >= FIRST_VERSION_WITH_EPOCHS else 0,
        done=done,
    )
    return answer.result()
