"""Creates and deletes ACLs in the metadata tree.

All ACLs of one pattern are in one node (kafkapy/security/acls/nodes.py), which is deleted with its last ACL.
Every broker may change them, each node at the version that its image shows, as with Kafka's AclAuthorizer.
Source: Kafka's AclControlManager, AclAuthorizer.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from kafkapy.metadata.change_notices import ChangeNotices
from kafkapy.metadata.image import NO_NODE, AclNode
from kafkapy.metadata.parent_nodes import ParentNodes
from kafkapy.metadata.store import Create, Delete, MetadataStore, SetData
from kafkapy.metadata.writer import MAX_BYTES, MetadataWriter
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.security.acls import StandardAuthorizer
from kafkapy.security.acls.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkapy.security.acls.nodes import (
    PatternAcls,
    encode_acls,
    encode_change,
    parent_paths,
    path_of,
    why_no_node,
)

MAX_TEXT: Final = 4_000
"""The most characters of an ACL's name, principal and host together. Apache Kafka has no such limit."""

COMPARISONS_AT_ONCE: Final = 1_000
"""How many comparisons of filters and patterns are made before other work is done."""

Change: TypeAlias = tuple[ResourcePattern, frozenset[Acl] | tuple[Acl, ...]]
"""A pattern, and which of its ACLs are created or deleted."""


