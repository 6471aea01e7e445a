"""A registry beside a broker: the fixture, `kafkapy run --registry` and `kafkapy registry`."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request

import pytest

from kafkapy import Broker, SchemaRegistry
from tests.registry.conftest import asking
from tests.registry.schemas import ONE, body

KAFKAPY = (sys.executable, "-m", "kafkapy")
REGISTER = """
import json, os, urllib.request
url = os.environ["SCHEMA_REGISTRY_URL"]
body = json.dumps({"schema": '"string"'}).encode()
request = urllib.request.Request(url + "/subjects/a/versions", body, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request).read().decode())
"""


def test_the_fixture_has_the_schemas_in_its_broker(
    kafka_broker: Broker, schema_registry: SchemaRegistry
) -> None:
    asking(schema_registry.url)("POST", "/subjects/a/versions", body(ONE))
    assert len(kafka_broker.topic("_schemas").records(1)) == 1


def test_run_tells_its_address() -> None:
    ended = subprocess.run(
        (*KAFKAPY, "run", "--registry", "--", sys.executable, "-c", REGISTER),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith('{"id":1,')


def test_the_command_serves_until_it_is_stopped() -> None:
    with Broker() as broker:
        options = ("--listen", "127.0.0.1:0", "--bootstrap-server", broker.bootstrap_servers)
        process = subprocess.Popen((*KAFKAPY, "registry", *options), stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("Listening on ").strip()
            assert urllib.request.urlopen(f"{url}/subjects", timeout=10).read() == b"[]"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


@pytest.mark.parametrize("address", ["8081", "host:", "127.0.0.1:99999"])
def test_the_command_refuses_what_is_no_address(address: str) -> None:
    ended = subprocess.run(
        (*KAFKAPY, "registry", "--listen", address), capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (1, f"kafkapy: --listen {address}: expected HOST:PORT\n")
