"""Brokers of the fixture that have data at their start."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import kafkapy
from kafkapy.seeded import SeededBrokers

pytest_plugins = ["pytester"]

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def fill(broker: kafkapy.Broker) -> None:
    broker.create_topics({"orders": 2})
    broker.produce("orders", value="seeded")


def test_each_broker_has_the_data_and_nothing_of_others() -> None:
    threads = set(threading.enumerate())
    seeded = SeededBrokers(fill, {})
    addresses = set()
    for _ in range(3):
        broker = seeded.take()
        addresses.add(broker.bootstrap_servers)
        assert [record.value for record in broker.records("orders")] == [b"seeded"]
        broker.produce("orders", value="mine")
        seeded.give_back(broker)
    assert len(addresses) == 3
    path = seeded.snapshot.path
    seeded.close()
    assert not path.exists()
    assert set(threading.enumerate()) <= threads


def test_the_next_broker_is_started_before_it_is_asked_for() -> None:
    seeded = SeededBrokers(fill, {})
    broker = seeded.take()
    assert seeded._next is not None
    ready = seeded._next.result(30)
    assert seeded.take() is ready
    seeded.give_back(broker)
    seeded.give_back(ready)
    seeded.close()


def test_a_seed_that_fails_is_raised() -> None:
    def wrong(broker: kafkapy.Broker) -> None:
        broker.produce("no topic?", value="x")

    with pytest.raises(ValueError, match="no topic"):
        SeededBrokers(wrong, {})


def test_the_fixture_fills_once_and_gives_each_test_the_data(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import pytest

        FILLED = []

        @pytest.fixture(scope="session")
        def kafka_broker_seed():
            def fill(broker):
                FILLED.append(broker)
                broker.create_topics({"orders": 2})
                broker.produce("orders", value="seeded")
            return fill

        @pytest.mark.parametrize("number", range(4))
        def test_it(kafka_broker, number):
            assert [record.value for record in kafka_broker.records("orders")] == [b"seeded"]
            kafka_broker.produce("orders", value="mine")
            assert len(FILLED) == 1

        @pytest.mark.kafka(topics={"bills": 3}, config={"num.partitions": 4})
        def test_marks(kafka_broker):
            assert len(kafka_broker.records("orders")) == 1
            assert kafka_broker.core.config["num.partitions"] == 4
            assert len(kafka_broker.core.metadata.image.topics["bills"].partitions) == 3
        """
    )
    pytester.runpytest().assert_outcomes(passed=5)


def test_a_module_may_have_data_of_its_own_and_a_snapshot_is_a_seed(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    with kafkapy.Broker() as broker:
        fill(broker)
        broker.snapshot(tmp_path / "kept")
    pytester.makeini(INI)
    pytester.makepyfile(
        test_one=f"""
        import pytest

        @pytest.fixture(scope="session")
        def kafka_broker_seed():
            return {str(tmp_path / "kept")!r}

        def test_it(kafka_broker):
            assert len(kafka_broker.records("orders")) == 1
        """,
        test_two="""
        def test_it(kafka_broker):
            assert not kafka_broker.core.metadata.image.topics
        """,
    )
    pytester.runpytest().assert_outcomes(passed=2)
    assert (tmp_path / "kept" / "metadata.db").is_file()
