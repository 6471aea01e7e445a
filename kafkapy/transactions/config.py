"""The settings of transactions, none of which is dynamic: they are read once, at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafkapy.configs.part_config import part_config, setting


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Times in milliseconds."""

    max_timeout_ms: int = setting("transaction.max.timeout.ms")
    timeout_check_interval_ms: int = setting("transaction.abort.timed.out.transaction.cleanup.interval.ms")
    expiration_ms: int = setting("transactional.id.expiration.ms")
    expiration_check_interval_ms: int = setting("transaction.remove.expired.transaction.cleanup.interval.ms")
    request_timeout_ms: int = setting("request.timeout.ms")

    @classmethod
    def from_broker(cls, config: Mapping[str, Any]) -> Self:
        """The settings of a broker configuration."""
        return part_config(cls, config)
