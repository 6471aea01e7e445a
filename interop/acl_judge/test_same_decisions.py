"""Apache Kafka's own StandardAuthorizer decides as we do, on random sets of ACLs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import program_command
from kafkapy.security.acls.model import Acl, AclFilter
from tests.crash.results import note
from tests.security.random_acls import World
from tests.security.test_acl_index import authorizer

pytestmark = pytest.mark.jvm

DECISIONS = int(os.environ.get("KAFKAPY_ACL_DECISIONS", "5000"))
"""A release has 50,000."""

OF_A_WORLD = 40
"""A quarter of them about types of resources, and one filter for each."""


def test_no_decision_differs_from_kafkas() -> None:
    with skipped_without_jars():
        command = program_command(Path(__file__).with_name("AclJudge.java"))
    asked: list[str] = []
    ours: list[str] = []
    for seed in range(DECISIONS // OF_A_WORLD):
        _ask(World(seed), asked, ours)
    run = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=True)
    questions = [line for line in asked if not line.startswith(("world", "acl"))]
    theirs = run.stdout.splitlines()
    assert len(theirs) == len(ours) == len(questions)
    differences = [
        (question, our, their)
        for question, our, their in zip(questions, ours, theirs, strict=True)
        if our != their
    ]
    decisions = [answer for answer in theirs if answer in ("true", "false")]
    note(
        "R13",
        "decisions, which Apache Kafka's StandardAuthorizer judges too",
        tried=len(decisions),
        allowed=decisions.count("true"),
        differences=len(differences),
    )
    assert not differences
    assert len(decisions) >= DECISIONS
    assert 0.2 < decisions.count("true") / len(decisions) < 0.8


def _ask(world: World, asked: list[str], ours: list[str]) -> None:
    """Add the questions about a world, and our answers."""
    asked.append(_line("world", str(world.allow_if_none).lower(), ";".join(world.super_users)))
    asked += [_line("acl", *acl.pattern, *acl[1:]) for acl in world.acls]
    decides = authorizer(world)
    for number in range(OF_A_WORLD):
        principal, host, operation, kind, name = question = world.question()
        if number % 4:
            asked.append(_line("may", principal, host, operation, kind, name))
            ours.append(_yes(decides.authorize(*question)))
        else:
            asked.append(_line("some", principal, host, operation, kind))
            ours.append(_yes(decides.authorize_by_resource_type(principal, host, operation, kind)))
            found = world.filter()
            asked.append(_line("find", *("-" if each is None else each for each in _in_order(found))))
            ours.append(";".join(sorted(_text(acl) for acl in world.acls if found.matches(acl))))


def _in_order(found: AclFilter) -> tuple[object, ...]:
    return (
        found.resource_type,
        found.pattern_type,
        found.name,
        found.principal,
        found.host,
        found.operation,
        found.permission,
    )


def _text(acl: Acl) -> str:
    return ",".join(
        str(int(each)) if isinstance(each, int) else each
        for each in (
            acl.pattern.resource_type,
            acl.pattern.pattern_type,
            acl.pattern.name,
            *acl[1:],
        )
    )


def _line(*words: object) -> str:
    return "\t".join(str(int(word)) if isinstance(word, int) else str(word) for word in words)


def _yes(answer: bool) -> str:
    return "true" if answer else "false"
