"""InitProducerId: assign a producer id and an epoch to a producer.

Versions: 0-5.

Behaviour:

- Without a transactional id, every request gets a new producer id with epoch 0, even if an idempotent
  producer asks for a new epoch of its id (v3+): it no longer needs its old sequence numbers.
- With a transactional id, the producer gets the next epoch of the id's producer id, and every producer before
  it is fenced. A transaction of theirs is aborted first: CONCURRENT_TRANSACTIONS, and the client asks again.
- A producer that names its id and epoch (v3+) continues. If they are not the last ones, it is fenced. In
  transaction version 2 it continues also after its transaction was aborted because it took too long, as long
  as no other producer has begun (KIP-588).
- An id without an epoch, or an epoch without an id, is refused with INVALID_REQUEST, and a timeout above
  transaction.max.timeout.ms with INVALID_TRANSACTION_TIMEOUT.
- A new transactional id of more than 1,024 characters is INVALID_REQUEST where all such ids have 16 MiB.
- The metadata store reserves ids durably, in blocks, so no id is assigned twice.

Version notes:

- v4 says PRODUCER_FENCED; before, it is INVALID_PRODUCER_EPOCH.
- v6, which would keep a prepared transaction (KIP-939), is not stable in Apache Kafka either.
"""

from __future__ import annotations

from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.transactions.state_machine import Producer

FIRST_VERSION_WITH_FENCED: Final = 4


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Assign an id, or the next epoch of one."""
    try:
        producer = await _assign(context, request)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and context.api_version < FIRST_VERSION_WITH_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(
            error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


async def _assign(context: RequestContext, request: InitProducerIdRequest) -> Producer:
    if request.transactional_id is None and not (
        context.may_on_some(Operation.WRITE, ResourceType.TOPIC)
        or context.may_on_cluster(Operation.IDEMPOTENT_WRITE)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    had = Producer(request.producer_id, request.producer_epoch)
    if (had.id == NO_PRODUCER_ID) != (had.epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return Producer(await context.broker.producer_ids.next_producer_id(), 0)
    await context.broker.make_coordinators()
    return await context.broker.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        None if had.id == NO_PRODUCER_ID else had,
    )
