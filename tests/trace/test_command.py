"""`kafkapy trace` on the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy import Broker
from kafkapy.cli import main
from tests.network.raw_client import RawClient, api_versions, correlation_ids


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["trace", *arguments], prog_name="kafkapy")
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--to is missing: name a broker of the cluster"),
        (["--to", "nowhere"], "--to nowhere: expected HOST:PORT, such as 127.0.0.1:9092"),
        (["--to", "b:1", "--listen", "b"], "--listen b: expected HOST:PORT, such as 127.0.0.1:9092"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], told: str) -> None:
    status, output = run(*arguments)
    assert (status, output) == (2, f"kafkapy: {told}. See kafkapy trace --help.\n")


def test_an_api_that_does_not_exist_is_one_line() -> None:
    told = "kafkapy: --api Fetsh: Kafka has no such API; names are as in Fetch and JoinGroup\n"
    assert run("--to", "127.0.0.1:1", "--api", "Fetsh") == (1, told)


def test_a_file_that_is_missing_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert run("read", str(path)) == (1, f"kafkapy: {path}: No such file or directory.\n")


def test_requests_are_printed_and_written_and_read_again_without_colours(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with Broker() as broker:
        command = [sys.executable, "-m", "kafkapy", "trace", "--to", broker.bootstrap_servers]
        process = subprocess.Popen([*command, "--write", str(path)], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("Listening on ").strip()
            with RawClient(address) as client:
                client.send(api_versions())
                assert correlation_ids(client, 1) == [7]
            printed = [process.stdout.readline() for _ in range(3)]
            assert ": connected" in printed[0]
            assert "ApiVersions v3" in printed[1]
            assert ": closed" in printed[2]
            assert "\x1b" not in "".join(printed)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.communicate()
    assert run("read", str(path)) == (0, "".join(printed))
    assert run("read", str(path), "--api", "apiversions") == (0, printed[1])
    assert run("read", str(path), "--errors") == (0, "")
    status, output = run("read", str(path), "--full", "--api", "ApiVersions")
    assert (status, '"apiKeys": [' in output) == (0, True)
