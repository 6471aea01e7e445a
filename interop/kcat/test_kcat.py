"""kcat: what is produced is what is consumed, in its own words."""

from __future__ import annotations

import json
import time

import pytest

from interop.confluent_kafka import client as confluent
from interop.conftest import MakeTopic
from interop.kcat.client import KcatError, consume, kcat, parse, produce
from interop.support.records import CODECS, Received, Record, text_records
from interop.support.waiting import wait_until

HEADERS = (("source", b"kcat"), ("empty", b""), ("source", b"again"))


def lines(count: int) -> list[Record]:
    return [record._replace(headers=HEADERS) for record in text_records(count)]


def check(sent: list[Record], received: list[Received], before: int, after: int) -> None:
    """The same records in order, stamped while they were sent."""
    assert [each.offset for each in received] == list(range(len(sent)))
    assert [each.record._replace(timestamp=0) for each in received] == [
        record._replace(timestamp=0) for record in sent
    ]
    assert all(before <= each.record.timestamp <= after for each in received)


def now() -> int:
    return int(time.time() * 1000)


@pytest.mark.capability("records")
@pytest.mark.capability("codecs")
@pytest.mark.parametrize("codec", CODECS)
def test_lines_come_back_unchanged(bootstrap_servers: str, make_topic: MakeTopic, codec: str) -> None:
    topic, sent, before = make_topic(), lines(500), now()
    produce(bootstrap_servers, topic, sent, "-z", codec)
    check(sent, consume(bootstrap_servers, topic), before, now())


@pytest.mark.capability("records")
def test_nulls_and_binary_of_other_clients_are_read(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [
        Record(None, b"\x00\xff value", (), 1_700_000_000_000),
        Record(b"tombstone\n", None, (("h", b"1"),), 1_700_000_000_001),
        Record(b"", b"", (), 1_700_000_000_002),
        Record(b"big", bytes(900_000), (), 1_700_000_000_003),
    ]
    confluent.produce(bootstrap_servers, topic, sent)
    assert [each.record for each in consume(bootstrap_servers, topic)] == sent


@pytest.mark.capability("records")
def test_a_line_without_value_is_a_tombstone_where_nulls_are_wanted(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    kcat(bootstrap_servers, "-P", "-Z", "-K", ":", "-t", topic, stdin=b"gone:\n:unkeyed\n")
    assert [(each.record.key, each.record.value) for each in consume(bootstrap_servers, topic)] == [
        (b"gone", None),
        (None, b"unkeyed"),
    ]


@pytest.mark.parametrize(
    "option",
    [
        pytest.param("acks=0", marks=pytest.mark.capability("acks")),
        pytest.param("acks=1", marks=pytest.mark.capability("acks")),
        pytest.param("acks=all", marks=pytest.mark.capability("acks")),
        pytest.param("enable.idempotence=true", marks=pytest.mark.capability("idempotence")),
    ],
)
def test_records_arrive_with_every_kind_of_acknowledgement(
    bootstrap_servers: str, make_topic: MakeTopic, option: str
) -> None:
    topic, sent, before = make_topic(), lines(300), now()
    produce(bootstrap_servers, topic, sent, "-X", option)
    received = wait_until(lambda: found if len(found := consume(bootstrap_servers, topic)) == 300 else None)
    check(sent, received or [], before, now())


@pytest.mark.capability("positions")
def test_it_starts_and_ends_where_it_is_told(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Record(None, b"%d" % n, (), 1_700_000_000_000 + 1_000 * n) for n in range(100)]
    confluent.produce(bootstrap_servers, topic, sent)

    def offsets(*options: str) -> list[int]:
        return [each.offset for each in consume(bootstrap_servers, topic, *options)]

    assert offsets("-o", "beginning") == list(range(100))
    assert offsets("-o", "95") == list(range(95, 100))
    assert offsets("-o", "-3") == [97, 98, 99]
    assert offsets("-o", "beginning", "-c", "7") == list(range(7))
    assert offsets("-o", "s@1700000090000", "-o", "e@1700000095000") == [90, 91, 92, 93, 94]
    for timestamp, offset in ((1_700_000_042_500, 43), (-2, 0), (-1, 100)):
        answer = kcat(bootstrap_servers, "-Q", "-t", f"{topic}:0:{timestamp}")
        assert answer.decode() == f"{topic} [0] offset {offset}\n"


@pytest.mark.capability("topics")
@pytest.mark.capability("cluster")
def test_it_lists_the_topics_and_their_leaders(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    metadata = json.loads(kcat(bootstrap_servers, "-L", "-J"))
    assert {broker["name"] for broker in metadata["brokers"]} == set(bootstrap_servers.split(","))
    brokers = sorted(broker["id"] for broker in metadata["brokers"])
    assert metadata["controllerid"] in brokers
    (listed,) = [each for each in metadata["topics"] if each["topic"] == topic]
    assert [partition["partition"] for partition in listed["partitions"]] == [0, 1, 2]
    for partition in listed["partitions"]:
        assert partition["leader"] == partition["replicas"][0]["id"]
        for each in ("replicas", "isrs"):
            assert sorted(replica["id"] for replica in partition[each]) == brokers


@pytest.mark.capability("topics")
def test_producing_creates_the_topic(bootstrap_servers: str, name: str) -> None:
    sent, before = lines(5), now()
    produce(bootstrap_servers, name, sent)
    check(sent, consume(bootstrap_servers, name), before, now())


@pytest.mark.capability("groups")
def test_a_balanced_consumer_goes_on_where_its_group_was(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(2), lines(60)
    options = ["-G", name, "-q", "-e", "-X", "auto.offset.reset=earliest"]
    layout = ["-f", "%p %o %T %K %S %k%s%h\n", topic]
    produce(bootstrap_servers, topic, sent[:40])
    first = parse(kcat(bootstrap_servers, *options, *layout))
    produce(bootstrap_servers, topic, sent[40:])
    second = parse(kcat(bootstrap_servers, *options, *layout))
    assert (len(first), len(second)) == (40, 20)

    def content(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
        return sorted((record.key, record.value) for record in records)

    assert content([each.record for each in first]) == content(sent[:40])
    assert content([each.record for each in second]) == content(sent[40:])


@pytest.mark.capability("errors")
def test_what_is_refused_is_said(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(max_message_bytes="2000")
    with pytest.raises(KcatError, match="Message size too large"):
        kcat(bootstrap_servers, "-P", "-t", topic, stdin=b"x" * 5_000)
    with pytest.raises(KcatError, match="Unknown topic"):
        kcat(bootstrap_servers, "-C", "-e", "-t", name)
    with pytest.raises(KcatError, match=r"Invalid topic|Unknown topic"):
        kcat(bootstrap_servers, "-P", "-t", "not allowed", "-X", "message.timeout.ms=5000", stdin=b"x")
