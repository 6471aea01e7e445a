"""`kafkapy acls`: what kafka-acls.sh does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.errors import UserError

_COLUMNS: Final = ("resource_type", "name", "pattern", "principal", "host", "operation", "permission")
# The options of resources -> Kafka's types
_RESOURCES: Final = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "delegation_token": "DELEGATION_TOKEN",
    "user_principal": "USER",
}
_OPERATIONS: Final = (
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "ClusterAction",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
    "CreateTokens",
    "DescribeTokens",
)
_CLUSTER: Final = "kafka-cluster"


class Acl(NamedTuple):
    """An ACL in Kafka's words."""

    resource_type: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def row(self) -> dict[str, str]:
        """The ACL as an object."""
        return self._asdict()


@click.group()
def acls() -> None:
    """List, add and remove ACLs (kafka-acls.sh)."""


def _resources(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option(
        "--resource-pattern-type",
        "pattern",
        type=click.Choice(["literal", "prefixed", "any", "match"], case_sensitive=False),
        help="Literal or prefixed names; any or match only for list and remove.",
    )(function)
    function = click.option("--cluster", is_flag=True, help="The cluster itself.")(function)
    for name in reversed(_RESOURCES):
        option = "--" + name.replace("_", "-")
        function = click.option(option, metavar="NAME", multiple=True, help="* is all.")(function)
    return function


def _principals(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in ("--deny-host", "--allow-host", "--deny-principal", "--allow-principal"):
        metavar = "User:NAME" if option.endswith("principal") else "HOST"
        function = click.option(option, metavar=metavar, multiple=True)(function)
    return click.option(
        "--operation",
        "-o",
        "operations",
        type=click.Choice(_OPERATIONS, case_sensitive=False),
        multiple=True,
        help="All, if none is given.",
    )(function)


@acls.command("list")
@_resources
@click.option("--principal", "principals", metavar="User:NAME", multiple=True)
@connected
def list_(session: Session, principals: tuple[str, ...], **resources: Any) -> None:
    """List ACLs, of all resources or of those that are named."""
    found: set[Acl] = set()
    for resource in _chosen(resources) or [("ANY", None)]:
        for principal in principals or (None,):
            pattern = (resources["pattern"] or "any").upper()
            found |= set(_matching(session, resource, pattern, principal))
    rows = [acl.row() for acl in sorted(found)]
    session.output.rows(rows, _COLUMNS, empty="there are no ACLs.")


@acls.command()
@_resources
@_principals
@click.option("--producer", is_flag=True, help="What a producer of the topic needs.")
@click.option("--consumer", is_flag=True, help="What a consumer of the topic in the group needs.")
@click.option("--idempotent", is_flag=True, help="With --producer, for brokers before 2.8.")
@dry_run
@connected
def add(session: Session, dry_run: bool, **options: Any) -> None:
    """Add ACLs: kafkapy acls add --allow-principal User:alice --operation Read --topic orders."""
    from kafka.protocol.admin import CreateAclsRequest

    from kafkapy.commands.connection.failures import failure_text

    wanted = list(dict.fromkeys(_wanted(options)))
    error: str | None
    if dry_run:
        rows = [{**acl.row(), "result": "would be added", "error": None} for acl in wanted]
    else:
        creations = [CreateAclsRequest.AclCreation(**_fields(acl)) for acl in wanted]
        answer = session.admin.to_controller(CreateAclsRequest(creations=creations))
        rows = []
        for acl, result in zip(wanted, answer.results, strict=True):
            code = result.error_code
            error = failure_text(code, result.error_message) if code else None
            rows.append({**acl.row(), "result": "failed" if code else "added", "error": error})
    session.results(rows, (*_COLUMNS, "result"))


@acls.command()
@_resources
@_principals
@click.option("--producer", is_flag=True, help="What --producer has added.")
@click.option("--consumer", is_flag=True, help="What --consumer has added.")
@click.option("--idempotent", is_flag=True)
@dry_run
@yes
@connected
def remove(session: Session, dry_run: bool, yes: bool, **options: Any) -> None:
    """Remove ACLs: those that the same options add, or all of a resource."""
    from kafka.protocol.admin import DeleteAclsRequest

    from kafkapy.commands.connection.failures import check, failure_text

    if options["allow_principal"] or options["deny_principal"]:
        existing = set(_matching(session, ("ANY", None), "ANY", None))
        found = {acl for acl in dict.fromkeys(_wanted(options)) if acl in existing}
    else:
        resources = _chosen(options)
        if not resources:
            raise UserError("name a resource, such as --topic orders, or a principal")
        pattern = (options["pattern"] or "literal").upper()
        found = {acl for resource in resources for acl in _matching(session, resource, pattern, None)}
    rows: list[dict[str, Any]] = [{**acl.row(), "result": "would be removed"} for acl in sorted(found)]
    if not rows or dry_run:
        session.output.rows(rows, (*_COLUMNS, "result"), empty="there are no such ACLs.")
        return
    confirm(f"Remove {len(rows)} ACLs? --dry-run shows them.", sure=yes)
    filters = [DeleteAclsRequest.DeleteAclsFilter(**_filter(acl)) for acl in sorted(found)]
    answer = session.admin.to_controller(DeleteAclsRequest(filters=filters))
    for row, result in zip(rows, answer.filter_results, strict=True):
        check(result.error_code, result.error_message, "acls")
        code = next((each.error_code for each in result.matching_acls if each.error_code), 0)
        row |= {"result": "failed" if code else "removed", "error": failure_text(code) if code else None}
    session.results(rows, (*_COLUMNS, "result"))


def _chosen(options: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    chosen: list[tuple[str, str | None]] = [
        (type_, name) for option, type_ in _RESOURCES.items() for name in options[option]
    ]
    return [*chosen, ("CLUSTER", _CLUSTER)] if options["cluster"] else chosen


def _wanted(options: Mapping[str, Any]) -> Iterator[Acl]:
    """The ACLs that the options describe; raises UserError for options that make none."""
    pattern = (options["pattern"] or "literal").upper()
    if pattern not in ("LITERAL", "PREFIXED"):
        raise UserError(f"--resource-pattern-type {pattern.lower()}: an ACL is literal or prefixed")
    principals = [
        *((each, "ALLOW", options["allow_host"]) for each in options["allow_principal"]),
        *((each, "DENY", options["deny_host"]) for each in options["deny_principal"]),
    ]
    if not principals:
        raise UserError("name a principal: --allow-principal User:NAME or --deny-principal User:NAME")
    rights = list(_rights(options))
    if not rights:
        raise UserError("name a resource, such as --topic orders, --group shop or --cluster")
    for principal, permission, hosts in principals:
        if ":" not in principal:
            raise UserError(f"{principal} is no principal: expected User:NAME")
        for host in hosts or ("*",):
            for type_, name, operation in rights:
                literal = type_ == "CLUSTER" or name == "*"
                yield Acl(
                    type_, name, "LITERAL" if literal else pattern, principal, host, operation, permission
                )


def _rights(options: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Resources and operations; those of `--producer` and `--consumer` are kafka-acls.sh's."""
    topics, groups, ids = options["topic"], options["group"], options["transactional_id"]
    if not (options["producer"] or options["consumer"]):
        for type_, name in _chosen(options):
            for operation in options["operations"] or ("All",):
                yield type_, str(name), operation
        return
    if not topics or (options["consumer"] and not groups):
        raise UserError("--producer needs --topic; --consumer needs --topic and --group")
    if options["operations"]:
        raise UserError("--producer and --consumer have their operations: leave --operation out")
    if options["producer"]:
        for name in topics:
            yield from (("TOPIC", name, operation) for operation in ("Write", "Describe", "Create"))
        for name in ids:
            yield from (("TRANSACTIONAL_ID", name, operation) for operation in ("Write", "Describe"))
        if options["idempotent"]:
            yield "CLUSTER", _CLUSTER, "IdempotentWrite"
    if options["consumer"]:
        for name in topics:
            yield from (("TOPIC", name, operation) for operation in ("Read", "Describe"))
        for name in groups:
            yield "GROUP", name, "Read"


def _matching(
    session: Session, resource: tuple[str, str | None], pattern: str, principal: str | None
) -> Iterator[Acl]:
    from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourceType
    from kafka.protocol.admin import DescribeAclsRequest

    from kafkapy.commands.connection.failures import check

    type_, name = resource
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType[type_],
        resource_name_filter=name,
        pattern_type_filter=ACLResourcePatternType[pattern],
        principal_filter=principal,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
    )
    answer = session.admin.send(request)
    check(answer.error_code, answer.error_message, "acls")
    for found in answer.resources:
        for acl in found.acls:
            yield Acl(
                ResourceType(found.resource_type).name,
                found.resource_name,
                ACLResourcePatternType(found.pattern_type).name,
                acl.principal,
                acl.host,
                _word(ACLOperation(acl.operation).name),
                ACLPermissionType(acl.permission_type).name,
            )


def _word(constant: str) -> str:
    """`CLUSTER_ACTION` as kafka-acls.sh writes it: `ClusterAction`."""
    return constant.title().replace("_", "")


def _codes(acl: Acl) -> tuple[int, int, int, int]:
    from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourceType

    operation = next(each for each in ACLOperation if _word(each.name) == acl.operation)
    return (
        ResourceType[acl.resource_type],
        ACLResourcePatternType[acl.pattern],
        operation,
        ACLPermissionType[acl.permission],
    )


def _fields(acl: Acl) -> dict[str, Any]:
    type_, pattern, operation, permission = _codes(acl)
    return {
        "resource_type": type_,
        "resource_name": acl.name,
        "resource_pattern_type": pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": operation,
        "permission_type": permission,
    }


def _filter(acl: Acl) -> dict[str, Any]:
    type_, pattern, operation, permission = _codes(acl)
    return {
        "resource_type_filter": type_,
        "resource_name_filter": acl.name,
        "pattern_type_filter": pattern,
        "principal_filter": acl.principal,
        "host_filter": acl.host,
        "operation": operation,
        "permission_type": permission,
    }
