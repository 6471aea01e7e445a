"""AlterClientQuotas: set and remove quotas of users, clients and addresses (KIP-546).

Versions: 0-1.

Behaviour:

- Each entity changes as a whole or not at all. Entities are answered in the order asked.
- An entity that is named twice is refused.
- Quotas are kept and shown, and not enforced yet. The log says so.
- An address is given as such, never as the name of a host.
- With `validate_only` nothing changes.

Version notes:

- v1 is flexible.
"""

from __future__ import annotations

from kafkapy.controller.client_quotas import Alteration, QuotaChange
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)


async def handle(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change what can be changed."""
    refusals: list[KafkaError | None]
    try:
        refusals = await context.broker.admin.quotas.alter(
            [_alteration(entry) for entry in request.entries], validate_only=request.validate_only
        )
    except KafkaError as error:
        refusals = [error] * len(request.entries)
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
                entity=entry.entity,
            )
            for entry, refusal in zip(request.entries, refusals, strict=True)
        ]
    )


def _alteration(entry: AlterClientQuotasRequestEntryData) -> Alteration:
    return Alteration(
        [(part.entity_type, part.entity_name) for part in entry.entity],
        [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops],
    )
