"""What authorization costs: the CPU time of Produce and Fetch, without and with ACLs.

scripts/bench authorization [--rounds 20] [--requests 2000] [--acls 10000] [--kafka]

Brokers run beside each other (kafkapy with durability=os): one without an authorizer, one with a single ACL,
and one with many. The client is no super user, so ACLs decide about its topic. It sends small requests to one
broker after the other, each when the last one is answered, so that a request has all of its cost. The figures
are medians over the rounds, and the differences those within a round; a busy machine disturbs both. What is
added to a request of one topic is measured alone as well. With --kafka, Apache Kafka 4.3.1 with
its StandardAuthorizer follows; its CPU time has that of its own compiler and collector in it.
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.rights import refusal
from kafkapy.metadata.image import AclNode, MetadataImage
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.types import ApiKey
from kafkapy.security.acls.audit_log import AuditLog
from kafkapy.security.acls.model import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkapy.security.acls.nodes import PatternAcls, encode_acls, path_of
from kafkapy.security.acls.standard_authorizer import StandardAuthorizer
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.load import Target
from scripts.benchmarks.many_partitions import create
from scripts.benchmarks.request_cost import request_cost
from scripts.benchmarks.requests import PRODUCE_VERSION, batch, produce
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.table import aligned
from scripts.benchmarks.wire import exchange

_TOPIC: Final = "bench-0"
_AT_ONCE: Final = 1_000
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Nobody is a super user, and somebody must create the ACLs.
    "allow.everyone.if.no.acl.found": "true",
}


def _requests() -> dict[str, tuple[TopMessage, int]]:
    """The requests with their versions."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    fetch = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=100,
        topics=[FetchTopic(topic=_TOPIC, partitions=[partition])],
    )
    return {"Produce": (produce(_TOPIC, batch(b"x" * 100)), PRODUCE_VERSION), "Fetch": (fetch, 11)}


def _create_acls(connection: socket.socket, count: int) -> None:
    """Allow the client its topic, and let others have the rest of the ACLs."""
    acls = [_acl(_TOPIC, PatternType.LITERAL, "User:ANONYMOUS")]
    acls += [
        _acl(f"other-{number}", PatternType(3 + number % 2), f"User:{number % 1_000}")
        for number in range(count - 1)
    ]
    for start in range(0, len(acls), _AT_ONCE):
        answer = exchange(connection, CreateAclsRequest(creations=acls[start : start + _AT_ONCE]), 3)
        assert not any(each.error_code for each in answer.results)


def _acl(name: str, pattern_type: PatternType, principal: str) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=principal,
        host="*",
        operation=Operation.ALL,
        permission_type=Permission.ALLOW,
    )


def _compare(server: str, folder: Path, rounds: int, requests: int, acls: int) -> list[list[str]]:
    variants = {"no authorizer": 0, "1 ACL": 1, f"{acls:,} ACLs": acls}
    with ExitStack() as stack:
        targets: dict[str, Target] = {}
        for variant, count in variants.items():
            settings = _AUTHORIZER if count else {}
            target = Target(stack.enter_context(new_server(server, folder / f"{server}-{count}", settings)))
            create(target.bootstrap_servers, {_TOPIC: 1})
            if count:
                with target.connect() as connection:
                    _create_acls(connection, count)
            targets[variant] = target
        rows = []
        for name, (request, version) in _requests().items():
            taken: dict[str, list[float]] = {variant: [] for variant in variants}
            for number in range(rounds + 1):  # the first one warms up
                for variant in sorted(variants, reverse=bool(number % 2)):
                    cost = request_cost(targets[variant], request, version, requests)
                    if number:
                        taken[variant].append(cost)
            without = taken["no authorizer"]
            for variant, costs in taken.items():
                more = statistics.median(b - a for a, b in zip(without, costs, strict=True))
                rows.append([server, name, variant, f"{statistics.median(costs):.1f}", f"{more:+.1f}"])
    return rows


def _decide(decisions: int, acls: int) -> list[list[str]]:
    """What is added to a request of one topic: the table of rights, and the decision."""
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, _TOPIC)
    nodes = {pattern: [Acl(pattern, "User:ANONYMOUS", "*", Operation.ALL, Permission.ALLOW)]}
    for number in range(acls - 1):
        kind = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
        other = ResourcePattern(ResourceType.TOPIC, kind, f"other-{number}")
        nodes[other] = [Acl(other, f"User:{number % 1_000}", "*", Operation.ALL, Permission.ALLOW)]
    encoded = {
        path_of(each): AclNode(encode_acls(PatternAcls(tuple(found), 0)), 0) for each, found in nodes.items()
    }
    image = MetadataImage(cluster_id="bench").with_acls(encoded)
    authorizer = StandardAuthorizer()
    authorizer.follow(MetadataImage(cluster_id="bench"), image)
    no_timer: Any = None
    broker = SimpleNamespace(authorizer=authorizer, audit_log=AuditLog(no_timer))
    client = SimpleNamespace(is_this_broker=False, peer_host="127.0.0.1", principal="User:ANONYMOUS")
    header = RequestHeader(ApiKey.PRODUCE, 9, 7, "bench")
    parts: tuple[Any, Any] = broker, client
    context = RequestContext(*parts, ApiKey.PRODUCE, 9, 7, "bench", header)
    began = time.process_time()
    for _ in range(decisions):
        assert refusal(context, None) is None
        assert context.may(Operation.WRITE, ResourceType.TOPIC, _TOPIC)
    cost = (time.process_time() - began) / decisions * 1e6
    return [["kafkapy", "what is added", f"{acls:,} ACL{'s' * (acls > 1)}", "", f"{cost:+.2f}"]]


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--acls", type=int, default=10_000)
    parser.add_argument("--kafka", action="store_true")
    chosen = parser.parse_args(options)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        rows = _compare("kafkapy", Path(folder), chosen.rounds, chosen.requests, chosen.acls)
        for count in (1, chosen.acls):
            rows += _decide(chosen.rounds * chosen.requests, count)
        if chosen.kafka:
            rows += _compare("kafka", Path(folder), chosen.rounds, chosen.requests, chosen.acls)
    print(aligned(["broker", "request", "ACLs", "µs of CPU", "more"], rows))
    return 0
