"""Java's consumers with the consumer protocol (KIP-848).

kafka-consumer-groups looks at them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from interop.confluent_kafka import client as confluent
from interop.conftest import MakeTopic
from interop.java_tools.test_administration import table
from interop.java_tools.tools import command, consume, tool
from interop.support.records import text_records
from interop.support.waiting import wait_until

pytestmark = [pytest.mark.capability("groups"), pytest.mark.capability("group admin"), pytest.mark.slow]


@contextmanager
def consumer(bootstrap_servers: str, group: str, *arguments: str, **properties: str) -> Iterator[None]:
    """A console consumer that runs meanwhile."""
    given = {"group.protocol": "consumer", "auto.offset.reset": "earliest", **properties}
    words = [part for name, value in given.items() for part in ("--command-property", f"{name}={value}")]
    process = subprocess.Popen(
        command("console-consumer", bootstrap_servers, "--group", group, *arguments, *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def members(bootstrap_servers: str, group: str) -> list[dict[str, str]]:
    printed = tool(
        "consumer-groups", bootstrap_servers, "--describe", "--group", group, "--members", "--verbose"
    )
    return table(printed) if "GROUP" in printed else []


def test_a_group_is_read_described_reset_and_deleted(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(partitions=2), text_records(100)
    told = confluent.produce(bootstrap_servers, topic, sent)
    ends = {str(n): str(sum(each.partition() == n for each in told)) for n in (0, 1)}

    def groups(*arguments: str) -> str:
        return tool("consumer-groups", bootstrap_servers, *arguments)

    def offsets() -> dict[str, tuple[str, str]]:
        rows = table(groups("--describe", "--group", name))
        return {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LAG"]) for row in rows}

    received = consume(
        bootstrap_servers, topic, 100, "--group", name, "--command-property", "group.protocol=consumer"
    )
    assert sorted(each.record for each in received) == sorted(sent)
    assert offsets() == {partition: (end, "0") for partition, end in ends.items()}
    reset = ["--group", name, "--reset-offsets", "--topic", topic, "--execute"]
    with consumer(bootstrap_servers, name, "--topic", topic):
        wait_until(lambda: len(members(bootstrap_servers, name)) == 1)
        wait_until(lambda: "Stable" in groups("--describe", "--group", name, "--state"))
        assert re.search(rf"^{name} +Consumer", groups("--list", "--type"), re.MULTILINE)
        assert name in groups("--list", "--type", "consumer").split()
        assert name not in groups("--list", "--type", "classic").split()
        assert name in groups("--list", "--state", "Stable").split()
        (member,) = members(bootstrap_servers, name)
        assert member["#PARTITIONS"] == "2"
        assert "current state is Stable" in groups(*reset, "--to-earliest")
        assert "GroupNotEmptyException" in groups("--delete", "--group", name)
    wait_until(lambda: "Empty" in groups("--describe", "--group", name, "--state"))
    groups(*reset, "--to-earliest")
    assert offsets() == {partition: ("0", end) for partition, end in ends.items()}
    groups(*reset, "--shift-by", "5")
    assert {offset for offset, _lag in offsets().values()} == {"5"}
    groups("--group", name, "--delete-offsets", "--topic", f"{topic}:0")
    groups("--delete", "--group", name)
    assert name not in groups("--list").split()


def test_two_members_share_what_an_expression_matches(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topics = [make_topic(partitions=4), make_topic(partitions=2)]
    expression = "|".join(topics)
    with ExitStack() as running:
        for _ in range(2):
            running.enter_context(consumer(bootstrap_servers, name, "--include", expression))

        def shared() -> bool:
            counts = [row["#PARTITIONS"] for row in members(bootstrap_servers, name)]
            return sorted(counts) == ["3", "3"]

        wait_until(shared, timeout=60)


def test_a_group_moves_to_the_consumer_protocol_and_back_while_it_runs(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(partitions=4)

    def kind() -> str:
        printed = tool("groups", bootstrap_servers, "--list")
        found = re.search(rf"^{name} +(\w+)", printed, re.MULTILINE)
        return found[1] if found else ""

    def has_members(count: int) -> bool:
        rows = members(bootstrap_servers, name)
        return len(rows) == count and sum(int(row["#PARTITIONS"]) for row in rows) == 4

    with consumer(bootstrap_servers, name, "--topic", topic, **{"group.protocol": "classic"}):
        wait_until(lambda: has_members(1), timeout=60)
        assert kind() == "Classic"
        with consumer(bootstrap_servers, name, "--topic", topic):
            wait_until(lambda: has_members(2), timeout=60)
            assert kind() == "Consumer"
        wait_until(lambda: has_members(1), timeout=60)
        assert kind() == "Classic"