class AclAdmin:
    """Changes the ACLs of a cluster."""

    patterns_at_once: int = 100
    """How many nodes one transaction changes. Other changes wait for its end."""

    most_at_once: int = MAX_BYTES
    """How many bytes of ACLs one transaction writes."""

    max_node_bytes: int = MAX_BYTES // 2
    """The largest node with ACLs: some 3,000 for one name. ZooKeeper's limit is 1 MiB."""

    max_acls: int = 100_000
    """The most ACLs of a cluster, some 60 MB in each broker. Apache Kafka has no such limit."""

    max_changes: int = 10_000
    """The most ACLs that one request changes (Kafka's MAX_RECORDS_PER_USER_OP)."""

    def __init__(
        self,
        writer: MetadataWriter,
        store: MetadataStore,
        notices: ChangeNotices,
        authorizer: StandardAuthorizer,
    ) -> None:
        self._writer = writer
        self._parents = ParentNodes(store, parent_paths())
        self._notices = notices
        self._authorizer = authorizer

    @property
    def patterns(self) -> dict[ResourcePattern, PatternAcls]:
        """All ACLs."""
        return self._authorizer.patterns

    async def create(self, acls: Sequence[Acl]) -> list[KafkaError | None]:
        """Create ACLs; those that exist stay as they are.

        Returns the error of each, or None.

        Raises:
            KafkaError: the metadata cannot be changed, or too many are to be. The first ACLs may have been
                created.
        """
        if len(acls) > self.max_changes:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
            )
        wanted: dict[ResourcePattern, dict[Acl, None]] = {}
        for acl in acls:
            wanted.setdefault(acl.pattern, {})[acl] = None
        refused: dict[ResourcePattern, KafkaError] = {}
        changes = iter([(pattern, tuple(each)) for pattern, each in wanted.items()])
        while part := list(islice(changes, self.patterns_at_once)):
            await asyncio.sleep(0)
            async with self._writer.turn:
                refused |= await self._writer.until_current(functools.partial(self._create, part))
        return [refused.get(acl.pattern) for acl in acls]

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete the ACLs that filters find; return those of each filter.

        A filter with a name and a type of pattern costs a look-up, any other a comparison with each pattern.

        Raises:
            KafkaError: the metadata cannot be changed, or too many are to be. The first ACLs may have been
                deleted.
        """
        found: list[list[Acl]] = []
        doomed: dict[ResourcePattern, set[Acl]] = {}
        total = 0
        for each in filters:
            found.append([])
            for number, pattern in enumerate(self.find_patterns(each)):
                if number % COMPARISONS_AT_ONCE == COMPARISONS_AT_ONCE - 1:
                    await asyncio.sleep(0)
                if pattern is not None and (here := self.patterns.get(pattern)) is not None:
                    matching = [acl for acl in here.acls if each.matches_entry(acl)]
                    found[-1] += matching
                    doomed.setdefault(pattern, set()).update(matching)
                    total += len(matching)
                    if total > self.max_changes:
                        raise KafkaError(
                            ErrorCode.INVALID_REQUEST,
                            f"Cannot remove more than {self.max_changes} acls in a single delete operation.",
                        )
            await asyncio.sleep(0)
        changes = iter([(pattern, frozenset(acls)) for pattern, acls in doomed.items() if acls])
        while part := list(islice(changes, self.patterns_at_once)):
            await asyncio.sleep(0)
            async with self._writer.turn:
                await self._writer.until_current(functools.partial(self._delete, part))
        return found

    def find_patterns(self, acl_filter: AclFilter) -> Iterator[ResourcePattern | None]:
        """The patterns that a filter finds; None for each that it does not, since it was looked at."""
        if acl_filter.is_of_one_pattern:
            assert acl_filter.name is not None
            pattern = ResourcePattern(acl_filter.resource_type, acl_filter.pattern_type, acl_filter.name)
            yield pattern if pattern in self.patterns else None
            return
        for pattern in list(self.patterns):
            yield pattern if acl_filter.matches_pattern(pattern) else None

    async def _create(self, part: Sequence[Change]) -> dict[ResourcePattern, KafkaError]:
        """Create the ACLs of some patterns; return the errors of those that cannot have them."""
        refused: dict[ResourcePattern, KafkaError] = {}
        changed: dict[ResourcePattern, PatternAcls] = {}
        total = sum(len(each.acls) for each in self.patterns.values())
        for pattern, acls in part:
            before = self.patterns.get(pattern, PatternAcls((), NO_NODE))
            after = before._replace(acls=tuple(dict.fromkeys((*before.acls, *acls))))
            added = len(after.acls) - len(before.acls)
            if not added:
                continue
            if before.is_damaged:
                refused[pattern] = _refused(
                    "The ACLs of this resource cannot be understood: delete the one that denies everything."
                )
            elif total + added > self.max_acls or len(encode_acls(after)) > self.max_node_bytes:
                refused[pattern] = KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"There are too many ACLs: the most is {self.max_acls:,} in all, and "
                    f"{self.max_node_bytes:,} bytes of them for one name.",
                )
            else:
                changed[pattern] = after
                total += added
        await self._commit(changed)
        return refused

    async def _delete(self, part: Sequence[Change]) -> None:
        changed: dict[ResourcePattern, PatternAcls] = {}
        for pattern, acls in part:
            before = self.patterns.get(pattern)
            if (
                before is not None
                and (left := tuple(acl for acl in before.acls if acl not in acls)) != before.acls
            ):
                changed[pattern] = before._replace(acls=left)
        await self._commit(changed)

    async def _commit(self, changed: dict[ResourcePattern, PatternAcls]) -> None:
        """Write and publish the nodes of patterns, in transactions that ZooKeeper takes."""
        if not changed:
            return
        await self._parents.require()
        part: dict[str, tuple[Create | SetData | Delete, ResourcePattern]] = {}
        size = 0
        for pattern, acls in changed.items():
            operation = _operation(path_of(pattern), acls)
            added = 0 if isinstance(operation, Delete) else len(operation.data)
            if part and size + added > self.most_at_once:
                await self._commit_part(part)
                part, size = {}, 0
            part[operation.path] = operation, pattern
            size += added
        await self._commit_part(part)

    async def _commit_part(self, part: dict[str, tuple[Create | SetData | Delete, ResourcePattern]]) -> None:
        operations = [operation for operation, _ in part.values()]
        notices = [Create(*encode_change(pattern), sequence=True) for _, pattern in part.values()]
        results = await self._notices.commit_with(operations, notices)
        nodes: dict[str, AclNode | None] = {}
        for operation, result in zip(operations, results, strict=True):
            if isinstance(operation, Delete):
                nodes[operation.path] = None
            else:
                nodes[operation.path] = AclNode(operation.data, result if isinstance(result, int) else 0)
        self._writer.publish(self._writer.image.with_acls(nodes))


def why_refused(acl: Acl) -> str | None:
    """Why there can be no such ACL; None if there can be one."""
    pattern = acl.pattern
    if pattern.resource_type <= ResourceType.ANY:
        return f"Invalid resourceType {pattern.resource_type.name}"
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {pattern.pattern_type.name}"
    if acl.operation <= Operation.ANY:
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {acl.permission.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal"
            " type from the principal name)"
        )
    if len(pattern.name) + len(acl.principal) + len(acl.host) > MAX_TEXT:
        return f"The name, principal and host of an ACL have at most {MAX_TEXT} characters together."
    return why_no_node(pattern.name)


def _operation(path: str, acls: PatternAcls) -> Create | SetData | Delete:
    if not acls.acls and not acls.unknown:
        return Delete(path, acls.version)
    data = encode_acls(acls)
    return Create(path, data) if acls.version == NO_NODE else SetData(path, data, acls.version)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
