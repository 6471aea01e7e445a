"""kafka-streams-groups: listing, describing, offsets, deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interop.exactly_once.conftest import SEED
from interop.exactly_once.stage import Stage
from interop.exactly_once.streams_program import PROTOCOLS
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
from interop.java_tools.test_administration import table
from interop.java_tools.tools import tool, tools
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

LINES: Final = 100
GROUP: Final = ("--group", APPLICATION)
INTERNAL: Final = {f"{APPLICATION}-counts-repartition", f"{APPLICATION}-counts-changelog"}


def test_a_group_is_described_reset_and_deleted(stage: Stage, tmp_path: Path) -> None:
    stage.quiet()
    servers = stage.brokers[0].bootstrap_servers
    create_topics(servers, (INPUT, OUTPUT), PARTITIONS)

    def groups(*arguments: str) -> str:
        return tool("streams-groups", servers, *arguments)

    writer, counts = Writer(servers, SEED), Counts(servers)
    writer.write(LINES)
    with word_count(stage.servers, tmp_path, **PROTOCOLS["streams"]) as program:
        program.start()
        counts.read_to(LINES * WORDS_A_LINE)
        counts.close()
        wait_until(lambda: {row["OFFSET-LAG"] for row in table(groups("--describe", *GROUP))} == {"0"})
        listed, states, state, members, lags = tools(
            servers,
            ("streams-groups", "--list"),
            ("streams-groups", "--list", "--state", "Stable"),
            ("streams-groups", "--describe", *GROUP, "--state", "--verbose"),
            ("streams-groups", "--describe", *GROUP, "--members"),
            ("streams-groups", "--describe", *GROUP),
        )
        assert listed.split() == [APPLICATION]
        assert [(row["GROUP"], row["STATE"]) for row in table(states)] == [(APPLICATION, "Stable")]
        (row,) = table(state)
        assert (row["STATE"], row["#MEMBERS"]) == ("Stable", "1")
        assert row["GROUP-EPOCH"] == row["TARGET-ASSIGNMENT-EPOCH"]
        assert "ACTIVE: 0:[0,1]; 1:[0,1];" in members
        assert {(row["TOPIC"], row["PARTITION"]) for row in table(lags)} == {
            (topic, str(number))
            for topic in (INPUT, f"{APPLICATION}-counts-repartition")
            for number in range(PARTITIONS)
        }
        assert "is not EMPTY" in groups("--delete", *GROUP)
        program.stop()
    reset = groups("--reset-offsets", *GROUP, "--all-input-topics", "--to-earliest", "--execute")
    assert {(row["TOPIC"], row["PARTITION"], row["NEW-OFFSET"]) for row in table(reset)} == {
        (INPUT, str(number), "0") for number in range(PARTITIONS)
    }
    assert "Request succeeded" in groups("--delete-offsets", *GROUP, "--input-topic", INPUT)
    assert set(tool("topics", servers, "--list").split()) >= INTERNAL
    groups("--delete", *GROUP, "--delete-all-internal-topics")
    wait_until(lambda: not INTERNAL & set(tool("topics", servers, "--list").split()))
    assert groups("--list").split() == []
