"""Faults from any language: by HTTP, and from the command line."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kafkapy.cli import main
from kafkapy.inprocess import Broker
from kafkapy.remote.brokers import Brokers
from kafkapy.remote.server import MOST_CONNECTIONS, RemoteServer
from tests.network.raw_client import eventually
from tests.remote.conftest import JSON, Client, run_beside


def test_a_fault_is_switched_on_met_shown_and_switched_off(client: Client, kafka_broker: Broker) -> None:
    kafka_broker.create_topics({"orders": 1})
    told = {"of": "produce", "topic": "orders", "do": "error", "code": "NOT_LEADER_OR_FOLLOWER", "times": 2}
    call = "produce(topic='orders').error('NOT_LEADER_OR_FOLLOWER', times=2)"
    shown = {"number": 1, "fault": call, "hits": 0, "asked": 0}
    assert client.ask("POST", "/faults", told) == (201, shown)
    writer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    writer.produce("orders", "two apples")
    assert writer.flush(20) == 0
    shown |= {"hits": 2, "asked": 2}
    assert client.ask("GET", "/faults") == (200, {"faults": [shown]})
    assert client.ask("DELETE", "/faults/1") == (200, {"faults": [shown]})
    assert client.ask("DELETE", "/faults/1") == (404, {"error": "there is no fault 1"})
    assert len(kafka_broker.faults) == 0


def test_all_are_switched_off(client: Client, kafka_broker: Broker) -> None:
    for told in (
        {"of": "connections", "client_id": "till", "do": "drop", "every": 3},
        {"of": "disk", "do": "slow", "seconds": 0.5, "on": "write", "probability": 0.1, "seed": 7},
        {"of": "metadata", "do": "disconnect", "after_effect": True},
    ):
        assert client.ask("POST", "/faults", told)[0] == 201
    assert [str(fault) for fault in kafka_broker.faults] == [
        "connections(client_id='till').drop(every=3)",
        "disk().slow(0.5, 'write', probability=0.1, seed=7)",
        "metadata().disconnect(after_effect=True)",
    ]
    assert len(client.ask("DELETE", "/faults")[1]["faults"]) == 3
    assert client.ask("GET", "/faults") == (200, {"faults": []})


def test_a_fault_of_python_is_shown_as_well(client: Client, kafka_broker: Broker) -> None:
    kafka_broker.faults.list_transactions().delay(1)
    assert client.ask("GET", "/faults")[1]["faults"][0]["fault"] == "list_transactions().delay(1)"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, "of is missing: expected one of "),
        ({"of": "produc"}, "did you mean produce"),
        ({"of": "stop"}, "of=stop: expected"),
        ({"of": "produce"}, "do is missing: expected error, delay,"),
        ({"of": "produce", "do": "_switch_on"}, "do=_switch_on: expected error, delay,"),
        ({"of": "connections", "do": "shown"}, "do=shown: expected refuse, drop, delay, slow_bytes"),
        ({"of": "produce", "do": "error"}, "code is missing"),
        ({"of": "produce", "do": "error", "code": 3}, "code=3: expected a text"),
        ({"of": "produce", "do": "delay", "seconds": "soon"}, "seconds=soon: expected a number"),
        ({"of": "produce", "do": "delay", "seconds": True}, "seconds=True: expected a number"),
        ({"of": "produce", "do": "delay", "seconds": float("inf")}, "seconds=inf is too large"),
        ({"of": "produce", "do": "delay", "seconds": float("nan")}, "seconds=nan: expected a number"),
        ({"of": "produce", "do": "delay", "seconds": "1e300"}, "seconds=1e+300 is too large"),
        ({"of": "connections", "do": "delay", "seconds": "Infinity"}, "seconds=inf is too large"),
        ({"of": "disk", "do": "slow", "seconds": "nan", "on": "write"}, "seconds=nan is not positive"),
        ({"of": "produce", "do": "drop"}, "do=drop: expected error, delay,"),
        ({"of": "produce", "do": "disconnect", "times": 1.5}, "times=1.5: expected a whole number"),
        ({"of": "produce", "do": "disconnect", "times": 0}, "times=0 is not positive"),
        ({"of": "produce", "do": "disconnect", "tims": 2}, "take no tims (did you mean times?)"),
        ({"of": "produce", "do": "disconnect", "after_effect": 1}, "expected true or false"),
        ({"of": "list_groups", "topic": "orders", "do": "disconnect"}, "requests name no topics"),
        ({"of": "disk", "do": "fail", "on": ["write"]}, "expected one of 'write', 'sync', 'read'"),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, kafka_broker: Broker, told: dict[str, object], why: str
) -> None:
    status, answer = client.ask("POST", "/faults", told)
    assert status == 400
    assert why in answer["error"]
    assert len(kafka_broker.faults) == 0


def test_pages_of_a_browser_are_refused(client: Client, kafka_broker: Broker) -> None:
    told = {"of": "produce", "do": "disconnect"}
    rebound = {**JSON, "Host": "evil.example"}
    cross = {**JSON, "Origin": "http://localhost"}
    form = {"Content-Type": "text/plain"}
    for headers, status in ((rebound, 403), (cross, 403), (form, 415)):
        assert client.ask("POST", "/faults", told, headers)[0] == status
    assert client.ask("DELETE", "/faults", None, cross)[0] == 403
    assert client.ask("GET", "/faults", None, rebound)[0] == 403
    assert len(kafka_broker.faults) == 0


@pytest.mark.parametrize("body", [b"", b"[", b"[1]", b"[" * 10_000, b"\xff"])
def test_what_is_no_fault_is_refused(client: Client, body: bytes) -> None:
    assert client.ask("POST", "/faults", body)[0] == 400


def test_nothing_is_said_of_clients_that_go(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    host, _, port = client.address.partition(":")
    for data in (b"", b"GET /fau", b"POST /faults HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"):
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(data)
            eventually(_is_served, "the server has it")
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        eventually(lambda: not _is_served(), "it has noticed")
    assert client.ask("GET", "/faults")[0] == 200
    assert capfd.readouterr().err == ""


def _is_served() -> bool:
    return any("process_request_thread" in thread.name for thread in threading.enumerate())


def test_so_many_connections_at_once_and_the_next_one_waits(kafka_broker: Broker) -> None:
    with ExitStack() as stack, RemoteServer(Brokers(kafka_broker), 0) as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        idle = [stack.enter_context(socket.create_connection(address)) for _ in range(MOST_CONNECTIONS)]
        late = stack.enter_context(socket.create_connection(address, timeout=0.5))
        late.sendall(f"GET /brokers HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode())
        with pytest.raises(TimeoutError):
            late.recv(1)
        idle[0].close()
        late.settimeout(30)
        assert late.recv(12) == b"HTTP/1.1 200"
        stack.enter_context(socket.create_connection(address))  # it waits when the server ends
        ending = time.monotonic()
    assert time.monotonic() - ending < 10


def test_a_long_body_is_not_read(client: Client) -> None:
    assert client.ask("POST", "/faults", b"", {**JSON, "Content-Length": "1000000"})[0] == 413
    assert client.ask("POST", "/faults", bytes(10_000_000))[0] == 413


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/faults", "GET, POST, DELETE"),
        ("PATCH", "/faults", "GET, POST, DELETE"),
        ("POST", "/faults/1", "DELETE"),
        ("DELETE", "/brokers", "GET"),
    ],
)
def test_a_wrong_method_is_refused_in_json(client: Client, method: str, path: str, allowed: str) -> None:
    status, told, headers = client.ask_fully(method, path, {"of": "produce", "do": "disconnect"})
    assert (status, told) == (405, {"error": f"{path} takes {allowed}"})
    assert headers["Allow"] == allowed


def test_what_http_itself_refuses_is_json(client: Client) -> None:
    assert client.ask("BREW", "/faults") == (501, {"error": "Unsupported method ('BREW')"})
    assert client.ask("GET", "/favicon.ico") == (404, {"error": "expected /faults, /brokers or /clock"})
    with socket.create_connection(("127.0.0.1", int(client.address.rpartition(":")[2]))) as raw:
        raw.sendall(b"GET\r\n\r\n")
        answer = raw.makefile("rb").read()
    assert b'{"error": "Bad request syntax' in answer


SCRIPT = """
set -e
kafkapy() { "$PYTHON" -m kafkapy "$@"; }
kafkapy faults add produce error topic=orders code=NOT_LEADER_OR_FOLLOWER times=2
kafkapy faults add connections delay seconds=0.01
"$PYTHON" -c "
import os, kafka
writer = kafka.KafkaProducer(bootstrap_servers=os.environ['KAFKA_BOOTSTRAP_SERVERS'])
writer.send('orders', b'two apples').get(20)
writer.close()"
kafkapy faults remove 2
kafkapy faults list
kafkapy faults clear
kafkapy faults add produce erro || echo status $?
"""


def test_a_command_of_kafkapy_run_breaks_its_broker() -> None:
    result = run_beside("--topic", "orders", "--faults", "0", script=SCRIPT, seconds=120)
    error = "produce(topic='orders').error('NOT_LEADER_OR_FOLLOWER', times=2)"
    lines = result.stdout.splitlines()
    assert lines[0] == f"1\t0 of 0\t{error}"
    assert lines[2].endswith("connections().delay(0.01)")
    assert lines[3:] == [f"1\t2 of 2\t{error}", f"1\t2 of 2\t{error}", "status 1"]
    assert result.stderr == (
        "kafkapy: do=erro: expected error, delay, twice, disconnect, no_answer, torn_answer, slow_bytes"
        " (did you mean error?)\n"
    )


def test_the_command_says_where_it_looks() -> None:
    command = (sys.executable, "-m", "kafkapy", "faults")
    environment = {"PATH": "/usr/bin:/bin"}
    missing = subprocess.run([*command, "list"], capture_output=True, text=True, check=False, env=environment)
    assert missing.returncode == 2
    assert "Give --url, or set KAFKAPY_FAULTS_URL" in missing.stderr
    away = subprocess.run(
        [*command, "--url", "http://127.0.0.1:1", "list"], capture_output=True, text=True, check=False
    )
    assert (away.returncode, away.stderr.count("\n")) == (1, 1)
    assert "http://127.0.0.1:1 does not answer" in away.stderr


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    ],
)
def test_what_is_no_process_of_kafkapy_run_is_named(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        serving = threads.submit(serve)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        result = CliRunner().invoke(main, ["faults", "--url", url, "list"])
        serving.result()
    assert result.exit_code == 1
    assert result.stderr.startswith(f"kafkapy: {url} ")


@pytest.mark.parametrize("url", ["http://127.0.0.1:abc", "http://[", "http://127.0.0.1:86 42"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    result = CliRunner().invoke(main, ["faults", "--url", url, "list"])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith(f"kafkapy: {url} ")


def test_the_proxy_of_the_environment_is_not_asked(client: Client) -> None:
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
    command = (sys.executable, "-m", "kafkapy", "faults", "--url", client.url, "list")
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
