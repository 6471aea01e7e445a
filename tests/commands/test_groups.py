"""`kafkapy groups` and `lag`: groups, their offsets and their lag."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkapy import Broker
from tests.commands.conftest import Run, RunJson
from tests.groups.streams.streams_world import beat
from tests.handlers.group_client import find_coordinator
from tests.handlers.share_client import ShareMember
from tests.handlers.test_streams_groups import heartbeat, run_word_count
from tests.network.raw_client import RawClient
from tests.terminals import in_a_terminal


@contextmanager
def member(broker: Broker, topic: str, group: str, **settings: Any) -> Iterator[Consumer]:
    """A member of a group that has its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": "till",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    assigned = threading.Event()
    consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
    deadline = time.monotonic() + 30
    while not assigned.is_set():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    try:
        yield consumer
    finally:
        consumer.close()


def committed(broker: Broker, group: str, topic: str, *offsets: int) -> None:
    """Let a group without members have these offsets."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    places = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


@pytest.fixture
def topic(kafkapy: Run, broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions with ten records in each, an hour apart."""
    name = f"topic-{abs(hash(request.node.name))}"
    kafkapy("topics", "create", name, "-p", "2")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    now = round(time.time() * 1000)
    for hour in range(10, 0, -1):
        for partition in (0, 1):
            producer.produce(name, str(hour), partition=partition, timestamp=now - hour * 3_600_000 + 60_000)
    assert producer.flush(10) == 0
    return name


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_members_and_lag(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str, protocol: str
) -> None:
    group = f"described-{protocol}"
    with member(broker, topic, group, **{"group.protocol": protocol}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        (found,) = kafkapy_json("groups", "describe", group)
        assert (found["type"], found["state"]) == (protocol, "Stable")
        (one,) = found["members"]
        assert (one["client_id"], one["partitions"]) == ("till", [f"{topic}:0", f"{topic}:1"])
        # What a member has, but the group has no offset of: nobody would see its records otherwise.
        offsets = [(row["committed"], row["end"], row["lag"]) for row in found["offsets"]]
        assert offsets == [(4, 10, 6), (None, 10, None)]
        _, text, without = (line.split() for line in kafkapy("groups", "describe", group).stdout.splitlines())
        assert without[:7] == [group, topic, "1", "-", "10", "-", "till"]
        assert text[:6] == [group, topic, "0", "4", "10", "6"]
        assert text[6] == "till"
        assert one["member_id"] in kafkapy("groups", "describe", group, "--members").stdout
        assert kafkapy("groups", "describe", group, "--state").stdout.splitlines()[1].split()[:3] == [
            group,
            protocol,
            "Stable",
        ]
        listed = {row["group"]: row for row in kafkapy_json("groups", "list")}
        assert listed[group]["type"] == protocol
        refused = kafkapy("groups", "reset-offsets", group, "--all-topics", "--to-earliest", "--yes")
        assert refused.stderr == f"kafkapy: group {group} is Stable: stop its members first\n"
        assert "NON_EMPTY_GROUP" in kafkapy("groups", "delete", group, "--yes").stderr


def test_groups_are_listed_by_type_and_state(kafkapy_json: RunJson, broker: Broker, topic: str) -> None:
    committed(broker, "idle", topic, 1)
    assert "idle" in [row["group"] for row in kafkapy_json("groups", "list", "--state", "empty")]
    assert "idle" not in [row["group"] for row in kafkapy_json("groups", "list", "--type", "share")]


def test_an_unknown_group_is_named(kafkapy: Run) -> None:
    for command in (("groups", "describe"), ("groups", "delete", "--yes"), ("lag",)):
        result = kafkapy(*command, "nobody")
        assert result.exit_code == 1
        assert result.stderr == "kafkapy: there is no group nobody; kafkapy groups list names all\n"


def test_a_group_is_deleted_after_a_dry_run(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str
) -> None:
    committed(broker, "old", topic, 1)
    assert "would be deleted" in kafkapy("groups", "delete", "old", "--dry-run").stdout
    assert "add --yes" in kafkapy("groups", "delete", "old").stderr
    assert kafkapy("groups", "delete", "old", "--yes").exit_code == 0
    assert "old" not in [row["group"] for row in kafkapy_json("groups", "list")]


def test_offsets_of_a_topic_are_deleted(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str
) -> None:
    committed(broker, "partly", topic, 1, 2)
    foreseen = kafkapy_json("groups", "delete-offsets", "partly", "--topic", topic, "--dry-run")
    assert [(row["partition"], row["offset"]) for row in foreseen] == [(0, 1), (1, 2)]
    assert len(kafkapy_json("lag", "partly")) == 2
    assert kafkapy("groups", "delete-offsets", "partly", "--topic", f"{topic}:0", "--yes").exit_code == 0
    assert [row["partition"] for row in kafkapy_json("lag", "partly")] == [1]


Reset = Callable[..., list[tuple[int, int]]]


@pytest.fixture
def reset(kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str) -> Reset:
    """Resets a group that was at 4 and 6; returns what was before and after."""
    committed(broker, topic, topic, 4, 6)

    def run(*options: str) -> list[tuple[int, int]]:
        planned = kafkapy_json("groups", "reset-offsets", topic, *options, "--dry-run")
        assert [row["committed"] for row in kafkapy_json("lag", topic)] == [4, 6]
        result = kafkapy("groups", "reset-offsets", topic, *options, "--execute")
        assert result.exit_code == 0, result.output
        after = {row["partition"]: row["committed"] for row in kafkapy_json("lag", topic)}
        assert all(after[row["partition"]] == row["after"] for row in planned)
        return [(row["before"], row["after"]) for row in planned]

    return run


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        (("--to-earliest",), [(4, 0), (6, 0)]),
        (("--to-latest",), [(4, 10), (6, 10)]),
        (("--to-current",), [(4, 4), (6, 6)]),
        (("--to-offset", "5"), [(4, 5), (6, 5)]),
        (("--to-offset", "99"), [(4, 10), (6, 10)]),
        (("--shift-by", "-5"), [(4, 0), (6, 1)]),
        (("--shift-by", "3"), [(4, 7), (6, 9)]),
        (("--by-duration", "3h"), [(4, 7), (6, 7)]),
        (("--to-datetime", "2001-01-01"), [(4, 0), (6, 0)]),
        (("--to-datetime", "2100-01-01"), [(4, 10), (6, 10)]),
    ],
)
def test_offsets_are_reset_after_a_dry_run(
    reset: Reset, options: tuple[str, ...], moves: list[tuple[int, int]]
) -> None:
    assert reset("--all-topics", *options) == moves


