"""`kafkapy export`: Apache Kafka shows what kafkapy wrote, and back.

It does so after a stop in order and after a kill.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from interop.migrate.contents import write_transactions
from interop.migrate.inventory import take_inventory
from interop.migrate.migration import (
    Departed,
    MakeServer,
    check_arrival,
    check_producers,
    depart,
    files_of,
    kafka,
    kafka_as_told,
    kafka_with,
    kafkapy,
    run_kafkapy,
)
from interop.migrate.producers import check_duplicates_are_known, check_new_producer_id_is_unused

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_a_stopped_directory_goes_to_4_3_and_back_with_more_in_it(tmp_path: Path) -> None:
    departed = depart(kafkapy, tmp_path, killed=False, transactions=False)
    data = tmp_path / "there" / "data"
    told = run_kafkapy("export", departed.data, data, "--to", "kraft")
    with kafka_as_told("4.3.1", told)(tmp_path / "there") as server:
        check_arrival(departed, take_inventory(server.bootstrap_servers))
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "enable.idempotence": True})
        for number in range(1000):
            producer.produce("keyed", b"there %d" % number, b"%d" % number)
        assert producer.flush(30) == 0
        write_transactions(server.bootstrap_servers, "empty")
        more = Departed(data, take_inventory(server.bootstrap_servers), {}, data)
    run_kafkapy("import", data, tmp_path / "back" / "data")
    with kafkapy(tmp_path / "back") as server:
        check_arrival(more, take_inventory(server.bootstrap_servers))
        assert check_duplicates_are_known(server.bootstrap_servers, tmp_path / "back" / "data")
    check_producers(more, tmp_path / "back" / "data")


def test_a_killed_directory_goes_to_4_3(tmp_path: Path) -> None:
    departed = depart(kafkapy, tmp_path, killed=True, transactions=False)
    _export_and_check(departed, kafka("4.3.1"), tmp_path, "kraft")


@pytest.mark.parametrize("torn", [False, True], ids=["stopped", "torn"])
def test_a_directory_goes_to_3_9_in_zookeeper_mode(tmp_path: Path, zookeeper: str, torn: bool) -> None:
    departed = depart(kafkapy, tmp_path, killed=torn, torn=torn, transactions=False)
    _export_and_check(departed, kafka_with(zookeeper), tmp_path, f"zookeeper:{zookeeper}")


def _export_and_check(departed: Departed, make: MakeServer, folder: Path, to: str) -> None:
    before = files_of(departed.data)
    run_kafkapy("export", departed.data, folder / "there" / "data", "--to", to)
    assert files_of(departed.data) == before
    with make(folder / "there") as server:
        check_arrival(departed, take_inventory(server.bootstrap_servers))
        assert check_duplicates_are_known(server.bootstrap_servers, folder / "there" / "data")
        check_new_producer_id_is_unused(server.bootstrap_servers, folder / "there" / "data")
    check_producers(departed, folder / "there" / "data")
