"""`kafkapy produce`, `consume` and `tail`: records are written and read."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkapy import Broker
from tests.commands.conftest import Run, RunJson, invoke
from tests.terminals import in_a_terminal


def produced(kafkapy: Run, topic: str, lines: str | bytes, *options: str) -> None:
    kafkapy("topics", "create", topic, "--if-not-exists", "-p", "1")
    result = kafkapy("produce", topic, *options, input=lines)
    assert result.exit_code == 0, result.output


def consumed(kafkapy: Run, topic: str, *options: str) -> list[str]:
    result = kafkapy("consume", topic, "--exit", *options)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_lines_are_written_and_read_back(kafkapy: Run) -> None:
    produced(kafkapy, "lines", "one\ntwo\r\n\nfour")
    assert consumed(kafkapy, "lines", "--from-beginning") == ["one", "two", "", "four"]


def test_keys_headers_and_places_are_shown_when_asked_for(kafkapy: Run) -> None:
    produced(kafkapy, "keys", "a:1\nb:2:3\n", "--key-separator", ":", "-H", "trace=x")
    prints = ("--print-key", "--print-headers", "--print-partition", "--print-offset")
    assert consumed(kafkapy, "keys", "-b", *prints) == [
        "keys-0\t0\ttrace:x\ta\t1",
        "keys-0\t1\ttrace:x\tb\t2:3",
    ]


def test_json_of_one_topic_can_be_written_to_another(kafkapy: Run, broker: Broker) -> None:
    kafkapy("topics", "create", "source", "target")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("source", b"\xff\0", key="k", headers=[("h", b"\xfe")], timestamp=1700000000000)
    producer.produce("source", None, key="gone")
    assert producer.flush(10) == 0
    lines = consumed(kafkapy, "source", "-b", "--format", "json")
    assert json.loads(lines[0]) == {
        "topic": "source",
        "partition": 0,
        "offset": 0,
        "timestamp": 1700000000000,
        "key": "k",
        "value": {"base64": base64.b64encode(b"\xff\0").decode()},
        "headers": [{"key": "h", "value": {"base64": "/g=="}}],
    }
    produced(kafkapy, "target", "\n".join(lines), "--input", "json")
    again = [json.loads(line) for line in consumed(kafkapy, "target", "-b", "--format", "json")]
    before = [json.loads(line) for line in lines]
    assert [{**record, "topic": "source"} for record in again] == before


def test_reading_begins_at_an_offset_the_last_ones_or_a_time(kafkapy: Run, broker: Broker) -> None:
    kafkapy("topics", "create", "places")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    now = round(time.time() * 1000)
    for hours in (3, 2, 1):
        producer.produce("places", f"{hours}h", timestamp=now - hours * 3_600_000)
    assert producer.flush(10) == 0
    assert kafkapy("topics", "offsets", "places", "--at", "150m").stdout.splitlines() == [
        "TOPIC   PARTITION  EARLIEST  LATEST  AT",
        "places          0         0       3   1",
    ]
    assert consumed(kafkapy, "places", "--offset", "1") == ["2h", "1h"]
    assert consumed(kafkapy, "places", "--offset", "-1") == ["1h"]
    assert consumed(kafkapy, "places", "--offset", "earliest", "-n", "1") == ["3h"]
    assert consumed(kafkapy, "places", "--since", "150m") == ["2h", "1h"]
    assert consumed(kafkapy, "places", "--since", "30m") == []
    assert consumed(kafkapy, "places") == []


def test_only_the_partitions_that_are_named_are_read(kafkapy: Run) -> None:
    kafkapy("topics", "create", "wide", "-p", "3")
    for partition in "012":
        produced(kafkapy, "wide", partition, "--partition", partition)
    assert consumed(kafkapy, "wide", "-b", "-p", "1") == ["1"]
    assert "wide has no partition 3: it has 3" in kafkapy("consume", "wide", "-b", "-p", "3").stderr
    assert "wide has no partition 3: it has 3" in kafkapy("produce", "wide", "-p", "3", input="x").stderr


def test_a_group_goes_on_where_it_has_stopped(kafkapy: Run) -> None:
    produced(kafkapy, "shared", "1\n2\n3\n")
    options = ("--group", "readers", "--from-beginning", "-n")
    assert kafkapy("consume", "shared", *options, "2").stdout.splitlines() == ["1", "2"]
    assert kafkapy("consume", "shared", *options, "1").stdout.splitlines() == ["3"]


def test_what_is_open_in_a_transaction_is_not_committed(kafkapy: Run, broker: Broker) -> None:
    kafkapy("topics", "create", "open")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("open", "maybe")
    producer.flush(10)
    options = ("-b", "-n", "1", "--isolation-level")
    assert kafkapy("consume", "open", *options, "read_uncommitted").stdout == "maybe\n"
    producer.commit_transaction(10)
    assert kafkapy("consume", "open", *options, "read_committed").stdout == "maybe\n"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_written_with_all_acks_and_codecs(kafkapy: Run, acks: str, compression: str) -> None:
    topic = f"codec-{acks}-{compression}"
    produced(kafkapy, topic, "a\nb\n", "--acks", acks, "--compression-type", compression)
    assert kafkapy("consume", topic, "-b", "-n", "2").stdout == "a\nb\n"


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ("no key", ("-K", ":"), "line 1: there is no key separator ':'"),
        ('{"value": "a"}\n{', ("--input", "json"), "line 2: is no JSON"),
        ('{"key": "a"}', ("--input", "json"), 'line 1: expected an object with a "value"'),
        (
            '{"value": "a", "headers": {"h": null}}',
            ("--input", "json"),
            "cannot write a header without a value",
        ),
        ('{"value": {"base64": "?"}}', ("--input", "json"), "line 1: the base64 cannot be decoded"),
        ("a" * 2_000_000, (), "MESSAGE_TOO_LARGE"),
    ],
)
def test_what_cannot_be_written_is_named(
    kafkapy: Run, lines: str, options: tuple[str, ...], message: str
) -> None:
    kafkapy("topics", "create", "wrong", "--if-not-exists")
    result = kafkapy("produce", "wrong", *options, input=lines)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_command_creates_a_topic_by_accident(kafkapy: Run, kafkapy_json: RunJson) -> None:
    for command in ("produce", "consume", "tail"):
        assert "there is no topic mistyped" in kafkapy(command, "mistyped", input="x").stderr
    assert "mistyped" not in [topic["topic"] for topic in kafkapy_json("topics", "list")]


def test_tail_shows_the_last_records_and_those_that_come(kafkapy: Run) -> None:
    produced(kafkapy, "log", "1\n2\n3\n")
    shown = kafkapy("tail", "log", "-n", "2", "--max-messages", "2").stdout.splitlines()
    assert [line.split("\t")[1:] for line in shown] == [
        ["log-0", "1", "null", "2"],
        ["log-0", "2", "null", "3"],
    ]


def test_tail_draws_on_a_terminal(
    kafkapy: Run,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from kafkapy.cli import main

    produced(kafkapy, "drawn", "k:a\x1b[2J\n", "-K", ":")
    in_a_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "120")
    arguments: list[Any] = ["tail", "drawn", "--max-messages", "1"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--bootstrap-server", broker.bootstrap_servers])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert " drawn-0@0 " in shown
    assert "\x1b[33mk" in shown
    assert "a�[2J" in shown


def test_ping_measures_every_broker(kafkapy_json: RunJson, broker: Broker) -> None:
    (row,) = kafkapy_json("ping")
    assert (row["broker"], row["host"], row["result"]) == (1, broker.bootstrap_servers, "answers")
    assert 0 < row["min_ms"] <= row["max_ms"]
    assert row["first_ms"] > 0


def test_ping_names_the_broker_that_does_not_answer(kafkapy: Run) -> None:
    with Broker(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as lost:
        result = invoke("ping", "--bootstrap-server", lost.bootstrap_servers, "--timeout", "1")
    assert result.exit_code == 1
    assert "no answer" in result.stdout
