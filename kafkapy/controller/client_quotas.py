"""Changes quotas of users, clients and addresses.

Source: Kafka's ClientQuotaControlManager, QuotaConfig (KIP-546, KIP-612).
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkapy.configs.quotas import OF_ADDRESSES, OF_USERS_AND_CLIENTS, quota_text
from kafkapy.controller.entity_nodes import ENTITIES_AT_ONCE, EntityNodes
from kafkapy.metadata.quotas import CLIENT_ID, IP, USER, QuotaEntity, quota_entity
from kafkapy.protocol.errors import ErrorCode, KafkaError

_HIGHEST: Final = {"INT": 2**31 - 1, "LONG": 2**63 - 1}
_TOLERANCE: Final = 1e-6
"""The largest difference between an integer and a value that is accepted as that integer."""


class QuotaChange(NamedTuple):
    """One quota of an entity; None removes it."""

    name: str
    value: float | None


class Alteration(NamedTuple):
    """The changes of one entity, given by pairs of a type and a name (None: the default)."""

    entity: Sequence[tuple[str, str | None]]
    changes: Sequence[QuotaChange]


class ClientQuotaAdmin:
    """Changes quotas."""

    def __init__(self, nodes: EntityNodes) -> None:
        self._nodes = nodes

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Change the quotas of entities.

        Of each entity, all changes are made or none.

        Returns the error of each alteration, or None.

        Raises:
            KafkaError: the metadata cannot be changed. Quotas of the first entities may have been changed.
        """
        counts: Counter[QuotaEntity] = Counter()
        for start in range(0, len(alterations), ENTITIES_AT_ONCE):
            await asyncio.sleep(0)
            counts.update(_entity(each) for each in alterations[start : start + ENTITIES_AT_ONCE])
        refusals: list[KafkaError | None] = []
        accepted: list[tuple[QuotaEntity, Sequence[QuotaChange]]] = []
        for start in range(0, len(alterations), ENTITIES_AT_ONCE):
            await asyncio.sleep(0)
            for alteration in alterations[start : start + ENTITIES_AT_ONCE]:
                entity = _entity(alteration)
                try:
                    _check(alteration)
                    if counts[entity] > 1:
                        raise _refused("An entity must appear at most once.")
                except KafkaError as error:
                    refusals.append(error)
                else:
                    refusals.append(None)
                    accepted.append((entity, alteration.changes))
        if not validate_only:
            await self._nodes.change(accepted, self._commit)
        return refusals

    def _configs(self, entity: QuotaEntity, changes: Iterable[QuotaChange]) -> dict[str, str]:
        """The content of the node of `entity` after `changes`."""
        configs = dict(self._nodes.content(entity))
        for name, value in changes:
            if value is None:
                if name in _types(entity):
                    configs.pop(name, None)
            else:
                configs[name] = quota_text(name, value) or ""
        return configs

    async def _commit(self, accepted: Sequence[tuple[QuotaEntity, Sequence[QuotaChange]]]) -> None:
        await self._nodes.commit({entity: self._configs(entity, changes) for entity, changes in accepted})


def _entity(alteration: Alteration) -> QuotaEntity:
    return quota_entity(dict(alteration.entity))


def _types(entity: QuotaEntity) -> Mapping[str, str]:
    """The quotas that an entity can have, and their types."""
    return OF_ADDRESSES if entity[0][0] == IP else OF_USERS_AND_CLIENTS


def _check(alteration: Alteration) -> None:
    """Raise KafkaError if the entity cannot have quotas, or not these."""
    names = dict(alteration.entity)
    if not names:
        raise _refused("Invalid empty client quota entity")
    if len(names) < len(alteration.entity):
        raise _refused("Invalid client quota entity, duplicate entity entry")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
    if IP in names:
        if len(names) > 1:
            raise _refused(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        if not _is_address(names[IP]):
            raise _refused(f"{names[IP]} is not a valid IP address.")
    seen = Counter(change.name for change in alteration.changes)
    for name, count in seen.items():
        if count > 1:
            raise _refused(f"Duplicate quota key {name}")
    types = _types(quota_entity(names))
    for name, value in alteration.changes:
        if value is not None:
            _check_value(types, name, value)


def _check_value(types: Mapping[str, str], name: str, value: float) -> None:
    if name not in types:
        raise _refused(f"Invalid configuration key {name}")
    if not value > 0:  # nor is NaN
        raise _refused(f"Quota {name} must be greater than 0")
    kind = types[name]
    if value > _HIGHEST.get(kind, sys.float_info.max):
        raise _refused(f"Proposed value for {name} is too large for {'an' if kind == 'INT' else 'a'} {kind}.")
    if kind != "DOUBLE" and abs(value % 1.0) > _TOLERANCE:
        raise _refused(f"{name} cannot be a fractional value.")


def _is_address(text: str | None) -> bool:
    """Whether `text` is an IP address, or None for the default.

    Kafka accepts host names too, but a client must not make this broker query a name server.
    """
    try:
        return text is None or bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
