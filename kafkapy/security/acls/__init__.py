"""Authorization: what a principal may do, by ACLs or by a class of the operator's own.

`authorizer.class.name` names Kafka's StandardAuthorizer or AclAuthorizer, whose work `StandardAuthorizer`
does here, or a Python class as `module:Class`. A class of one's own is a subclass of `Authorizer`, which
decides alone, or of `StandardAuthorizer`, which has the ACLs too:

    from kafkapy.security.acls import Operation, ResourceType, StandardAuthorizer

    class WithTeams(StandardAuthorizer):
        def authorize(self, principal, host, operation, resource_type, name):
            if resource_type == ResourceType.TOPIC and name.startswith(self.team_of(principal)):
                return True
            return super().authorize(principal, host, operation, resource_type, name)

A broker makes one object of the class when it starts. Unlike a policy it is called on the event loop, before
every request that the class has to allow: it must answer from memory, at once.

Source: Kafka's Authorizer (KIP-504).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.security.acls.authorizer import Authorizer
    from kafkapy.security.acls.model import Operation, ResourceType
    from kafkapy.security.acls.standard_authorizer import StandardAuthorizer

__all__ = ["Authorizer", "Operation", "ResourceType", "StandardAuthorizer"]

_MODULES = {
    "Authorizer": "authorizer",
    "Operation": "model",
    "ResourceType": "model",
    "StandardAuthorizer": "standard_authorizer",
}


def __getattr__(name: str) -> object:
    # Imported on first use: handlers need the model, and only some brokers have an authorizer.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
