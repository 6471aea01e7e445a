"""Share groups on the page: their lag is what they have not done with."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import ShareConsumer

from kafkapy import Broker
from kafkapy.broker.core import BrokerCore
from kafkapy.cli import main
from tests.page.browsing import Browser, eventually


@pytest.fixture
def members(broker: Broker, name: str) -> Iterator[list[ShareConsumer]]:
    """Two members of a share group, which knows where it begins."""
    broker.create_topics({name: 1})
    made = []
    for _ in range(2):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": name}
        made.append(ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"}))
        made[-1].subscribe([name])
    yield made
    for member in made:
        member.close()


def begun(broker: Broker, members: list[ShareConsumer]) -> bool:
    """Whether members have asked for records, before which the group begins nowhere."""

    async def count(core: BrokerCore) -> int:
        return len(core.shares.led)

    for member in members:
        member.poll(0.1)
    return broker.call(count) > 0


def test_the_lag_is_what_the_group_has_not_done_with(
    broker: Broker, browser: Browser, name: str, members: list[ShareConsumer]
) -> None:
    def have_partition() -> bool:
        for member in members:
            member.poll(0.1)
        rows = browser.get(f"/group?name={name}").rows
        return sum(row[-1] == f"1: {name}-0" for row in rows) == 2

    eventually(have_partition)
    eventually(lambda: begun(broker, members))
    for number in range(20):
        broker.produce(name, value=str(number))
    done, deadline = 0, time.monotonic() + 60
    while done < 20:
        assert time.monotonic() < deadline
        for member in members:
            for message in member.poll(0.2):
                if message.error() is None:
                    member.acknowledge(message)
                    done += 1
            member.commit_sync()
    eventually(lambda: browser.get(f"/group?name={name}").rows[0][2:4] == ["20", "0"])
    assert browser.get(f"/group?name={name}").rows[0][4] == "rdkafka /127.0.0.1 and 1 more"
    eventually(lambda: [row[5] for row in browser.get(f"/groups?name={name}").rows] == ["0"])
    eventually(lambda: [row[5] for row in browser.get(f"/topics?name={name}").rows] == [f"{name} 0"])
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    described = CliRunner().invoke(main, ["groups", "describe", name, *servers, "--format", "json"])
    assert '"lag": 0' in described.stdout
