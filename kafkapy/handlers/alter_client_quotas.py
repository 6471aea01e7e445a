"""AlterClientQuotas: set and remove quotas of users, clients and addresses (KIP-546).

Versions: 0-1.

Behaviour:

- Any broker changes them.
- All changes of an entity are made, or none. Entities are answered in the order asked.
- An entity that is named twice is refused.
- Quotas take effect on each broker with its next request (docs/quotas.md).
- An address is given as such, never as the name of a host.
- With `validate_only` nothing changes.

Version notes:

- v1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkapy.controller.client_quotas import Alteration, QuotaChange
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, answer_in_steps
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    OpData,
)

ENOUGH_PARTS: Final = 4
"""There are three types of parts, so an entity of four is refused whatever else it has."""


async def handle(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change what can be changed."""
    turns = context.broker.turns
    alterations = await turns.finish(answer_in_steps(request.entries, _alteration))
    refusals: list[KafkaError | None]
    try:
        refusals = await context.broker.admin.quotas.alter(alterations, validate_only=request.validate_only)
    except KafkaError as error:
        refusals = [error] * len(request.entries)
    return await turns.finish(_response(request, refusals))


def _response(
    request: AlterClientQuotasRequest, refusals: Sequence[KafkaError | None]
) -> Steps[AlterClientQuotasResponse]:
    entries = yield from answer_each(
        zip(request.entries, refusals, strict=True), lambda refused: _answer(*refused)
    )
    return AlterClientQuotasResponse(entries=entries)


def _answer(
    entry: AlterClientQuotasRequestEntryData, refusal: KafkaError | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        entity=entry.entity,
    )


def _alteration(entry: AlterClientQuotasRequestEntryData) -> Steps[Alteration]:
    entity = [(part.entity_type, part.entity_name) for part in entry.entity[:ENOUGH_PARTS]]
    return Alteration(entity, (yield from answer_each(entry.ops, _change)))


def _change(op: OpData) -> QuotaChange:
    return QuotaChange(op.key, None if op.remove else op.value)