def test_offsets_of_one_partition_are_reset(reset: Reset, topic: str) -> None:
    assert reset("--topic", f"{topic}:1", "--to-earliest") == [(6, 0)]


def test_offsets_are_not_reset_unless_the_user_is_sure(kafkapy: Run, broker: Broker, topic: str) -> None:
    committed(broker, "unsure", topic, 1)
    result = kafkapy("groups", "reset-offsets", "unsure", "--all-topics", "--to-latest")
    assert result.exit_code == 1
    assert "add --yes" in result.stderr
    assert "unsure" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--all-topics",), "give one of --to-earliest"),
        (("--all-topics", "--to-earliest", "--to-latest"), "give one of --to-earliest"),
        (("--to-earliest",), "give --topic TOPIC, or --all-topics"),
        (("--topic", "nowhere", "--to-earliest"), "there is no topic nowhere"),
        (("--all-topics", "--by-duration", "long"), "--by-duration=long: expected a duration"),
    ],
)
def test_a_reset_that_says_too_little_or_too_much_is_refused(
    kafkapy: Run, options: tuple[str, ...], message: str
) -> None:
    result = kafkapy("groups", "reset-offsets", "anybody", *options)
    assert result.exit_code == 1
    assert message in result.stderr


def test_lag_is_in_records_and_seconds(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str
) -> None:
    committed(broker, "late", topic, 8, 10)
    first, second = kafkapy_json("lag", "late", "--seconds")
    assert (first["topic"], first["partition"], first["lag"]) == (topic, 0, 2)
    assert 7000 < first["seconds"] < 7260
    assert (second["lag"], second["seconds"]) == (0, 0.0)
    assert [row["partition"] for row in kafkapy_json("lag", "late", "--lagging")] == [0]
    assert topic in kafkapy("lag", "--topic", topic).stdout


def test_lag_of_a_deleted_topic_is_unknown(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str
) -> None:
    committed(broker, "orphan", topic, 8)
    committed(broker, "orphan-too", "__consumer_offsets", 0)
    kafkapy("topics", "delete", topic, "--yes")
    assert all(row["lag"] is None or row["topic"] != topic for row in kafkapy_json("lag"))


