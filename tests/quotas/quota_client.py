"""Requests that set quotas, over a raw connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from tests.network.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    import kafkapy

ANY_CLIENT: Mapping[str, str | None] = {"client-id": None}


def set_quota(client: RawClient, name: str, value: float | None, entity: Mapping[str, str | None]) -> None:
    """Set a quota of an entity, or remove it."""
    operation = OpData(key=name, value=value or 0.0, remove=value is None)
    names = [EntityData(entity_type=kind, entity_name=each) for kind, each in entity.items()]
    entry = AlterClientQuotasRequestEntryData(entity=names, ops=[operation])
    (answer,) = client.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries
    assert answer.error_code == 0, answer


@contextmanager
def limited(
    broker: kafkapy.Broker, name: str, value: float, entity: Mapping[str, str | None] = ANY_CLIENT
) -> Iterator[RawClient]:
    """A new connection to a broker with this quota."""
    with RawClient(broker.bootstrap_servers) as admin:
        set_quota(admin, name, value, entity)
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def shared(broker: kafkapy.Broker) -> Any:
    """What all connections of the broker share."""
    return broker.core.server.shared
