"""The delegation tokens of a broker that has their secret key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers

if TYPE_CHECKING:
    from kafkapy.security.token_cache import TokenCache


def token_cache(start: Start, workers: Workers) -> TokenCache | None:
    """The tokens of the cluster; None without a secret key.

    Then their code is not imported.
    """
    config = start.config
    secret_key = config["delegation.token.secret.key"] or config["delegation.token.master.key"]
    if not secret_key:
        return None
    from kafkapy.security.token_cache import TokenCache

    return TokenCache(secret_key, start.metadata, start.machine.clock, workers.threads.costly)
