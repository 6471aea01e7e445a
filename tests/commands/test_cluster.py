"""Commands for brokers, partitions, transactions and log directories."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Producer

from kafkapy import Broker, Cluster
from tests.commands.conftest import Run, RunJson, invoke


def test_brokers_are_listed_and_the_cluster_described(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker
) -> None:
    (row,) = kafkapy_json("cluster", "list-endpoints")
    assert f"{row['host']}:{row['port']}" == broker.bootstrap_servers
    found = kafkapy_json("cluster", "describe")
    assert (found["cluster_id"], found["controller"]) == (broker.core.cluster_id, 1)
    assert found["cluster_id"] in kafkapy("cluster", "describe").stdout


def test_versions_and_features_of_a_broker_are_shown(kafkapy_json: RunJson) -> None:
    versions = {row["api"]: row["max_version"] for row in kafkapy_json("cluster", "api-versions", "1")}
    assert versions["Produce"] == 13
    levels = {row["feature"]: row["finalized"] for row in kafkapy_json("cluster", "features")}
    assert levels["transaction.version"] == 2


def test_features_are_changed_as_far_as_the_cluster_does(kafkapy: Run, kafkapy_json: RunJson) -> None:
    upgrade, downgrade = ("cluster", "upgrade-features"), ("cluster", "downgrade-features")
    (row,) = kafkapy_json(*upgrade, "transaction.version=2")
    assert row == {"feature": "transaction.version", "level": 2, "result": "changed", "error": None}
    (row,) = kafkapy_json(*downgrade, "transaction.version=1", "--dry-run")
    assert row["result"] == "would be changed"
    refused = kafkapy(*downgrade, "transaction.version=1", "--yes")
    assert refused.exit_code == 1
    assert "INVALID_UPDATE_VERSION" in refused.stderr
    assert "add --yes" in kafkapy(*downgrade, "transaction.version=1").stderr
    assert "expected a level such as 1" in kafkapy(*upgrade, "transaction.version=new").stderr
    assert "expected KEY=VALUE" in kafkapy(*upgrade, "transaction.version").stderr


def test_a_cluster_without_a_quorum_is_said_to_have_none(kafkapy: Run) -> None:
    """So is one of Apache Kafka with ZooKeeper, which does not have the request either."""
    result = kafkapy("cluster", "quorum")
    assert result.exit_code == 1
    assert result.stderr == (
        "kafkapy: the cluster cannot do this: its brokers do not have DescribeQuorum, as only KRaft has a"
        " quorum of controllers; kafkapy cluster describe names the controller\n"
    )


def test_a_request_that_is_refused_without_a_message_is_explained(kafkapy: Run) -> None:
    result = kafkapy("tokens", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafkapy: tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Delegation Token")
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def transaction(broker: Broker, kafkapy: Run, request: pytest.FixtureRequest) -> Iterator[Producer]:
    """A transaction that is open in `open:0`."""
    kafkapy("topics", "create", "open", "--if-not-exists")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": request.node.name}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("open", "maybe")
    assert producer.flush(10) == 0
    yield producer
    producer.abort_transaction(10)


def test_an_open_transaction_is_shown(kafkapy_json: RunJson, transaction: Producer) -> None:
    name = "test_an_open_transaction_is_shown"
    listed = {row["transactional_id"]: row["state"] for row in kafkapy_json("transactions", "list")}
    assert listed[name] == "Ongoing"
    (row,) = kafkapy_json("transactions", "describe", name)
    assert (row["state"], row["partitions"]) == ("Ongoing", ["open:0"])
    (producer,) = [
        each for each in kafkapy_json("producers", "open:0") if each["producer_id"] == row["producer_id"]
    ]
    assert producer["transaction_start"] is not None
    assert name not in [
        each["transactional_id"] for each in kafkapy_json("transactions", "list", "--state", "Empty")
    ]


def test_a_transaction_that_does_not_hang_is_left_to_its_coordinator(
    kafkapy: Run, kafkapy_json: RunJson, transaction: Producer
) -> None:
    assert kafkapy("transactions", "find-hanging", "open").stderr == "no transaction hangs.\n"
    starts = [row["transaction_start"] for row in kafkapy_json("producers", "open")]
    (start,) = [each for each in starts if each is not None]
    wrong = kafkapy("transactions", "abort", "open:0", "--start-offset", "99", "--yes")
    assert "open:0 has no open transaction at offset 99" in wrong.stderr
    abort = ("transactions", "abort", "open:0", "--start-offset", str(start))
    (foreseen,) = kafkapy_json(*abort, "--dry-run")
    assert foreseen["result"] == "would be aborted"
    assert "add --yes" in kafkapy(*abort).stderr
    assert kafkapy(*abort, "--yes").stderr.startswith("kafkapy: open:0: CLUSTER_AUTHORIZATION_FAILED: ")


def test_an_unknown_transaction_is_named(kafkapy: Run) -> None:
    result = kafkapy("transactions", "describe", "nobody")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafkapy: TRANSACTIONAL_ID_NOT_FOUND")


def test_log_directories_are_shown_and_replicas_moved(tmp_path: Path) -> None:
    directories = [str(tmp_path / "one"), str(tmp_path / "two")]
    with Broker(config={"log.dirs": ",".join(directories)}) as two:

        def run(*arguments: str) -> Result:
            return invoke(*arguments, "--bootstrap-server", two.bootstrap_servers)

        def found() -> dict[str, list[Any]]:
            rows = json.loads(run("log-dirs", "describe", "--format", "json").stdout)
            return {row["log_dir"]: row["replicas"] for row in rows}

        run("topics", "create", "moved")
        (source,) = [path for path, replicas in found().items() if replicas]
        target = next(path for path in directories if path != source)
        move = ("log-dirs", "move", "moved:0", "--broker", "1", "--to", target)
        (foreseen,) = json.loads(run(*move, "--dry-run", "--format", "json").stdout)
        assert {foreseen["before"], foreseen["after"]} == set(directories)
        assert run(*move).exit_code == 0
        deadline = time.monotonic() + 20
        while [replica["topic"] for replica in found()[target] if not replica["future"]] != ["moved"]:
            assert time.monotonic() < deadline
        text = run("log-dirs", "describe", "--topic", "moved", "--partitions").stdout
        assert target in text
        wrong = run("log-dirs", "move", "moved:0", "--broker", "1", "--to", "/nowhere")
        assert wrong.stderr.startswith("kafkapy: broker 1 has no log directory /nowhere; it has ")


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        yield started


@pytest.fixture
def on_three(three: Cluster) -> Run:
    """Runs a command for a cluster of three brokers."""

    def run(*arguments: str) -> Result:
        return invoke(*arguments, "--bootstrap-server", three.bootstrap_servers)

    return run


def _partitions(run: Run, topic: str) -> list[Any]:
    (found,) = json.loads(run("topics", "describe", topic, "--format", "json").stdout)
    partitions: list[Any] = found["partitions"]
    return partitions


def test_partitions_are_moved_by_a_plan(on_three: Run, tmp_path: Path) -> None:
    on_three("topics", "create", "spread", "--replica-assignment", "1,1,1")
    plan = on_three("reassign", "plan", "spread", "--brokers", "2,3")
    (tmp_path / "plan.json").write_text(plan.stdout)
    planned = [each["replicas"] for each in json.loads(plan.stdout)["partitions"]]
    assert sorted(planned) == [[2], [2], [3]]
    execute = ("reassign", "execute", "-f", str(tmp_path / "plan.json"))
    assert on_three(*execute, "--dry-run").exit_code == 0
    assert [each["replicas"] for each in _partitions(on_three, "spread")] == [[1], [1], [1]]
    assert "add --yes" in on_three(*execute).stderr
    moved = on_three(*execute, "--yes")
    assert moved.exit_code == 0, moved.output
    deadline = time.monotonic() + 30
    while [each["replicas"] for each in _partitions(on_three, "spread")] != planned:
        assert time.monotonic() < deadline
    assert on_three(*execute).stderr == "all replicas are where the plan has them.\n"
    assert on_three("reassign", "list").stderr == "no reassignment is going on.\n"
    assert on_three("reassign", "cancel", "--all").stderr == "no reassignment is going on.\n"


def _throttles(on_three: Run, topic: str) -> dict[str, str]:
    """The settings of a topic and of the brokers that throttle moves."""
    names = ("topics", topic), ("brokers", "1", "2", "3")
    found = {}
    for type_, *each in names:
        shown = on_three("configs", "describe", type_, *each, "--format", "json")
        for row in json.loads(shown.stdout):
            if "replication.throttled" in row["key"] and "DEFAULT" not in row["source"]:
                found[f"{row['name']} {row['key']}"] = row["value"]
    return found


def test_a_move_is_throttled_until_it_is_verified(on_three: Run, three: Cluster, tmp_path: Path) -> None:
    on_three("topics", "create", "heavy", "--replica-assignment", "1:2")
    producer = Producer({"bootstrap.servers": three.bootstrap_servers})
    for _ in range(50):
        producer.produce("heavy", bytes(100_000))
    assert producer.flush(30) == 0
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "heavy", "partition": 0, "replicas": [2, 3]}]}')

    def verified() -> str:
        (row,) = json.loads(on_three("reassign", "verify", "-f", str(plan), "--format", "json").stdout)
        return str(row["result"])

    def execute(rate: str) -> None:
        done = on_three("reassign", "execute", "-f", str(plan), "--throttle", rate, "--yes")
        assert done.exit_code == 0, done.output

    assert verified() == "failed"
    execute("1B")
    assert verified() == "moves"
    throttled = {
        "heavy leader.replication.throttled.replicas": "0:1,0:2",
        "heavy follower.replication.throttled.replicas": "0:3",
    }
    sides = ("leader", "follower")
    rates = [f"{broker} {side}.replication.throttled.rate" for broker in (1, 2, 3) for side in sides]
    assert _throttles(on_three, "heavy") == {**throttled, **dict.fromkeys(rates, "1")}
    execute("1GiB")
    assert _throttles(on_three, "heavy") == {**throttled, **dict.fromkeys(rates, str(1 << 30))}
    deadline = time.monotonic() + 60
    while verified() != "done":
        assert time.monotonic() < deadline
    assert _throttles(on_three, "heavy") == {}
    assert sorted(_partitions(on_three, "heavy")[0]["replicas"]) == [2, 3]


def test_a_plan_can_change_the_replication_factor(on_three: Run) -> None:
    on_three("topics", "create", "thin", "--replica-assignment", "2")
    plan = json.loads(on_three("reassign", "plan", "thin", "-r", "3").stdout)
    (partition,) = plan["partitions"]
    assert partition["replicas"][0] == 2
    assert sorted(partition["replicas"]) == [1, 2, 3]
    assert "needs 4 brokers: there are 3" in on_three("reassign", "plan", "thin", "-r", "4").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ('{"partitions": []}', "has no partitions"),
        ('{"partitions": [{"topic": "wrong"}]}', "expected topic, partition and replicas instead of"),
        ('{"partitions": [{"topic": "wrong", "partition": 0, "replicas": [1, 1]}]}', "has a broker twice"),
        ('{"partitions": [{"topic": "wrong", "partition": 0, "replicas": [9]}]}', "there is no broker 9"),
        ('{"partitions": [{"topic": "wrong", "partition": 9, "replicas": [1]}]}', "wrong has no partition 9"),
    ],
)
def test_a_mistake_in_a_plan_is_named(on_three: Run, tmp_path: Path, text: str, message: str) -> None:
    on_three("topics", "create", "wrong", "--replica-assignment", "1", "--if-not-exists")
    (tmp_path / "plan.json").write_text(text)
    result = on_three("reassign", "execute", "-f", str(tmp_path / "plan.json"), "--yes")
    assert result.exit_code == 1
    assert message in result.stderr


def test_the_preferred_leader_is_elected(on_three: Run, three: Cluster) -> None:
    on_three("topics", "create", "led", "--replica-assignment", "2:3")
    elect = ("leaders", "elect", "led", "--format", "json")
    assert [row["result"] for row in json.loads(on_three(*elect).stdout)] == ["not needed"]
    assert "name partitions" in on_three("leaders", "elect").stderr
    unclean = on_three("leaders", "elect", "led", "--election-type", "unclean")
    assert "may lack records" in unclean.stderr
    three.stop(2)
    deadline = time.monotonic() + 30
    while _partitions(on_three, "led")[0]["leader"] != 3:
        assert time.monotonic() < deadline
    gone = on_three(*elect, "--dry-run")
    assert (gone.exit_code, "replica 2 is not in sync" in gone.stdout) == (1, True)
    three.start(2)
    deadline = time.monotonic() + 30
    while _partitions(on_three, "led")[0]["isr"] not in ([3, 2], [2, 3]):
        assert time.monotonic() < deadline
    (row,) = json.loads(on_three(*elect, "--dry-run").stdout)
    assert (row["result"], row["leader"]) == ("would be elected", 3)
    foreseen = on_three(*elect, "--election-type", "unclean", "--dry-run")
    assert [row["result"] for row in json.loads(foreseen.stdout)] == ["not needed"]
    (row,) = json.loads(on_three(*elect).stdout)
    assert (row["result"], row["error"]) == ("elected", None)
