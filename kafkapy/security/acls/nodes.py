"""ACLs in the nodes of the metadata tree, as Kafka 3.9's AclAuthorizer keeps them.

    /kafka-acl/Topic/orders                     {"version":1,"acls":[{"principal":"User:alice",
                                                "permissionType":"Allow","operation":"Read","host":"*"}]}
    /kafka-acl-extended/prefixed/Group/app.     the same, for the groups whose names begin with "app."
    /kafka-acl-changes/acl_changes_<n>          TOPIC:orders: a notice for brokers of Apache Kafka
    /kafka-acl-extended-changes/acl_changes_<n> {"version":1,"resourceType":"GROUP","name":"app.",
                                                "patternType":"PREFIXED"}

A node that cannot be understood may have denied something, so that it denies everything on its pattern. An
entry with an operation or a permission that this release does not know matches nothing that a client can ask
for; it is kept as it is. Source: Kafka's ZkData.scala (ZkAclStore), AclEntry.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkapy.metadata import znodes
from kafkapy.metadata.image import AclNode
from kafkapy.security.acls.model import (
    ANY_PRINCIPAL,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

logger = logging.getLogger(__name__)

_VERSION: Final = 1

_TYPES: Final = {each for each in ResourceType if each > ResourceType.ANY}


class PatternAcls(NamedTuple):
    """The ACLs of one pattern, and the version of their node."""

    acls: tuple[Acl, ...]
    version: int
    unknown: tuple[Mapping[str, Any], ...] = ()
    """Entries that this release does not know."""
    is_damaged: bool = False
    """Whether the node cannot be understood: nobody knows what it allowed or denied."""


def camel_case(member: ResourceType | Operation | Permission) -> str:
    """The name of a constant as Kafka writes it in nodes: TransactionalId."""
    return member.name.title().replace("_", "")


def _by_name(kind: type[Any]) -> dict[str, Any]:
    """The constants by their names in nodes, which may be in capitals too."""
    return {spelt: each for each in kind for spelt in (camel_case(each), camel_case(each).upper())}


_RESOURCE_TYPES: Final = {name: each for name, each in _by_name(ResourceType).items() if each in _TYPES}
_OPERATIONS: Final = {name: each for name, each in _by_name(Operation).items() if each >= Operation.ALL}
_PERMISSIONS: Final = {name: each for name, each in _by_name(Permission).items() if each >= Permission.DENY}


def parent_paths() -> list[str]:
    """The nodes above those of ACLs and notices, parents first."""
    paths = [znodes.ACLS, znodes.EXTENDED_ACLS, znodes.PREFIXED_ACLS]
    for parent in (znodes.ACLS, znodes.PREFIXED_ACLS):
        paths += [f"{parent}/{camel_case(each)}" for each in sorted(_TYPES)]
    return [*paths, znodes.ACL_CHANGES, znodes.EXTENDED_ACL_CHANGES]


def path_of(pattern: ResourcePattern) -> str:
    """The node with the ACLs of a pattern."""
    parent = znodes.ACLS if pattern.pattern_type is PatternType.LITERAL else znodes.PREFIXED_ACLS
    return f"{parent}/{camel_case(pattern.resource_type)}/{pattern.name}"


def why_no_node(name: str) -> str | None:
    """Why there can be no node for a resource of this name; None if there can be one."""
    if "/" in name:
        return "The ACLs of a resource are in a node of its name, which has no '/'."
    if name in (".", ".."):
        return "The ACLs of a resource are in a node of its name, which is not '.' or '..'."
    if not name.isprintable() and any(not each.isprintable() and each != " " for each in name):
        return "The ACLs of a resource are in a node of its name, which has only printable characters."
    return None


def pattern_at(path: str) -> ResourcePattern | None:
    """The pattern whose ACLs a node holds; None if it holds none."""
    for parent, pattern_type in (
        (znodes.ACLS, PatternType.LITERAL),
        (znodes.PREFIXED_ACLS, PatternType.PREFIXED),
    ):
        if path.startswith(f"{parent}/"):
            type_name, _, name = path.removeprefix(f"{parent}/").partition("/")
            kind = _RESOURCE_TYPES.get(type_name)
            return (
                None if kind is None or not name or "/" in name else ResourcePattern(kind, pattern_type, name)
            )
    return None


def encode_acls(found: PatternAcls) -> bytes:
    """The content of the node for these ACLs."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": camel_case(acl.permission),
            "operation": camel_case(acl.operation),
            "host": acl.host,
        }
        for acl in found.acls
    ]
    return json.dumps(
        {"version": _VERSION, "acls": [*entries, *found.unknown]}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def decode_acls(path: str, pattern: ResourcePattern, node: AclNode) -> PatternAcls:
    """The ACLs in a node.

    If it cannot be understood, that is logged, and everything on the pattern is denied.
    """
    acls: dict[Acl, None] = {}
    unknown = []
    try:
        fields: dict[str, Any] = json.loads(node.data or b'{"version":1,"acls":[]}')
        if fields["version"] != _VERSION:
            raise ValueError
        for entry in fields["acls"]:
            principal, host = entry["principal"], entry["host"]
            names = entry["operation"], entry["permissionType"]
            if not all(isinstance(each, str) for each in (principal, host, *names)) or ":" not in principal:
                raise ValueError
            operation, permission = _OPERATIONS.get(names[0]), _PERMISSIONS.get(names[1])
            if operation is None or permission is None:
                unknown.append(entry)
            else:
                acls[Acl(pattern, principal, host, operation, permission)] = None
    except (ValueError, KeyError, TypeError, RecursionError):
        logger.error(
            "the metadata node %s cannot be understood: %r; nobody but super users may use what it is about",
            path,
            node.data[:80],
        )
        all_denied = Acl(pattern, ANY_PRINCIPAL, WILDCARD, Operation.ALL, Permission.DENY)
        return PatternAcls((all_denied,), node.version, is_damaged=True)
    if unknown:
        logger.warning(
            "the metadata node %s has ACLs that this release does not know; they have no effect", path
        )
    return PatternAcls(tuple(acls), node.version, tuple(unknown))


def encode_change(pattern: ResourcePattern) -> tuple[str, bytes]:
    """The notice that ACLs have changed: its path without a number, its content."""
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{znodes.ACL_CHANGES}/acl_changes_", f"{pattern.resource_type.name}:{pattern.name}".encode()
    fields = {
        "version": 1,
        "resourceType": pattern.resource_type.name,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
    }
    data = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return f"{znodes.EXTENDED_ACL_CHANGES}/acl_changes_", data
