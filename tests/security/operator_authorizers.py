"""Authorizers of an operator, good and bad."""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.security.acls import Authorizer, Operation, ResourceType, StandardAuthorizer


class NoTopics(Authorizer):
    """Allows everything but topics."""

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return resource_type is not ResourceType.TOPIC


class WithTeams(StandardAuthorizer):
    """Lets a user read the topics whose names begin with the user's, whatever ACLs say."""

    closed = 0

    def configure(self, configs: Mapping[str, str]) -> None:
        super().configure(configs)
        self.separator = configs["our.separator"]

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        own = name.startswith(principal.removeprefix("User:") + self.separator)
        if resource_type is ResourceType.TOPIC and own and operation in (Operation.READ, Operation.DESCRIBE):
            return True
        return super().authorize(principal, host, operation, resource_type, name)

    def close(self) -> None:
        WithTeams.closed += 1


class Broken(Authorizer):
    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        raise RuntimeError("no directory")


class Undecided(Authorizer):
    pass


class Coroutine(Authorizer):
    async def authorize(  # type: ignore[override]
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return True
