"""The interface of all authorizers (Kafka's Authorizer, KIP-504)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from kafkapy.security.acls.model import OPERATIONS, Operation, ResourceType

ANY_NAME: Final = "hardcode"
"""Stands for the name of some resource that no ACL names (Kafka's authorizeByResourceType)."""


class Authorizer(ABC):
    """Decides what a principal may do."""

    def configure(self, configs: Mapping[str, str]) -> None:  # noqa: B027  not every authorizer needs it
        """Take the settings of the broker, as they were given, before the first request.

        An authorizer may have settings of its own among them. If this raises, the broker does not start.
        """

    def close(self) -> None:  # noqa: B027  nor this
        """Release what the authorizer holds: the broker stops."""

    @abstractmethod
    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a principal, such as "User:alice", may do an operation on a resource.

        `host` is the address of the client. If this raises, the client gets UNKNOWN_SERVER_ERROR.
        """

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a principal may do an operation on some resource of a type.

        A producer that may write to some topic may have a producer id (KIP-679).
        """
        return self.authorize(principal, host, operation, resource_type, ANY_NAME)

    def authorized_operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that a principal may do on a resource, as a bit field (KIP-430)."""
        return sum(
            1 << operation
            for operation in Operation
            if OPERATIONS[resource_type] >> operation & 1
            and self.authorize(principal, host, operation, resource_type, name)
        )
