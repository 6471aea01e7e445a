"""DescribeClientQuotas: show the quotas of users, clients and addresses (KIP-546).

Versions: 0-1.

Behaviour:

- Components say what an entity must have: a name, the default, or any of a type. With `strict` it has
  nothing else.
- Addresses cannot be combined with another type.

Version notes:

- v1 is flexible.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from kafkapy.configs.quotas import quotas
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps
from kafkapy.metadata.quotas import CLIENT_ID, IP, USER, QuotaEntity
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class MatchType(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> Steps[DescribeClientQuotasResponse]:
    """Answer the entities that match."""
    try:
        exact, types = _filter(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)

    def entry(entity: QuotaEntity, configs: Mapping[str, str]) -> EntryData | None:
        values = quotas(configs)
        if not values or not _matches(entity, exact, types, strict=request.strict):
            return None
        return _entry(entity, values)

    stored = context.broker.metadata.image.client_quotas.configs.items()
    entries = yield from answer_each(stored, lambda found: entry(*found))
    return DescribeClientQuotasResponse(entries=entries)


def _filter(components: list[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """The names (None for a default) by type, and the types of which any name will do."""
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in types:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match_type not in MatchType.__members__.values():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if (component.match_type == MatchType.EXACT) != (match is not None):
            message = "A name is given exactly where MATCH_TYPE_EXACT asks for one."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if component.match_type == MatchType.ANY:
            types.add(kind)
        else:
            exact[kind] = match
    named = types | exact.keys()
    if IP in named and len(named) > 1:
        message = (
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return exact, types


def _matches(entity: QuotaEntity, exact: Mapping[str, str | None], types: set[str], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(exact) + len(types):
        return False
    return types <= names.keys() and all(
        kind in names and names[kind] == name for kind, name in exact.items()
    )


def _entry(entity: QuotaEntity, values: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=name, value=value) for name, value in values.items()],
    )
