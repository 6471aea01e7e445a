"""Two processes of an application share its tasks.

One takes over when the other one is killed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from interop.exactly_once.conftest import SEED
from interop.exactly_once.stage import Stage
from interop.exactly_once.streams_program import PROTOCOLS, StreamsProgram
from interop.exactly_once.word_count import (
    APPLICATION,
    INPUT,
    OUTPUT,
    PARTITIONS,
    WORDS_A_LINE,
    Counts,
    Writer,
    word_count,
)
from interop.java_tools.tools import tool
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

LINES: Final = 200


def shown(program: StreamsProgram) -> str:
    """The last line in which a program says which partitions the processes have."""
    lines = [line for line in program.lines() if line.startswith("partitions ")]
    return lines[-1] if lines else ""


def test_a_process_takes_over_the_tasks_of_which_it_has_copies(stage: Stage, tmp_path: Path) -> None:
    servers = stage.brokers[0].bootstrap_servers
    create_topics(servers, (INPUT, OUTPUT), PARTITIONS)
    setting = ["--add-config", "streams.num.standby.replicas=1"]
    tool("configs", servers, "--alter", "--entity-type", "groups", "--entity-name", APPLICATION, *setting)
    part = LINES * WORDS_A_LINE
    counts, writer = Counts(servers), Writer(servers, SEED)
    streams = PROTOCOLS["streams"]
    with (
        word_count(stage.servers, tmp_path / "one", application_server="one:1", **streams) as one,
        word_count(stage.servers, tmp_path / "two", application_server="two:1", **streams) as two,
    ):
        one.start()
        two.start()
        writer.write(LINES)
        counts.read_to(part)
        both = re.compile(r"partitions \{one=[1-9]\d*\+[1-9]\d*, two=[1-9]\d*\+[1-9]\d*\}")
        for program in (one, two):
            wait_until(lambda program=program: both.fullmatch(shown(program)), timeout=60)  # type: ignore[misc]
        one.kill()
        writer.write(LINES)
        counts.read_to(2 * part)
        wait_until(lambda: re.fullmatch(r"partitions \{two=[1-9]\d*\+0\}", shown(two)), timeout=60)
        stage.quiet()
        status = two.stop()
        assert status in (0, 143), two.output()
    counts.read_to(2 * part + 1, timeout=1)
    counts.close()
    assert {word: max(found) for word, found in counts.of.items()} == dict(writer.words)
    assert {word: found for word, found in counts.of.items() if found != list(range(1, len(found) + 1))} == {}
