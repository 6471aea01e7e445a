"""The coordinators of a sole broker are made when the first of them is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.handlers import APIS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from tests.broker.test_descriptors import HEALED, starving
from tests.handlers.group_client import commit, committed, fetch_offsets, find_coordinator, join, send
from tests.handlers.produce_client import batch, create_topic, fetch, produce
from tests.network.raw_client import RawClient, eventually
from tests.servers.kafkapy_process import KafkapyProcess

ROOT = Path(__file__).resolve().parents[2]
NONE = ErrorCode.NONE


def run(code: str) -> str:
    """Run a program in a process that has imported nothing yet; return what it prints."""
    ended = subprocess.run(
        (sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


async def has_coordinators(core: BrokerCore) -> bool:
    return core.has_coordinators


def test_requests_that_need_no_coordinator_make_none() -> None:
    with kafkapy.Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        produce(client, "t", batch(b"x"))
        fetch(client, "t", 0)
        assert client.ask(InitProducerIdRequest(transactional_id=None), 4).error_code == NONE
        assert not broker.call(has_coordinators)
        assert client.ask(ListGroupsRequest(), 4).error_code == NONE
        assert broker.call(has_coordinators)


def test_a_transactional_id_needs_its_coordinator() -> None:
    with kafkapy.Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "id", key_type=1)
        request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1000)

        def has_id() -> bool:
            return bool(client.ask(request, 4).error_code == NONE)

        eventually(has_id, "the coordinator has loaded its partition")


def test_an_internal_topic_that_a_client_creates_is_coordinated() -> None:
    with kafkapy.Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, GROUP_METADATA_TOPIC, 3)
        eventually(lambda: broker.call(has_coordinators), "the broker leads a partition of it")
        create_topic(client, "t")
        assert commit(client, "g", {("t", 0): 5}) == {("t", 0): NONE}


def test_a_broker_with_groups_has_its_coordinators_when_it_serves_clients(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        find_coordinator(client, "g")
        assert commit(client, "g", {("t", 0): 5}) == {("t", 0): NONE}
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert broker.call(has_coordinators)
        eventually(
            lambda: committed(fetch_offsets(client, "g", {"t": [0]})) == {("t", 0): 5}, "the group is loaded"
        )


def test_the_first_request_for_a_coordinator_does_not_hold_the_loop(tmp_path: Path) -> None:
    run(
        f"""
import pathlib, pytest, sys
from tests.handlers import group_client, produce_client
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient
watch = LoopWatch(pytest.MonkeyPatch())
with watch.broker(pathlib.Path({str(tmp_path)!r})) as broker, RawClient(broker.bootstrap_servers) as client:
    assert "kafkapy.groups.coordinator" not in sys.modules
    with watch.watching():
        group_client.find_coordinator(client, "g")
        group_client.join(client, "g")
    assert "kafkapy.groups.coordinator" in sys.modules
    watch.check()
"""
    )


def test_no_handler_imports_the_coordinators_on_the_loop() -> None:
    """Those that need them are imported after a thread has imported these."""
    modules = [api.module for api in APIS if not api.coordinates]
    imported = run(
        f"""
import importlib, sys
import kafkapy.broker.core
for module in {modules!r}:
    importlib.import_module("kafkapy.handlers." + module)
print(*sys.modules)
"""
    ).split()
    assert "kafkapy.handlers.produce" in imported
    assert not [name for name in imported if name.startswith(("kafkapy.groups.c", "kafkapy.share."))]
    assert "kafkapy.transactions.coordinator" not in imported


def test_a_broker_without_descriptors_makes_its_coordinators_later(tmp_path: Path) -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="x")
    with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        produce(client, "t", batch(b"x"))
        with RawClient(broker.bootstrap_servers) as other, starving(broker):
            send(other, beat, 4)
            assert [answer.error_code for answer in produce(client, "t", batch(b"y"))] == [NONE]

        def is_asked() -> bool:
            with RawClient(broker.bootstrap_servers) as again:
                return bool(again.ask(beat, 4).error_code == ErrorCode.NOT_COORDINATOR)

        eventually(is_asked, "the coordinators are made", HEALED)
        find_coordinator(client, "g")
        join(client, "g")
