"""`kafkapy import`: what Apache Kafka wrote, kafkapy shows, after a stop in order and after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.travel.inventory import take_inventory
from interop.travel.journeys import (
    Departed,
    check_arrival,
    check_producers,
    depart,
    files_of,
    kafka,
    kafka_with,
    kafkapy,
    run_kafkapy,
)
from interop.travel.producers import check_duplicates_are_known, check_new_producer_id_is_unused

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_kraft_directory_of_4_3_opens_here(tmp_path: Path, killed: bool) -> None:
    departed = depart(kafka("4.3.1"), tmp_path, killed=killed, transactions=True, modern=True)
    told = _import_and_check(departed, tmp_path)
    assert "metadata log" in told
    assert "1 use the consumer protocol" in told
    assert "id-open (open, in transactions-0, transactions-1)" in told


def test_a_stopped_zookeeper_directory_of_3_9_opens_here_with_its_settings(
    tmp_path: Path, zookeeper: str
) -> None:
    departed = depart(kafka_with(zookeeper), tmp_path, killed=False, transactions=True)
    _import_and_check(departed, tmp_path, "--zookeeper", zookeeper)


def test_a_torn_zookeeper_directory_of_3_9_opens_here_without_zookeeper(
    tmp_path: Path, zookeeper: str
) -> None:
    departed = depart(kafka_with(zookeeper), tmp_path, killed=True, torn=True, transactions=True)
    told = _import_and_check(departed, tmp_path, but="settings of")
    assert "retention.ms=-1, so that nothing is deleted, and 1 that Kafka compacts" in told


def _import_and_check(departed: Departed, folder: Path, *options: str, but: str | None = None) -> str:
    """Import the directory, open it and compare; what the command said."""
    before = files_of(departed.data)
    told = run_kafkapy("import", departed.data, folder / "here" / "data", *options)
    assert files_of(departed.data) == before
    with kafkapy(folder / "here") as server:
        check_arrival(departed, take_inventory(server.bootstrap_servers), but=but)
        assert check_duplicates_are_known(server.bootstrap_servers, folder / "here" / "data")
        check_new_producer_id_is_unused(server.bootstrap_servers, folder / "here" / "data")
    check_producers(departed, folder / "here" / "data")
    return told