def interrupted_in_pause(number: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Interrupt a command that watches in one of its pauses; return the seconds of each."""
    pauses: list[float] = []

    def interrupted(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr("kafkapy.commands.lag.time.sleep", interrupted)
    return pauses


def test_watching_draws_on_a_terminal(
    broker: Broker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from kafkapy.cli import main

    committed(broker, "drawn", topic, 8)
    interrupted_in_pause(1, monkeypatch)
    in_a_terminal(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["lag", "drawn", "--watch", "1", "--bootstrap-server", broker.bootstrap_servers])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "drawn" in shown
    assert "2 records to read at " in shown


def test_watching_shows_the_lag_again_until_it_is_interrupted(
    kafkapy: Run, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(broker, "watched", topic, 8)
    pauses = interrupted_in_pause(2, monkeypatch)
    result = kafkapy("lag", "watched", "--watch", "0.5")
    assert result.exit_code == 0
    assert result.stdout.count("watched") == 2
    assert pauses == [0.5, 0.5]


def test_a_share_group_is_described(kafkapy_json: RunJson, broker: Broker, topic: str) -> None:
    (description,) = kafkapy_json("topics", "describe", topic)
    with RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "shared")
        member = ShareMember(
            client, topic, UUID(description["topic_id"]).bytes, group="shared", member=str(uuid4())
        )
        assert member.join() == [0, 1]
        (group,) = kafkapy_json("groups", "describe", "shared")
        assert (group["type"], group["state"]) == ("share", "Stable")
        assert [each["partitions"] for each in group["members"]] == [[f"{topic}:0", f"{topic}:1"]]
        offsets = {row["partition"]: row for row in group["offsets"]}
        # Whether the group knows already where its records begin.
        assert {place: row["end"] for place, row in offsets.items()} == {0: 10, 1: 10}
        for row in offsets.values():
            assert row["lag"] == (None if row["committed"] is None else 10 - row["committed"])


def test_offsets_of_a_share_group_are_reset_and_deleted(
    kafkapy: Run, kafkapy_json: RunJson, broker: Broker, topic: str
) -> None:
    (description,) = kafkapy_json("topics", "describe", topic)
    reset = ("groups", "reset-offsets", "rested", "--topic", topic)
    with RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "rested")
        member = ShareMember(
            client, topic, UUID(description["topic_id"]).bytes, group="rested", member=str(uuid4())
        )
        assert member.join() == [0, 1]
        assert "group rested is Stable: stop its members first" in kafkapy(*reset, "--to-earliest").stderr
        member.heartbeat(member_epoch=-1)
    moves = kafkapy_json(*reset, "--to-earliest", "--dry-run")
    assert [(row["partition"], row["after"]) for row in moves] == [(0, 0), (1, 0)]
    assert kafkapy(*reset, "--to-offset", "3", "--yes").exit_code == 0
    rows = kafkapy_json("lag", "rested")
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [(0, 3, 7), (1, 3, 7)]
    assert kafkapy("groups", "reset-offsets", "rested", "--all-topics", "--to-latest", "--yes").exit_code == 0
    assert [row["lag"] for row in kafkapy_json("lag", "rested")] == [0, 0]
    delete = ("groups", "delete-offsets", "rested", "--topic")
    assert "are deleted for whole topics" in kafkapy(*delete, f"{topic}:0", "--yes").stderr
    assert [row["partition"] for row in kafkapy_json(*delete, topic, "--dry-run")] == [0, 1]
    assert len(kafkapy_json("lag", "rested")) == 2
    assert kafkapy_json(*delete, topic, "--yes") == [{"topic": topic, "result": "deleted", "error": None}]
    assert kafkapy_json("lag", "rested") == []
    assert kafkapy("groups", "delete", "rested", "--yes").exit_code == 0


def test_a_streams_group_is_described(kafkapy: Run, kafkapy_json: RunJson, broker: Broker) -> None:
    kafkapy("topics", "create", "t", "-p", "2")
    with RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "g")
        run_word_count(client)
        (group,) = kafkapy_json("groups", "describe", "g")
        assert group["type"] == "streams"
        ((member),) = group["members"]
        assert {"t:0", "t:1"} <= set(member["partitions"])
        heartbeat(client, beat("m", -1))
    reset = ("groups", "reset-offsets", "g", "--topic", "t")
    assert kafkapy(*reset, "--to-latest", "--yes").exit_code == 0
    assert [(row["committed"], row["lag"]) for row in kafkapy_json("lag", "g")] == [(0, 0), (0, 0)]
    deleted = kafkapy_json("groups", "delete-offsets", "g", "--topic", "t", "--yes")
    assert [row["result"] for row in deleted] == ["deleted", "deleted"]
