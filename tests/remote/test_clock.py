"""The clock of brokers, which tests in any language advance."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import pytest

from kafkapy.cluster import Cluster
from kafkapy.inprocess import Broker
from tests.remote.conftest import Client, Serve, run_beside

manual = pytest.mark.kafka(clock="manual")


@manual
def test_an_advance_is_answered_when_all_that_was_due_has_happened(
    client: Client, kafka_broker: Broker
) -> None:
    kafka_broker.produce("orders", value="two apples")
    status, told = client.ask("POST", "/clock", {"advance": "6d23h"})
    assert status == 200
    assert len(kafka_broker.records("orders")) == 1
    now = datetime.datetime.fromisoformat(told["now"])
    assert now > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=6, hours=22)
    assert client.ask("POST", "/clock", {"advance": "2h"})[0] == 200
    assert kafka_broker.records("orders") == []
    assert datetime.datetime.fromisoformat(client.ask("GET", "/clock")[1]["now"]) > now


@manual
@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, "advance: expected a duration such as"),
        ({"advance": 7}, "advance: expected a duration such as"),
        ({"advance": "soon"}, "advance=soon: expected a duration such as 500ms"),
        ({"advance": "0s"}, "expected more than 0"),
        ({"advance": "99999999d"}, "cannot be advanced beyond the year 9999"),
        ({"advance": "9" * 400 + "w"}, "cannot be advanced beyond the year 9999"),
        ({"advance": "1d", "members_stay": "yes"}, "members_stay=yes: expected true or false"),
        ({"advance": "1d", "member_stay": True}, "no member_stay (did you mean members_stay?)"),
    ],
)
def test_what_is_no_advance_is_refused(
    client: Client, kafka_broker: Broker, told: dict[str, Any], why: str
) -> None:
    before = kafka_broker.manual_clock().ahead
    status, answer = client.ask("POST", "/clock", told)
    assert status == 400
    assert why in answer["error"]
    assert kafka_broker.manual_clock().ahead == before


def test_the_machines_clock_is_not_advanced(client: Client) -> None:
    status, told = client.ask("POST", "/clock", {"advance": "1d"})
    assert status == 400
    assert "the brokers have the machine's clock: see kafkapy run --clock" in told["error"]


@manual
def test_a_paused_broker_is_not_advanced(client: Client, kafka_broker: Broker) -> None:
    kafka_broker.pause()
    status, told = client.ask("POST", "/clock", {"advance": "1d"})
    assert (status, told) == (400, {"error": "the broker is paused; call resume() first"})
    kafka_broker.resume()


SCRIPT = """
kafkapy() { "$PYTHON" -m kafkapy "$@"; }
read_all() { kafkapy consume orders --from-beginning --exit --bootstrap-server "$KAFKA_BOOTSTRAP_SERVERS"; }
echo "two-apples" | kafkapy produce orders --bootstrap-server "$KAFKA_BOOTSTRAP_SERVERS"
read_all
kafkapy clock now
kafkapy clock advance 8d
read_all
kafkapy clock advance --members-stay soon
test -z "$KAFKAPY_FAULTS_URL"
"""


def test_a_command_of_kafkapy_run_advances_the_clock() -> None:
    result = run_beside("--topic", "orders", "--clock", "manual", script=SCRIPT)
    record, *times = result.stdout.split()
    assert record == "two-apples"
    before, after = map(datetime.datetime.fromisoformat, times)
    assert after - before >= datetime.timedelta(days=8)
    assert "advance=soon: expected a duration" in result.stderr
    assert result.returncode == 0


def test_the_command_says_where_it_looks() -> None:
    command = (sys.executable, "-m", "kafkapy", "clock", "now")
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin"})
    assert result.returncode == 2
    assert "Give --url, or set KAFKAPY_CLOCK_URL" in result.stderr


def test_no_broker_of_a_cluster_is_advanced_while_one_is_paused(serve: Serve) -> None:
    with Cluster(2, clock="manual") as cluster:
        client = serve(cluster)
        cluster.pause(2)
        assert client.ask("POST", "/clock", {"advance": "1d"}) == (
            400,
            {"error": "broker 2 is paused; resume it first"},
        )
        assert [cluster[number].manual_clock().ahead for number in cluster] == [0, 0]
        cluster.resume(2)
