"""The names of quotas, and their values as text.

Source: Kafka's QuotaConfig (KIP-546, KIP-612).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkapy.configs.keys import value_text

OF_USERS_AND_CLIENTS: Final = {
    "consumer_byte_rate": "LONG",
    "producer_byte_rate": "LONG",
    "request_percentage": "DOUBLE",
    "controller_mutation_rate": "DOUBLE",
}
"""Names of quotas, and the types of their values."""
CONNECTION_RATE: Final = "connection_creation_rate"
OF_ADDRESSES: Final = {CONNECTION_RATE: "INT"}


def quota_text(name: str, value: float) -> str | None:
    """The value of a quota as its node has it; None for an unknown quota."""
    kind = {**OF_USERS_AND_CLIENTS, **OF_ADDRESSES}.get(name)
    return None if kind is None else value_text(value if kind == "DOUBLE" else round(value))


def quotas(configs: Mapping[str, str]) -> dict[str, float]:
    """The quotas among the settings of a node."""
    return {
        name: float(text)
        for name, text in configs.items()
        if name in OF_USERS_AND_CLIENTS or name in OF_ADDRESSES
    }


def limit_of(text: str | None) -> float | None:
    """The number in a node; None without one.

    A client of ZooKeeper may write anything.
    """
    if text is None:
        return None
    try:
        limit = float(text)
    except ValueError:
        return None
    return limit if limit >= 0 else None
