"""The settings of transactions, none of which is dynamic: they are read once, at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Times in milliseconds."""

    max_timeout_ms: int = 900_000
    timeout_check_interval_ms: int = 10_000
    expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
    expiration_check_interval_ms: int = 3_600_000
    request_timeout_ms: int = 30_000

    @classmethod
    def from_broker(cls, config: Mapping[str, Any]) -> Self:
        """The settings of a broker configuration."""
        return cls(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            timeout_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_ms=config["transactional.id.expiration.ms"],
            expiration_check_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            request_timeout_ms=config["request.timeout.ms"],
        )
