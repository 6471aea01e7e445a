"""Finds what a principal may do on a resource, among many ACLs.

The rules are those of Kafka's StandardAuthorizer. All ACLs whose pattern covers the resource count: those of
its name, of the prefixes of its name, and of "*". Among those for the principal and the host,

- one DENY of the operation denies it, whatever else there is;
- otherwise one ALLOW allows it. READ, WRITE, DELETE and ALTER also allow DESCRIBE, and ALTER_CONFIGS allows
  DESCRIBE_CONFIGS. A DENY of the former does not deny the latter;
- otherwise it is denied. With `allow.everyone.if.no.acl.found` it is allowed if no ACL at all covers the
  resource, be it for this principal or another.

The operations of all ACLs of a pattern for one principal and host are two bit fields. So the answer for a
resource is one bit field of operations, whose cost depends on the number of different lengths of prefixes,
not on the number of ACLs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from kafkapy.security.acls.model import (
    ALL_OPERATIONS,
    ANY_PRINCIPAL,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    with_implied,
)

Caller: TypeAlias = tuple[str, str]
"""A principal and a host, or ANY_PRINCIPAL and WILDCARD."""

Entry: TypeAlias = dict[Caller, tuple[int, int]]
"""The operations that the ACLs of one pattern allow and deny, by caller."""

CONCRETE_TYPES: Final = tuple(each for each in ResourceType if each > ResourceType.ANY)


class AclIndex:
    """ACLs by what they are about."""

    def __init__(self, *, allow_if_none: bool = False) -> None:
        """`allow_if_none` allows everything on resources that no ACL covers."""
        self._default = ALL_OPERATIONS if allow_if_none else 0
        self._literal: dict[ResourceType, dict[str, Entry]] = {each: {} for each in CONCRETE_TYPES}
        self._prefixed: dict[ResourceType, dict[str, Entry]] = {each: {} for each in CONCRETE_TYPES}
        self._counts: dict[ResourceType, Counter[int]] = {each: Counter() for each in CONCRETE_TYPES}
        """How many prefixes have which length."""
        self._lengths: dict[ResourceType, tuple[int, ...]] = dict.fromkeys(CONCRETE_TYPES, ())
        self._with_hosts = 0
        """How many entries are for one host only: most operators have none."""
        self._of_principal: dict[str, dict[ResourcePattern, None]] = {}
        """The patterns with ACLs for a principal."""

    def put(self, pattern: ResourcePattern, acls: Sequence[Acl]) -> None:
        """Replace the ACLs of a pattern."""
        kind, length = pattern.resource_type, len(pattern.name)
        is_prefix = pattern.pattern_type is PatternType.PREFIXED
        patterns = (self._prefixed if is_prefix else self._literal)[kind]
        before = patterns.pop(pattern.name, None)
        for principal, host in before or ():
            self._with_hosts -= host != WILDCARD
            others = self._of_principal.get(principal, {})
            others.pop(pattern, None)
            if not others:
                self._of_principal.pop(principal, None)
        if acls:
            entry = patterns[pattern.name] = _entry(acls)
            for principal, host in entry:
                self._with_hosts += host != WILDCARD
                self._of_principal.setdefault(principal, {})[pattern] = None
        if is_prefix and (before is None) == bool(acls):
            counts = self._counts[kind]
            counts[length] += 1 if acls else -1
            self._lengths[kind] = tuple(sorted(each for each, count in counts.items() if count))

    def allowed(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """The operations that a principal may do on a resource, as a bit field."""
        # Most requests that are not kept come here: the loops are written out.
        literal = self._literal[kind]
        covering = [entry for each in (name, WILDCARD) if (entry := literal.get(each)) is not None]
        prefixed, longest = self._prefixed[kind], len(name)
        for length in self._lengths[kind]:
            if length > longest:
                break
            if (entry := prefixed.get(name[:length])) is not None:
                covering.append(entry)
        if not covering:
            return self._default
        allowed = denied = 0
        for caller in _callers(principal, host if self._with_hosts else WILDCARD):
            for entry in covering:
                if caller in entry:
                    found = entry[caller]
                    allowed |= found[0]
                    denied |= found[1]
        return with_implied(allowed) & ~denied if allowed else 0

    def allowed_on_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether a principal may do an operation on some resource of a type.

        An ALLOW of exactly this operation, or of all, counts, unless a DENY covers its pattern. Source:
        authorizeByResourceType of Kafka's Authorizer.
        """
        callers, literal = _callers(principal, host), self._literal[kind]
        if _has(literal.get(WILDCARD), callers, 1, operation):
            return False
        for pattern in self._patterns_of(principal, kind):
            is_prefix = pattern.pattern_type is PatternType.PREFIXED
            entry = (self._prefixed[kind] if is_prefix else literal)[pattern.name]
            if not _has(entry, callers, 0, operation):
                continue
            if pattern.name == WILDCARD and not is_prefix:
                return True
            if not is_prefix and _has(entry, callers, 1, operation):
                continue
            if not any(_has(above, callers, 1, operation) for above in self._prefixes(kind, pattern.name)):
                return True
        return False

    def _patterns_of(self, principal: str, kind: ResourceType) -> Iterator[ResourcePattern]:
        for each in (principal, ANY_PRINCIPAL):
            for pattern in self._of_principal.get(each, ()):
                if pattern.resource_type is kind:
                    yield pattern

    def _prefixes(self, kind: ResourceType, name: str) -> Iterator[Entry]:
        """The ACLs of the prefixes of a name, which include the name itself."""
        prefixed, longest = self._prefixed[kind], len(name)
        for length in self._lengths[kind]:
            if length > longest:
                break
            if (entry := prefixed.get(name[:length])) is not None:
                yield entry


def _callers(principal: str, host: str) -> tuple[Caller, ...]:
    """The callers whose ACLs are for this principal and host."""
    of_every_host = (principal, WILDCARD), (ANY_PRINCIPAL, WILDCARD)
    return of_every_host if host == WILDCARD else ((principal, host), (ANY_PRINCIPAL, host), *of_every_host)


def _entry(acls: Sequence[Acl]) -> Entry:
    entry: Entry = {}
    for acl in acls:
        allowed, denied = entry.get((acl.principal, acl.host), (0, 0))
        mask = ALL_OPERATIONS if acl.operation is Operation.ALL else 1 << acl.operation
        if acl.permission is Permission.ALLOW:
            allowed |= mask
        else:
            denied |= mask
        entry[acl.principal, acl.host] = allowed, denied
    return entry


def _has(entry: Entry | None, callers: Sequence[Caller], which: int, operation: Operation) -> bool:
    """Whether an ACL allows (`which` 0) or denies (1) the operation to one of the callers."""
    if entry is None:
        return False
    return any((found := entry.get(each)) is not None and found[which] >> operation & 1 for each in callers)
