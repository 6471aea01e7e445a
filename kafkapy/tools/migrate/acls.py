"""ACLs in Kafka's metadata records, and in the nodes of a metadata tree.

Records have one ACL each, with an id of its own; a node has all ACLs of a pattern
(kafkapy/security/acls/nodes.py). Source: Kafka's StandardAcl, AclControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkapy.logs.text import listed
from kafkapy.metadata.image import AclNode
from kafkapy.protocol.messages.metadata_records import AccessControlEntryRecord
from kafkapy.protocol.types import random_uuid
from kafkapy.security.acls.model import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkapy.security.acls.nodes import (
    PatternAcls,
    decode_acls,
    encode_acls,
    path_of,
    pattern_at,
    why_no_node,
)


def acl_nodes(records: Iterable[AccessControlEntryRecord], not_carried: list[str]) -> dict[str, AclNode]:
    """Return the nodes for these ACLs by path.

    Those that no node can have are added to `not_carried`, in words.
    """
    by_pattern: dict[ResourcePattern, dict[Acl, None]] = {}
    nameless: dict[str, None] = {}
    unknown = 0
    for record in records:
        try:
            kind, pattern_type = ResourceType(record.resource_type), PatternType(record.pattern_type)
            operation, permission = Operation(record.operation), Permission(record.permission_type)
        except ValueError:
            unknown += 1
            continue
        if why_no_node(record.resource_name) is not None:
            nameless[record.resource_name] = None
            continue
        pattern = ResourcePattern(kind, pattern_type, record.resource_name)
        acl = Acl(pattern, record.principal, record.host, operation, permission)
        by_pattern.setdefault(pattern, {})[acl] = None
    if nameless:
        not_carried.append(
            f"access control entries for these names, which nodes cannot have: {listed(nameless)}"
        )
    if unknown:
        not_carried.append(f"{unknown} access control entries of unknown kinds")
    return {
        path_of(pattern): AclNode(encode_acls(PatternAcls(tuple(acls), 0)), 0)
        for pattern, acls in by_pattern.items()
    }


def acl_records(acls: Mapping[str, AclNode]) -> Iterator[AccessControlEntryRecord]:
    """Yield the records for the ACLs in these nodes; a node that is damaged denies everything."""
    for found in _decoded(acls):
        for acl in found.acls:
            yield AccessControlEntryRecord(
                id=random_uuid(),
                resource_type=acl.pattern.resource_type,
                resource_name=acl.pattern.name,
                pattern_type=acl.pattern.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )


def unknown_entries(acls: Mapping[str, AclNode]) -> int:
    """Return how many entries `acl_records` leaves out: those of a later release."""
    return sum(len(found.unknown) for found in _decoded(acls))


def _decoded(acls: Mapping[str, AclNode]) -> Iterator[PatternAcls]:
    for path, node in acls.items():
        pattern = pattern_at(path)
        if pattern is not None:
            yield decode_acls(path, pattern, node)
