"""The page of containers: its files for docker-compose, and its table of variables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkapy.cli import main
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.container import container_properties, setting_of

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "containers.md").read_text()
_FILES = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE))
_ROW = re.compile(r"^\| `(KAFKA_\w+)` \| `([^`]+)`", re.MULTILINE)


def services(file: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(_FILES[file])["services"]
    return {name: service for name, service in found.items() if service["image"] == "kafkapy"}


def config_of(service: dict[str, Any], root: Path, *, clustered: bool) -> BrokerConfig:
    environment = {name: str(value) for name, value in service["environment"].items()}
    properties = container_properties(environment, None, root)
    return BrokerConfig.from_properties(properties, clustered=clustered)


def test_the_broker_of_the_first_file_has_a_listener_for_the_host_and_one_for_containers(
    tmp_path: Path,
) -> None:
    config = config_of(services("compose.yaml")["kafka"], tmp_path, clustered=False)
    assert [str(each) for each in config.advertised_listeners] == [
        "HOST://localhost:9092",
        "CONTAINERS://kafka:19092",
    ]
    assert [each.port for each in config.listeners] == [9092, 19092]
    assert (config.unknown(), config.without_effect()) == ([], [])


def test_the_command_of_the_first_file_is_one_of_kafkapys() -> None:
    words = shlex.split(services("compose.yaml")["topics"]["command"])
    command: Any = main
    while words and hasattr(command, "get_command"):
        with main.make_context("kafkapy", [*words], resilient_parsing=True) as context:
            command = command.get_command(context, words.pop(0))
    with command.make_context("create", words) as context:
        assert context.params["if_not_exists"]
        assert context.params["partitions"] == 6


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_broker_of_the_cluster_can_be_reached_by_the_others_and_by_the_host(
    number: int, tmp_path: Path
) -> None:
    service = services("compose.cluster.yaml")[f"kafka-{number}"]
    config = config_of(service, tmp_path, clustered=True)
    assert config.node_id == number
    assert config["zookeeper.connect"] == "zookeeper:2181"
    assert config.inter_broker_listener == "CONTAINERS"
    advertised = {each.name: (each.host, each.port) for each in config.advertised_listeners}
    assert advertised["CONTAINERS"] == (f"kafka-{number}", 19092)
    host, port = advertised["HOST"]
    assert host == "localhost"
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert {each.name: each.port for each in config.listeners} == {"HOST": port, "CONTAINERS": 19092}


@pytest.mark.parametrize(("variable", "setting"), _ROW.findall(_PAGE))
def test_a_variable_of_the_table_gives_its_setting(variable: str, setting: str) -> None:
    assert setting_of(variable) == setting
