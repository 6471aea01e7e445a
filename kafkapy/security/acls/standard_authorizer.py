"""The authorizer that decides by the ACLs in the metadata tree.

It follows the metadata, so that a change of ACLs is in effect when its request is answered, and at other
brokers as soon as they have read it. Decisions are kept until ACLs change. Source: Kafka's
StandardAuthorizer, AclAuthorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkapy.metadata.image import MetadataImage
from kafkapy.security.acls.authorizer import ANY_NAME, Authorizer
from kafkapy.security.acls.index import AclIndex
from kafkapy.security.acls.model import (
    ALL_OPERATIONS,
    Operation,
    ResourcePattern,
    ResourceType,
)
from kafkapy.security.acls.nodes import PatternAcls, decode_acls, pattern_at

logger = logging.getLogger(__name__)

SUPER_USERS: Final = "super.users"
ALLOW_IF_NONE: Final = "allow.everyone.if.no.acl.found"

MOST_KEPT: Final = 20_000
"""The most decisions that are kept, some 8 MB with names of topics."""

LONGEST_KEPT: Final = 250
"""The longest name of a resource, and of a principal, for which decisions are kept.

No topic has a longer name.
"""


class StandardAuthorizer(Authorizer):
    """Decides by ACLs."""

    def __init__(self) -> None:
        self.patterns: dict[ResourcePattern, PatternAcls] = {}
        """All ACLs; others must not change it."""
        self._super_users: frozenset[str] = frozenset()
        self._index = AclIndex()
        self._kept: dict[tuple[str, str, ResourceType, str], int] = {}
        """The operations that were allowed, by principal, host and resource."""
        self._kept_by_type: dict[tuple[str, str, Operation, ResourceType], bool] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the super users and the default.

        Raises:
            ValueError: a super user has no type.
        """
        users = [user.strip() for user in configs.get(SUPER_USERS, "").split(";") if user.strip()]
        for user in users:
            if ":" not in user:
                raise ValueError(f"{SUPER_USERS}: {user} is not in the form User:name")
        self._super_users = frozenset(users)
        self._index = AclIndex(
            allow_if_none=configs.get(ALLOW_IF_NONE, "").strip().lower() == "true",
        )

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        """Take the ACLs of a new image of the metadata."""
        if old.acls is new.acls:
            return
        changed = [path for path, node in new.acls.items() if old.acls.get(path) is not node]
        changed += [path for path in old.acls if path not in new.acls]
        for path in changed:
            pattern = pattern_at(path)
            if pattern is None:
                logger.error("the metadata node %s is not one for ACLs; it is ignored", path)
                continue
            node = new.acls.get(path)
            if node is None:
                self.patterns.pop(pattern, None)
                self._index.put(pattern, ())
            else:
                found = self.patterns[pattern] = decode_acls(path, pattern, node)
                self._index.put(pattern, found.acls)
        self._kept.clear()
        self._kept_by_type.clear()

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether ACLs allow the operation."""
        allowed = self._kept.get((principal, host, resource_type, name))
        if allowed is None:
            allowed = self._allowed(principal, host, resource_type, name)
        return allowed >> operation & 1 == 1

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether ACLs allow the operation on some resource of the type."""
        if self.authorize(principal, host, operation, resource_type, ANY_NAME):
            return True
        asked = principal, host, operation, resource_type
        answer = self._kept_by_type.get(asked)
        if answer is None:
            answer = self._index.allowed_on_some(principal, host, operation, resource_type)
            if len(principal) <= LONGEST_KEPT:
                if len(self._kept_by_type) >= MOST_KEPT:
                    self._kept_by_type.clear()
                self._kept_by_type[asked] = answer
        return answer

    def _allowed(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        if principal in self._super_users:
            allowed = ALL_OPERATIONS
        else:
            allowed = self._index.allowed(principal, host, resource_type, name)
        if len(name) <= LONGEST_KEPT >= len(principal):
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[principal, host, resource_type, name] = allowed
        return allowed
