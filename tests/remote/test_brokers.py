"""Brokers that are killed, paused, cut off and started from any language."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from kafkapy.cluster import Cluster
from kafkapy.inprocess import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from tests.network.raw_client import RawClient
from tests.remote.conftest import Client, Serve, run_beside


def written(servers: str, seconds: float = 20) -> int:
    """How many records are not written in so many seconds, of one."""
    writer = Producer({"bootstrap.servers": servers, "log_level": 0, "acks": "all"})
    writer.produce("orders", "two apples")
    left: int = writer.flush(seconds)
    writer.purge()
    writer.flush(5)
    return left


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that is whole again after the test."""
    yield shared_cluster
    shared_cluster.heal()
    for number in shared_cluster:
        shared_cluster.resume(number)
        shared_cluster[number].faults.stop()
    shared_cluster.start()


@pytest.fixture
def clients(cluster: Cluster, serve: Serve) -> Client:
    """A client of the brokers of a cluster."""
    return serve(cluster)


# --- a broker alone -----------------------------------------------------------------------------------------


def test_a_broker_is_killed_and_started_with_its_data(client: Client, kafka_broker: Broker) -> None:
    (shown,) = client.ask("GET", "/brokers")[1]["brokers"]
    path = f"/brokers/{shown['broker']}"
    assert shown == {"broker": shown["broker"], "state": "running", "cut_off_from": []}
    assert written(kafka_broker.bootstrap_servers) == 0
    assert client.ask("POST", path, {"do": "kill"}) == (200, shown | {"state": "stopped"})
    assert written(kafka_broker.bootstrap_servers, 0.5) == 1
    assert client.ask("POST", path, {"do": "kill"}) == (200, shown | {"state": "stopped"})
    assert client.ask("POST", path, {"do": "start"}) == (200, shown)
    assert client.ask("POST", path, {"do": "start"}) == (200, shown)
    assert written(kafka_broker.bootstrap_servers) == 0
    assert len(kafka_broker.records("orders")) == 2


def test_a_paused_broker_does_not_answer_until_it_is_resumed(client: Client, kafka_broker: Broker) -> None:
    path = f"/brokers/{kafka_broker.core.node_id}"
    assert client.ask("POST", path, {"do": "pause"})[1]["state"] == "paused"
    assert written(kafka_broker.bootstrap_servers, 0.5) == 1
    assert client.ask("POST", path, {"do": "resume"})[1]["state"] == "running"
    assert written(kafka_broker.bootstrap_servers) == 0


def test_a_fault_that_is_switched_on_in_a_pause_is_met_after_it(client: Client, kafka_broker: Broker) -> None:
    path = f"/brokers/{kafka_broker.core.node_id}"
    client.ask("POST", path, {"do": "pause"})
    told = {"of": "produce", "do": "error", "code": "NOT_LEADER_OR_FOLLOWER", "times": 1}
    assert client.ask("POST", "/faults", told)[0] == 201
    client.ask("POST", path, {"do": "resume"})
    assert written(kafka_broker.bootstrap_servers) == 0
    assert client.ask("GET", "/faults")[1]["faults"][0]["hits"] == 1


@pytest.mark.parametrize(
    ("path", "told", "status", "why"),
    [
        ("", {"do": "explode"}, 400, "do=explode: expected start, stop, kill, pause, resume, cut_off, heal"),
        ("", {}, 400, "do=None: expected start"),
        ("", {"do": "kill", "when": "now"}, 400, "expected do, and no when"),
        ("", {"do": "cut_off"}, 400, "do=cut_off: a broker alone has no others; see kafkapy run --brokers"),
        ("7", {"do": "kill"}, 404, "there is no broker "),
    ],
)
def test_what_cannot_be_done_is_told(
    client: Client, kafka_broker: Broker, path: str, told: dict[str, str], status: int, why: str
) -> None:
    got, answer = client.ask("POST", f"/brokers/{kafka_broker.core.node_id}{path}", told)
    assert got == status
    assert why in answer["error"]
    assert kafka_broker.is_running


def test_a_stopped_broker_is_not_paused(client: Client, kafka_broker: Broker) -> None:
    path = f"/brokers/{kafka_broker.core.node_id}"
    client.ask("POST", path, {"do": "stop"})
    status, told = client.ask("POST", path, {"do": "pause"})
    assert status == 400
    assert "does not run: start it first" in told["error"]


# --- a cluster ----------------------------------------------------------------------------------------------


