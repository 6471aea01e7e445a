"""The audit log: what clients are refused, and at debug level what they are allowed.

The logger is `kafkapy.authorizer`, as Apache Kafka's is `kafka.authorizer.logger`. A line in JSON has these
fields besides `message`: principal, host, operation, resource_type, resource_name, api, result.

Clients that are refused try again, and some mean to fill the disk. So each refusal is logged once a minute,
at most MOST_OF_CLIENT of one principal from one host, and MOST of all. After the minute a line for each
client says how many are missing. Source: logAuditMessage of Kafka's StandardAuthorizerData.
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from kafkapy.logs.text import quoted, shortened
from kafkapy.protocol.types import ApiKey
from kafkapy.security.acls.model import Operation, ResourceType

logger = logging.getLogger("kafkapy.authorizer")

SECONDS: Final = 60.0
"""How long a refusal that is repeated is not logged again."""

MOST_OF_CLIENT: Final = 20
"""The refusals of one client that are logged in that time."""

MOST: Final = 200
"""The refusals of all clients that are logged in that time."""

MOST_COUNTED: Final = 50
"""The clients whose missing refusals are counted each for itself."""

CallLater: TypeAlias = Callable[[float, Callable[[], None]], TimerHandle]


class AuditLog:
    """Logs decisions of the authorizer."""

    def __init__(self, call_later: CallLater) -> None:
        """`call_later` calls a function on the event loop after some seconds."""
        self._call_later = call_later
        self._timer: TimerHandle | None = None
        """Ends the minute; None if nothing has been refused in it."""
        self._logged: set[tuple[str, str, ApiKey, Operation, ResourceType, str]] = set()
        self._of_client: Counter[tuple[str, str]] = Counter()
        """The refusals that were logged, by principal and host."""
        self._missing: Counter[tuple[str, str]] = Counter()
        self._missing_of_others = 0

    @property
    def logs_allowed(self) -> bool:
        """Whether `allowed` logs anything: it costs much at each request."""
        return logger.isEnabledFor(logging.DEBUG)

    def allowed(
        self,
        principal: str,
        host: str,
        api_key: int,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> None:
        """Log that a client was allowed an operation."""
        api = ApiKey(api_key)
        _log(logging.DEBUG, "allowed", principal, host, api, operation, resource_type, shortened(name))

    def refused(
        self,
        principal: str,
        host: str,
        api_key: int,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> None:
        """Log that a client was refused an operation."""
        if self._timer is None:
            self._timer = self._call_later(SECONDS, self._end_minute)
        client = principal, host
        # First what is cheap: a request may name ten thousand topics that the client may not use.
        if self._of_client.get(client, 0) >= MOST_OF_CLIENT or len(self._logged) >= MOST:
            self._count_missing(client)
            return
        api, name = ApiKey(api_key), shortened(name)
        refusal = principal, host, api, operation, resource_type, name
        if refusal in self._logged:
            self._count_missing(client)
            return
        self._logged.add(refusal)
        self._of_client[client] += 1
        _log(logging.INFO, "refused", principal, host, api, operation, resource_type, name)

    def close(self) -> None:
        """Log how many refusals are missing: the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._end_minute()

    def _count_missing(self, client: tuple[str, str]) -> None:
        if client in self._missing or len(self._missing) < MOST_COUNTED:
            self._missing[client] += 1
        else:
            self._missing_of_others += 1

    def _end_minute(self) -> None:
        for (principal, host), count in self._missing.items():
            logger.info(
                "%s from %s was refused %d more times in the last minute",
                quoted(principal),
                host,
                count,
                extra={"fields": {"principal": shortened(principal), "host": host, "refusals": count}},
            )
        if self._missing_of_others:
            logger.info("Other clients were refused %d more times", self._missing_of_others)
        self._timer = None
        self._logged.clear()
        self._of_client.clear()
        self._missing.clear()
        self._missing_of_others = 0


def _log(
    level: int,
    result: str,
    principal: str,
    host: str,
    api: ApiKey,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> None:
    logger.log(
        level,
        "%s from %s was %s %s on %s %s by %s",
        quoted(principal),
        host,
        result,
        operation.name,
        resource_type.name,
        quoted(name),
        api.name,
        extra={
            "fields": {
                "principal": shortened(principal),
                "host": host,
                "operation": operation.name,
                "resource_type": resource_type.name,
                "resource_name": name,
                "api": api.name,
                "result": result,
            }
        },
    )
