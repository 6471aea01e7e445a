"""Regular expressions of clients have a budget of time, and their results are kept."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.groups.consumer.regex import Look, RegexTopics
from kafkapy.metadata.image import PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.types import random_uuid
from tests.groups.consumer.consumer_world import ConsumerWorld, beat, join
from tests.network.raw_client import RawClient, eventually


class CpuTime:
    """Shows 10 ms more at each look.

    So long the test of a name takes, or the compilation of an expression.
    """

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * 0.01


@pytest.fixture
def cpu_time() -> CpuTime:
    return CpuTime()


def names(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def finish(look: Look, cpu_time: CpuTime) -> int:
    """Make all pieces of a look at one expression; return how many names were tested."""
    begin, pieces = cpu_time.looks, 0
    while not look.is_over:
        look.work()
        pieces += 1
    return cpu_time.looks - begin - 2 * pieces - 1


def test_a_look_is_made_in_pieces_and_ends_when_its_time_is_over(cpu_time: CpuTime) -> None:
    kept = RegexTopics(cpu_time)
    look = kept.look([".*0"], names(150))
    look.work()
    assert 3 <= len(look.tested[".*0"].names) <= 5, "other groups have their turns"
    finish(look, cpu_time)
    assert not look.is_done
    assert not look.found
    tested = len(look.tested[".*0"].names)
    assert 80 <= tested <= 100
    kept.keep(look, names(150))
    again = kept.look([".*0"], names(150))
    assert finish(again, cpu_time) == 150 - tested, "it continued where the first one stopped"
    assert again.is_done
    assert again.found == {".*0": frozenset(f"t{number}" for number in range(0, 150, 10))}


def test_only_new_names_are_tested_again(cpu_time: CpuTime) -> None:
    kept = RegexTopics(cpu_time)
    look = kept.look([".*0"], names(20))
    assert finish(look, cpu_time) == 20
    kept.keep(look, names(20))
    later = [*names(20)[5:], "t100"]
    look = kept.look([".*0"], later)
    assert finish(look, cpu_time) == 1
    assert look.found == {".*0": frozenset({"t10", "t100"})}


def test_what_is_kept_is_bounded(cpu_time: CpuTime) -> None:
    kept = RegexTopics(cpu_time)
    kept.max_kept = 25
    for text in ("a", "b", "c"):
        look = kept.look([text], names(10))
        finish(look, cpu_time)
        kept.keep(look, names(10))
    for text, tested in (("c", 0), ("b", 0), ("a", 10)):
        assert finish(kept.look([text], names(10)), cpu_time) == tested


async def test_a_group_with_costly_expressions_gets_its_topics_later(
    cpu_time: CpuTime, caplog: pytest.LogCaptureFixture
) -> None:
    world = ConsumerWorld()
    world.groups.consumers.regex_topics = RegexTopics(cpu_time)
    await world.start()
    state = (PartitionState(1, 0, (1,), (1,)),)
    world.publish(world.image.with_topics([Topic(name, random_uuid(), state) for name in names(150)]))
    request = join("m")
    request.subscribed_topic_names, request.subscribed_topic_regex = None, ".*0"
    with caplog.at_level(logging.WARNING):
        assert (await world.heartbeat(request)).error_code == ErrorCode.NONE
        await settle(world)
    assert "its regular expressions take long" in caplog.text
    assert not world.group().regexes
    seen = cpu_time.looks
    await world.heartbeat(beat("m", world.group().members["m"].epoch))
    await settle(world)
    assert cpu_time.looks == seen, "the group waits"
    await world.advance(11)
    await world.heartbeat(beat("m", world.group().members["m"].epoch))
    await settle(world)
    assert len(world.group().regexes[".*0"].topics) == 15
    world.check_stored()
    await world.groups.stop()


async def settle(world: ConsumerWorld) -> None:
    for _ in range(10):
        await world.settle()


def test_costly_work_of_clients_does_not_keep_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, began = threading.Event(), threading.Semaphore(0)

    def stuck(text: str) -> Any:
        began.release()
        gate.wait(60)
        return None

    monkeypatch.setattr("kafkapy.groups.coordinator.error_in", stuck)
    with kafkapy.Broker(data_dir=tmp_path, config={"background.threads": 2}) as broker:
        clients = [RawClient(broker.bootstrap_servers) for _ in range(12)]
        try:
            find = FindCoordinatorRequest(key="g", key_type=0)
            eventually(lambda: clients[0].ask(find, 2).error_code == ErrorCode.NONE, "a coordinator")
            for number, client in enumerate(clients[1:]):
                request = ConsumerGroupHeartbeatRequest(
                    group_id=f"g{number}",
                    member_id="m",
                    rebalance_timeout_ms=1000,
                    subscribed_topic_regex=f"t{number}",
                    topic_partitions=[],
                )
                client.send(encode_request(request, 1, 7, "raw"))
            assert began.acquire(timeout=30)
            (result,) = clients[0].ask(DescribeLogDirsRequest(topics=None), 4).results
            assert result.error_code == ErrorCode.NONE
            assert not gate.is_set()
        finally:
            gate.set()
            for client in clients:
                client.close()