def test_a_broker_that_ends_while_it_is_described_is_stopped(
    clients: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = cluster[2]
    assert clients.ask("GET", "/brokers/2")[1]["state"] == "running"
    monkeypatch.delitem(cluster._brokers, 2)
    monkeypatch.setattr(Cluster, "__contains__", lambda self, number: True, raising=False)
    assert gone.is_running
    assert clients.ask("GET", "/brokers/2")[1]["state"] == "stopped"


def test_others_take_over_what_a_killed_broker_led(clients: Client, cluster: Cluster) -> None:
    assert written(cluster.bootstrap_servers) == 0
    state = cluster[1].core.metadata.image.partition("orders", 0)
    assert state is not None
    assert clients.ask("POST", f"/brokers/{state.leader}", {"do": "kill"})[1]["state"] == "stopped"
    assert written(cluster.bootstrap_servers, 60) == 0
    assert clients.ask("POST", f"/brokers/{state.leader}", {"do": "start"})[1]["state"] == "running"


def test_a_broker_is_cut_off_from_the_others(clients: Client) -> None:
    whole = {"broker": 2, "state": "running", "cut_off_from": []}
    assert clients.ask("POST", "/brokers/2", {"do": "cut_off"}) == (200, whole | {"cut_off_from": [1, 3]})
    shown = clients.ask("GET", "/brokers")[1]["brokers"]
    assert [each["cut_off_from"] for each in shown] == [[2], [1, 3], [2]]
    assert clients.ask("POST", "/brokers/2", {"do": "heal"}) == (200, whole)
    assert clients.ask("GET", "/brokers/3")[1]["cut_off_from"] == []


@pytest.mark.parametrize("do", ["cut_off", "pause"])
def test_a_broker_starts_while_another_one_is_away(clients: Client, cluster: Cluster, do: str) -> None:
    away = next(each for each in cluster if each != cluster.controller)
    other = next(each for each in cluster if each not in (away, cluster.controller))
    assert clients.ask("POST", f"/brokers/{other}", {"do": "stop"})[0] == 200
    assert clients.ask("POST", f"/brokers/{away}", {"do": do})[0] == 200
    assert clients.ask("POST", f"/brokers/{other}", {"do": "start"})[1]["state"] == "running"


def test_a_broker_is_resumed_while_another_one_waits_for_it(clients: Client, cluster: Cluster) -> None:
    paused = cluster.controller
    other = next(each for each in cluster if each != paused)
    clients.ask("POST", f"/brokers/{paused}", {"do": "pause"})
    with ThreadPoolExecutor(1) as threads:
        stopping = threads.submit(clients.ask, "POST", f"/brokers/{other}", {"do": "stop"})
        deadline = time.monotonic() + 20
        while other in cluster:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        asked = time.monotonic()
        assert clients.ask("POST", f"/brokers/{paused}", {"do": "resume"})[1]["state"] == "running"
        assert time.monotonic() - asked < 2
        assert stopping.result()[1]["state"] == "stopped"


def test_each_broker_of_a_cluster_has_faults_of_its_own(clients: Client, cluster: Cluster) -> None:
    told = {"of": "list_groups", "do": "delay", "seconds": 0.5}
    assert clients.ask("POST", "/brokers/2/faults", told)[0] == 201
    assert [len(cluster[each].faults) for each in (1, 2, 3)] == [0, 1, 0]
    assert clients.ask("DELETE", "/brokers/2/faults/1")[0] == 200
    assert clients.ask("GET", "/brokers/2/faults")[1] == {"faults": []}


def test_a_fault_of_all_brokers_is_counted_together(clients: Client, cluster: Cluster) -> None:
    told = {"of": "list_groups", "do": "error", "code": "NOT_COORDINATOR"}
    assert clients.ask("POST", "/faults", told)[0] == 201
    for each in cluster:
        with RawClient(cluster[each].bootstrap_servers) as client:
            assert client.ask(ListGroupsRequest(), 4).error_code == ErrorCode.NOT_COORDINATOR
    expected = {"fault": "list_groups().error('NOT_COORDINATOR')", "hits": 3, "asked": 3}
    (shown,) = clients.ask("GET", "/faults")[1]["faults"]
    assert {**shown, **expected} == shown
    assert clients.ask("GET", "/brokers/2/faults")[1] == {"faults": []}
    assert clients.ask("DELETE", f"/faults/{shown['number']}")[1] == {"faults": [shown]}
    assert clients.ask("GET", "/faults")[1] == {"faults": []}


def test_faults_of_a_broker_of_a_cluster_outlive_its_end(clients: Client, cluster: Cluster) -> None:
    fault = cluster[2].faults.list_groups().delay(0.5)
    clients.ask("POST", "/brokers/2", {"do": "kill"})
    status, told = clients.ask("GET", "/brokers/2/faults")
    assert (status, told["error"]) == (400, "broker 2 does not run: start it first")
    clients.ask("POST", "/brokers/2", {"do": "start"})
    shown = clients.ask("GET", "/brokers/2/faults")[1]["faults"]
    assert [each["fault"] for each in shown] == ["list_groups().delay(0.5)"]
    fault.stop()
    assert len(cluster[2].faults) == 0


SCRIPT = """
kafkapy() { "$PYTHON" -m kafkapy "$@"; }
kafkapy faults brokers
kafkapy faults broker 2 cut-off
kafkapy faults broker 2 heal
kafkapy faults broker 3 kill
kafkapy faults --broker 1 add produce delay seconds=0.1
kafkapy faults --broker 1 clear
kafkapy faults add produce delay seconds=0.2
kafkapy faults broker 3 start
kafkapy faults broker 3 restart
"""


def test_a_command_beside_a_cluster_kills_one_of_its_brokers() -> None:
    result = run_beside("--brokers", "3", "--topic", "orders", "--faults", "0", script=SCRIPT)
    lines = result.stdout.splitlines()
    assert lines[:3] == ["1\trunning", "2\trunning", "3\trunning"]
    assert lines[3:6] == ["2\trunning\tcut off from 1, 3", "2\trunning", "3\tstopped"]
    assert lines[6:8] == ["1\t0 of 0\tproduce().delay(0.1)"] * 2
    assert lines[8:] == ["1\t0 of 0\tproduce().delay(0.2)", "3\trunning"]
    expected = "start, stop, kill, pause, resume, cut_off, heal"
    assert f"kafkapy: do=restart: expected {expected}\n" in result.stderr
    assert result.returncode == 1
