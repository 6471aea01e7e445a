"""The page of tools: its examples are what the commands print, and its commands exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkapy import Broker
from kafkapy.cli import main

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text()
# Data directories have their tests in tests/tools.
_CLUSTER, _, _ = _PAGE.partition("\n# Looking into a data directory\n")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| `(kafka-[\w-]+\.sh)` \| (.*) \|$", re.MULTILINE)

# bin/*.sh of Apache Kafka 4.3.1 that have a command here
_KAFKAS = {
    f"kafka-{name}.sh"
    for name in [
        "acls",
        "broker-api-versions",
        "client-metrics",
        "cluster",
        "configs",
        "console-consumer",
        "console-producer",
        "consumer-groups",
        "delegation-tokens",
        "delete-records",
        "dump-log",
        "features",
        "get-offsets",
        "groups",
        "leader-election",
        "log-dirs",
        "metadata-quorum",
        "reassign-partitions",
        "server-start",
        "share-groups",
        "streams-groups",
        "topics",
        "transactions",
    ]
}


# The others
_WITHOUT_A_COMMAND = {
    f"{name}.sh"
    for name in [
        "connect-distributed",
        "connect-mirror-maker",
        "connect-plugin-path",
        "connect-standalone",
        "kafka-console-share-consumer",
        "kafka-consumer-perf-test",
        "kafka-e2e-latency",
        "kafka-jmx",
        "kafka-metadata-shell",
        "kafka-producer-perf-test",
        "kafka-replica-verification",
        "kafka-run-class",
        "kafka-server-stop",
        "kafka-share-consumer-perf-test",
        "kafka-storage",
        "kafka-streams-application-reset",
        "kafka-verifiable-consumer",
        "kafka-verifiable-producer",
        "kafka-verifiable-share-consumer",
        "trogdor",
    ]
}


def _examples() -> Iterator[tuple[str, str]]:
    """Each command of the page, with what it prints."""
    for block in _BLOCK.findall(_CLUSTER):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def _run(command: str) -> str:
    """What a pipeline of commands prints; all of them must succeed."""
    printed = ""
    for part in command.split(" | "):
        name, *arguments = shlex.split(part)
        if name == "echo":
            printed = " ".join(arguments) + "\n"
            continue
        assert name == "kafkapy"
        result = CliRunner().invoke(main, arguments, input=printed, prog_name="kafkapy")
        assert result.exit_code == 0, (command, result.output)
        printed, output = result.stdout, result.output
    return output


def test_the_examples_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KAFKAPY_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    (file,) = re.findall(r"^```yaml\n# topics.yaml\n(.*?)^```$", _CLUSTER, re.DOTALL | re.MULTILINE)
    (tmp_path / "topics.yaml").write_text(file)
    with Broker() as broker:
        _run(f"kafkapy context set here --bootstrap-server {broker.bootstrap_servers}")
        for command, shown in _examples():
            pattern = re.escape(shown).replace("…", "[\\s\\S]*?")
            printed = _run(command)
            assert re.fullmatch(pattern, printed), (command, printed)


def test_every_tool_of_kafka_has_its_command() -> None:
    with_a_command, _, without = _CLUSTER.partition("\nNo command here does what these do:\n")
    rows = dict(_ROW.findall(with_a_command))
    assert set(rows) == _KAFKAS
    assert set(re.findall(r"`([a-z0-9-]+\.sh)`", without)) == _WITHOUT_A_COMMAND
    for cell in rows.values():
        commands = re.findall(r"`kafkapy ([^`]+)`", cell)
        assert commands, cell
        for command in commands:
            _check_exists(shlex.split(command))


def _check_exists(words: list[str]) -> None:
    """Walk down the groups of commands; then look whether the options are known."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options, words
