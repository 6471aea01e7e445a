"""Apache Kafka's own KerberosShortNamer makes the same names as we do, by random rules."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import program_command
from kafkapy.security.sasl.kerberos.short_names import ShortNameError, ShortNames

pytestmark = pytest.mark.jvm

QUESTIONS = 20_000
FORMATS = ("$1", "$2", "$1@$0", "$1.$2", "$2-$1$0", "x", "$1$1", "$3", "$", "$1/x", "$01")
PATTERNS = (".*", "a.*", r"[ab]+", ".*@REALM", ".*@(?:REALM|OTHER", r"\w+@.*", "x?", r"\d*", "B|a", "(?i)a.*")
SOURCES = ("a", "@.*", "(a)(b)?", "x*", "", r"\.", "[A-C]", "b$", "^.", r"(\w)(\w)", "(")
TARGETS = ("", "b", r"\$", "$0$0", "-", r"\\", "x$01", "$1", "$10", "$1$1", "$2x", "$1$2")
"""Six for every pattern, four that need a group, and two that need another."""
NAMES = ("a", "ab", "Ab", "b.c", "B", "x1", "", "aab", "ä", "a$b")
HOSTS = ("", "b", "h.example", "A")
REALMS = ("REALM", "OTHER", "", "realm")


def rule(chance: random.Random) -> str:
    if chance.random() < 0.15:
        return "DEFAULT"
    parts = [f"RULE:[{chance.choice(('1', '2', '1', '2', '3', '01', ''))}:{chance.choice(FORMATS)}]"]
    if chance.random() < 0.5:
        parts.append(f"({chance.choice(PATTERNS)})")
    if chance.random() < 0.5:
        source = chance.choice(SOURCES)
        targets = TARGETS[: (6, 10, 12)[source.count("(")]]
        parts.append(f"s/{source}/{chance.choice(targets)}/{chance.choice(('', 'g'))}")
    parts.append(chance.choice(("", "", "/L", "/U", "L", "U", "/")))
    text = "".join(parts)
    # A replacement that cannot work ends our start; Apache Kafka finds out when it is used.
    if "s/" not in text and chance.random() < 0.06:
        place = chance.randrange(len(text))
        text = text[:place] + text[place + 1 :]
    return text


def name(chance: random.Random) -> str:
    text = chance.choice(NAMES)
    if chance.random() < 0.5:
        text += f"/{chance.choice(HOSTS)}"
    if chance.random() < 0.95:
        text += f"@{chance.choice(REALMS)}"
    return text + "/x" * (chance.random() < 0.02)


def ours(rules: list[str], full: str) -> str:
    try:
        names = ShortNames(rules, "REALM")
    except ShortNameError:
        return "refused"
    try:
        return f"={names.short_name(full)}"
    except ShortNameError:
        return "none"


def test_no_name_differs_from_kafkas() -> None:
    with skipped_without_jars():
        command = program_command(Path(__file__).with_name("ShortNames.java"))
    chance = random.Random(1)
    asked = [([rule(chance) for _ in range(chance.randint(1, 3))], name(chance)) for _ in range(QUESTIONS)]
    lines = "\n".join(f"{','.join(rules)}\t{full}" for rules, full in asked)
    run = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    theirs = run.stdout.splitlines()
    assert len(theirs) == len(asked)
    differences = [
        (question, our, their)
        for question, our, their in zip(asked, (ours(*question) for question in asked), theirs, strict=True)
        if our != their
    ]
    assert not differences[:10]
    assert sum(answer.startswith("=") for answer in theirs) > QUESTIONS / 10
