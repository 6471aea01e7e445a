"""InitProducerId: hand out a producer id for an idempotent producer.

Versions: 0-5.

Behaviour:

- Without a transactional id every request gets a new producer id with epoch 0. That is so even when an
  idempotent producer asks for a new epoch of the id it has (v3+): its old sequence numbers are of no use to
  it any more.
- An id without an epoch, or an epoch without an id, is refused with INVALID_REQUEST.
- The metadata store reserves ids durably, in blocks. So no id is ever given twice.
- Transactions are not coordinated. A transactional id is refused with
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client treats as fatal, rather than with an error that
  it would retry.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1
REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Hand out the next producer id."""
    if request.transactional_id is not None:
        error = REFUSED if request.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    producer_id = await context.broker.producer_ids.next_producer_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
