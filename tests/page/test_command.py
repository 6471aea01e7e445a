"""`kafkapy page`, and a page beside the broker of `kafkapy run`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kafkapy import Broker
from kafkapy.cli import main
from tests.page.browsing import Browser


def test_the_command_serves_until_it_is_ended(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    command = [sys.executable, "-m", "kafkapy", "page", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap_servers], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = re.fullmatch(r"Listening on (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline())
        assert found
        assert name in Browser(found[1]).get("/topics").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_the_command_asks_for_the_token_of_its_variable(broker: Broker) -> None:
    command = [sys.executable, "-m", "kafkapy", "page", "--listen", "0.0.0.0:0"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAFKAPY_PAGE_TOKEN": "from-the-variable"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "/?token=from-the-variable" in process.stdout.readline()
        assert "Other machines reach 0.0.0.0" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("listen", ["8080", "localhost:port", "localhost:70000", ":8080"])
def test_an_address_that_is_none_is_named(listen: str) -> None:
    result = CliRunner().invoke(main, ["page", "--listen", listen])
    assert result.exit_code == 1
    assert f"--listen {listen}: expected HOST:PORT" in result.output


def test_a_page_runs_beside_the_broker_of_a_command() -> None:
    command = [sys.executable, "-m", "kafkapy", "run", "--page", "--topic", "orders:2", "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", "print('ran')"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran\n"
    assert re.fullmatch(r"kafkapy: the broker is shown at http://127\.0\.0\.1:\d+/\n", done.stderr)
