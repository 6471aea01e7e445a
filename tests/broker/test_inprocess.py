"""The broker inside the process that uses it."""

from __future__ import annotations

import gc
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.network.raw_client import RawClient

pytest_plugins = ["pytester"]

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def create(client: RawClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0


def topics(client: RawClient) -> list[str]:
    return [topic.name for topic in client.ask(MetadataRequest(topics=None), 9).topics]


def test_a_broker_serves_inside_a_with_statement_and_leaves_nothing_behind() -> None:
    threads = set(threading.enumerate())
    with kafkapy.Broker() as broker:
        directory = broker.core.config.log_dirs[0]
        assert directory.is_dir()
        with RawClient(broker.bootstrap_servers) as client:
            create(client, "t")
            assert topics(client) == ["t"]
    assert not directory.exists()
    assert set(threading.enumerate()) <= threads
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers


async def test_the_async_twin_serves_a_test_that_blocks_its_loop() -> None:
    async with kafkapy.AsyncBroker() as broker:
        with RawClient(broker.bootstrap_servers) as client:
            create(client, "t")
            assert topics(client) == ["t"]


def test_several_brokers_run_side_by_side() -> None:
    with kafkapy.Broker() as one, kafkapy.Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        with RawClient(one.bootstrap_servers) as client, RawClient(other.bootstrap_servers) as stranger:
            create(client, "t")
            assert topics(stranger) == []


def test_a_data_directory_that_is_named_keeps_its_data(tmp_path: Path) -> None:
    for expected in ([], ["t0"], ["t0", "t1"]):
        with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            assert sorted(topics(client)) == expected
            create(client, f"t{len(expected)}")


def test_topics_are_created_by_one_request_which_names_all_that_are_refused() -> None:
    with kafkapy.Broker() as broker:
        with pytest.raises(ValueError, match=r"^topic a/b: .* topic c/d: "):
            broker.create_topics({"t0": 1, "a/b": 1, "c/d": 1, "t1": 3})
        topics = broker.core.metadata.image.topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"t0": 1, "t1": 3}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_that_has_an_outage_comes_back_with_its_data_at_its_port(end: str) -> None:
    with kafkapy.Broker(
        config={
            "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        }
    ) as broker:
        address, listening = broker.bootstrap_servers, broker.core.server.listening
        directory = broker.core.config.log_dirs[0]
        with RawClient(address) as client:
            create(client, "t")
        getattr(broker, end)()
        assert broker.bootstrap_servers == address
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", listening[0].port))
        broker.start()
        assert broker.core.server.listening == listening
        with RawClient(address) as client:
            assert topics(client) == ["t"]
    assert not directory.exists()
    with broker, RawClient(broker.bootstrap_servers) as client:
        assert topics(client) == []


def test_a_broker_without_a_with_statement_leaves_nothing_behind_either() -> None:
    broker = kafkapy.Broker()
    broker.start()
    directory = broker.core.config.log_dirs[0]
    broker.stop()
    assert directory.exists()
    del broker
    gc.collect()
    assert not directory.exists()


def test_a_broker_that_cannot_start_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = kafkapy.Broker(config={"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(kafkapy.StartError, match="the port is in use"):
            broker.start()
    assert list(tmp_path.iterdir()) == []


def test_settings_are_given_as_python_values() -> None:
    config = {"num.partitions": 3, "auto.create.topics.enable": False}
    with kafkapy.Broker(config=config) as broker:
        assert broker.core.config["num.partitions"] == 3
        assert broker.core.config["auto.create.topics.enable"] is False
        assert broker.core.config["durability"] == "os"


def test_a_wrong_setting_is_raised_where_the_broker_is_started() -> None:
    with pytest.raises(
        kafkapy.ConfigError, match=r"^unknown setting num.partition: did you mean num.partitions\?$"
    ):
        kafkapy.Broker(config={"num.partition": 3}).start()


def test_a_port_in_use_is_raised_where_the_broker_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = {"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"}
        broker = kafkapy.Broker(config=config)
        with pytest.raises(kafkapy.StartError, match="the port is in use"):
            broker.start()
    # The same object starts once the port is free.
    with broker, RawClient(broker.bootstrap_servers) as client:
        assert topics(client) == []


def test_starting_and_stopping_is_quick() -> None:
    with kafkapy.Broker():
        pass
    times = []
    for _ in range(3):
        started = time.process_time()
        with kafkapy.Broker():
            times.append(time.process_time() - started)
    print("start:", ", ".join(f"{seconds * 1000:.0f} ms of CPU" for seconds in times))
    assert min(times) < 0.1


def test_every_client_is_told_the_address_by_which_it_came_in() -> None:
    with kafkapy.Broker(config={"listeners": "PLAINTEXT://:0"}) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        for host in ("127.0.0.1", "127.0.0.2", "::1"):
            with RawClient(f"[{host}]:{port}") as client:
                (node,) = client.ask(MetadataRequest(topics=[]), 9).brokers
                assert (node.host, node.port) == (host, port)
                found = client.ask(FindCoordinatorRequest(key="g"), 3)
                assert (found.host, found.port) == (host, port)


def test_clients_are_told_the_name_of_a_listener_that_has_one() -> None:
    with kafkapy.Broker(config={"listeners": "PLAINTEXT://localhost:0"}) as broker:
        (listener,) = broker.core.server.listening
        with RawClient(f"127.0.0.1:{listener.port}") as client:
            (node,) = client.ask(MetadataRequest(topics=[]), 9).brokers
            assert (node.host, node.port) == ("localhost", listener.port)


def test_each_listener_has_its_own_advertised_address() -> None:
    config = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": "OUTSIDE://kafka.example:0",
    }
    with kafkapy.Broker(config=config) as broker:
        inside, outside = broker.core.server.listening
        for listener, host in ((inside, "127.0.0.1"), (outside, "kafka.example")):
            with RawClient(f"127.0.0.1:{listener.port}") as client:
                (node,) = client.ask(MetadataRequest(topics=[]), 9).brokers
                assert (node.host, node.port) == (host, listener.port)


def test_the_plugin_gives_each_test_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import socket

        def test_one(kafka_broker):
            kafka_broker.core.server.mark = 1
            socket.create_connection(kafka_broker.bootstrap_servers.split(":")).close()

        def test_two(kafka_broker):
            assert not hasattr(kafka_broker.core.server, "mark")
        """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_plugin_shares_a_broker_where_it_is_told_to(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"{INI}kafka_broker_scope = session\n")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_broker_config():
            return {"num.partitions": 4}

        def test_one(kafka_broker):
            kafka_broker.core.server.mark = 1

        def test_two(kafka_broker):
            assert kafka_broker.core.server.mark == 1
            assert kafka_broker.core.config["num.partitions"] == 4
        """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_marks_give_a_test_its_topics_and_settings(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka(topics={"all": 2}, config={"num.partitions": 4, "broker.id": 7})

        def partitions(broker):
            return {name: len(topic.partitions) for name, topic in broker.core.metadata.image.topics.items()}

        @pytest.mark.kafka(topics={"orders": 6}, config={"num.partitions": 5})
        def test_one(kafka_broker):
            assert partitions(kafka_broker) == {"all": 2, "orders": 6}
            assert kafka_broker.core.config["num.partitions"] == 5
            assert kafka_broker.core.node_id == 7

        @pytest.mark.kafka
        def test_two(kafka_broker):
            assert partitions(kafka_broker) == {"all": 2}
            assert kafka_broker.core.config["num.partitions"] == 4

        @pytest.mark.kafka({"orders": 6})
        def test_three(kafka_broker):
            pass

        @pytest.mark.kafka(topics={"a b": 6})
        def test_four(kafka_broker):
            pass

        @pytest.mark.kafka(topics=["orders"])
        def test_five(kafka_broker):
            pass
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=3)
    result.stdout.fnmatch_lines(["*test_three: the mark kafka takes topics={…}, config={…} and clock=…*"])
    result.stdout.fnmatch_lines(["*topic a b: Topic name is invalid*"])
    result.stdout.fnmatch_lines(["*test_five: the mark kafka takes topics={…}, config={…} and clock=…*"])


def test_marks_give_a_cluster_its_topics_settings_and_clock(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka(topics={"all": 2}, config={"num.partitions": 4})

        @pytest.mark.kafka(topics={"orders": 6}, clock="manual")
        def test_one(kafka_cluster):
            topics = kafka_cluster[1].core.metadata.image.topics
            assert {name: len(topic.partitions) for name, topic in topics.items()} == {"all": 2, "orders": 6}
            assert kafka_cluster[1].core.config["num.partitions"] == 4
            kafka_cluster.clock.advance(days=7)
        """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_mark_that_a_shared_broker_cannot_heed_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"{INI}kafka_broker_scope = module\n")
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka(topics={"orders": 6})

        def test_one(kafka_broker):
            assert len(kafka_broker.core.metadata.image.topics["orders"].partitions) == 6

        @pytest.mark.kafka(topics={"others": 6})
        def test_two(kafka_broker):
            pass

        @pytest.mark.kafka(topics={"others": 6})
        class TestThree:
            def test_three(self, kafka_broker):
                pass

        @pytest.mark.kafka(topics={"others": 6})
        def test_four(kafka_cluster):
            pass
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(["*its broker is shared (kafka_broker_scope=module)*"])


def test_a_wrong_scope_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"{INI}kafka_broker_scope = test\n")
    pytester.makepyfile("def test_one(kafka_broker): pass")
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.stderr.fnmatch_lines(["*kafka_broker_scope=test: expected session, package*"])


@pytest.mark.parametrize("setting", ["log.flush.interval.messages", "log.flush.interval.ms"])
def test_who_relaxes_syncs_for_all_topics_is_told(setting: str, caplog: pytest.LogCaptureFixture) -> None:
    with kafkapy.Broker(config={"durability": "fsync", setting: "10000"}):
        pass
    assert f"{setting}=10000 relaxes durability=fsync" in caplog.text


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_only_metadata_that_nobody_keeps_are_never_synced(tmp_path: Path, durability: str) -> None:
    async def synchronous(core: BrokerCore) -> int:
        assert isinstance(core.store, EmbeddedStore)
        level: int = await core.store._submit(
            lambda tree: tree._db.execute("PRAGMA synchronous").fetchone()[0]
        )
        return level

    never, at_checkpoints, each_commit = 0, 1, 2
    for data_dir, relaxed in ((None, never), (tmp_path, at_checkpoints)):
        with kafkapy.Broker(data_dir=data_dir, config={"durability": durability}) as broker:
            assert broker.call(synchronous) == (each_commit if durability == "fsync" else relaxed)
