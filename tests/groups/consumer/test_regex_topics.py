"""Regular expressions of clients have a budget of time, and their results are kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kafkapy
from kafkapy.groups.consumer import regex
from kafkapy.groups.consumer.regex import Look, RegexTopics
from kafkapy.metadata.image import PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.types import random_uuid
from tests.groups.consumer.consumer_world import ConsumerWorld, beat, join
from tests.loop.turned_clock import TurnedClock
from tests.network.raw_client import RawClient, eventually


class CountingPattern:
    """Matches names that end in 0, and counts the names that it was tested with."""

    def __init__(self, seconds: Callable[[], None]) -> None:
        self.tested: list[str] = []
        self._seconds = seconds

    def fullmatch(self, text: str) -> bool:
        self.tested.append(text)
        self._seconds()
        return text.endswith("0")


@pytest.fixture
def pattern(monkeypatch: pytest.MonkeyPatch) -> CountingPattern:
    """The one pattern there is, of which each test takes 10 ms."""
    cpu_time = TurnedClock()
    made = CountingPattern(lambda: cpu_time.turn_ms(10))
    monkeypatch.setattr(regex, "compile_pattern", lambda text: made)
    monkeypatch.setattr(regex, "time", SimpleNamespace(thread_time=cpu_time.monotonic))
    return made


def names(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def finish(look: Look) -> int:
    """Make all pieces of a look; return how many there were."""
    pieces = 0
    while not look.is_over:
        look.work()
        pieces += 1
    return pieces


def test_a_look_is_made_in_pieces_and_ends_when_its_time_is_over(pattern: CountingPattern) -> None:
    kept = RegexTopics()
    look = kept.look([".*0"], names(150))
    look.work()
    assert 5 <= len(pattern.tested) <= 7, "other groups have their turns"
    assert finish(look) > 10
    assert not look.is_done
    assert not look.found
    assert 100 <= len(pattern.tested) <= 120
    kept.keep(look, names(150))
    again = kept.look([".*0"], names(150))
    finish(again)
    assert again.is_done
    assert again.found == {".*0": frozenset(f"t{number}" for number in range(0, 150, 10))}
    assert len(pattern.tested) == 150, "it continued where the first one stopped"


def test_only_new_names_are_tested_again(pattern: CountingPattern) -> None:
    kept = RegexTopics()
    look = kept.look([".*0"], names(20))
    finish(look)
    kept.keep(look, names(20))
    pattern.tested.clear()
    later = [*names(20)[5:], "t100"]
    look = kept.look([".*0"], later)
    finish(look)
    assert pattern.tested == ["t100"]
    assert look.found == {".*0": frozenset({"t10", "t100"})}


def test_what_is_kept_is_bounded(pattern: CountingPattern) -> None:
    kept = RegexTopics()
    kept.max_kept = 25
    for text in ("a", "b", "c"):
        look = kept.look([text], names(10))
        finish(look)
        kept.keep(look, names(10))
    pattern.tested.clear()
    for text, tested in (("c", 0), ("b", 0), ("a", 10)):
        finish(kept.look([text], names(10)))
        assert len(pattern.tested) == tested


async def test_a_group_with_costly_expressions_gets_its_topics_later(
    pattern: CountingPattern, caplog: pytest.LogCaptureFixture
) -> None:
    world = ConsumerWorld()
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
    seen = len(pattern.tested)
    await world.heartbeat(beat("m", world.group().members["m"].epoch))
    await settle(world)
    assert len(pattern.tested) == seen, "the group waits"
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
