"""Messages: where a view begins, what it leaves out, how they are shown."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from kafkapy import Broker
from kafkapy.page.cluster.records import Found, Reader
from kafkapy.page.cluster.topics import Place, Topics
from kafkapy.page.cluster.wire import Wire
from kafkapy.protocol.records import Record, build_batch
from tests.page.browsing import Browser, View


def values(view: View) -> list[str]:
    """The values of the messages of a view."""
    assert view.status == 200, view.problem
    return [row[3] for row in view.rows]


@pytest.fixture
def topic(broker: Broker, name: str) -> str:
    """A topic of one partition with ten records, a second apart."""
    broker.create_topics({name: 1})
    for number in range(10):
        value = json.dumps({"n": number, "tags": ["even" if number % 2 == 0 else "odd"]})
        broker.produce(
            name,
            key=f"k{number % 3}",
            value=value,
            timestamp=1_700_000_000_000 + number * 1000,
            headers=[("half", str(1 + number // 5))],
        )
    return name


def numbers(view: View) -> list[int]:
    # Headers are after the value.
    return [json.JSONDecoder().raw_decode(value)[0]["n"] for value in values(view)]


def test_the_newest_messages_come_first_and_older_ones_follow(browser: Browser, topic: str) -> None:
    view = browser.get(f"/topics/{topic}/messages?limit=4")
    assert numbers(view) == [9, 8, 7, 6]
    older = browser.get(f"/topics/{topic}/messages" + view.link("Older"))
    assert numbers(older) == [5, 4, 3, 2]
    oldest = browser.get(f"/topics/{topic}/messages" + older.link("Older"))
    assert numbers(oldest) == [1, 0]
    assert "The first message is reached" in oldest.text


def test_messages_are_found_by_offset_and_by_time(browser: Browser, topic: str) -> None:
    path = f"/topics/{topic}/messages?limit=2&partition=0&from="
    assert numbers(browser.get(path + "oldest")) == [0, 1]
    by_offset = browser.get(path + "offset&at=7")
    assert numbers(by_offset) == [7, 8]
    assert numbers(browser.get(f"/topics/{topic}/messages" + by_offset.link("Newer"))) == [9]
    assert numbers(browser.get(path + "time&at=1700000004500")) == [5, 6]
    assert numbers(browser.get(path + "time&at=" + quote("2023-11-14T22:13:23+00:00"))) == [3, 4]
    assert numbers(browser.get(path + "offset&at=99999")) == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("key=k1", [7, 4, 1]),
        ("key=" + quote("[12]$"), [8, 7, 5, 4, 2, 1]),
        ("search=ODD", [9, 7, 5, 3, 1]),
        ("where=" + quote("n > 6\r\n\r\n tags[0]=odd"), [9, 7]),
        ("where=" + quote("$key=k0\n$value.n!=9"), [6, 3, 0]),
        ("where=" + quote("missing!=1\nn<=1"), [1, 0]),
        ("where=" + quote("$offset>=8\n$partition=0"), [9, 8]),
        ("where=" + quote("$header.half=2\n$timestamp>1700000007000"), [9, 8]),
        ("key=k1&search=odd&where=" + quote("n>3"), [7]),
    ],
)
def test_messages_are_chosen_by_key_text_and_fields(
    browser: Browser, topic: str, asked: str, expected: list[int]
) -> None:
    assert numbers(browser.get(f"/topics/{topic}/messages?{asked}")) == expected
    forth = browser.get(f"/topics/{topic}/messages?from=oldest&{asked}")
    assert numbers(forth) == expected[::-1]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("where=" + quote("=1"), "condition =1: expected one such as total>100"),
        ("where=" + quote("n=1\n$what=1"), "condition $what=1: expected one of $key, $value"),
        ("where=" + quote("n~("), "condition n~(: it is no regular expression: missing closing )"),
        ("where=" + "x" * 1001, "the conditions have more than 1,000 characters"),
        ("key=" + quote("*"), "key *: it is no regular expression"),
        ("from=time&at=yesterday", "time yesterday: expected a time"),
        ("from=offset&at=-1", "offset: expected a whole number, not '-1'"),
        ("partition=7", "has no partition 7: it has 1"),
        ("pos=x", "pos: expected partitions"),
        ("keys=pictures", "keys: expected auto, text"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_line(
    browser: Browser, topic: str, asked: str, problem: str
) -> None:
    view = browser.get(f"/topics/{topic}/messages?{asked}")
    assert view.status == 400
    assert problem in view.problem


def test_conditions_are_shown_again_as_they_were_written(browser: Browser, topic: str) -> None:
    view = browser.get(f"/topics/{topic}/messages?limit=1&where=" + quote("n<5\nn>1"))
    assert view.field("where") == "n<5\nn>1"
    assert numbers(view) == [4]
    assert numbers(browser.get(f"/topics/{topic}/messages" + view.link("Older"))) == [3]


def test_markers_fulfil_no_condition(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, "one")
    producer.commit_transaction()
    assert values(browser.get(f"/topics/{name}/messages?where=absent!=1")) == ["one"]


def test_messages_of_partitions_are_merged_by_time(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 3})
    for number in range(30):
        broker.produce(name, value=str(number), partition=number % 3, timestamp=1_700_000_000_000 + number)
    seen: list[str] = []
    view = browser.get(f"/topics/{name}/messages?limit=7")
    while True:
        seen += values(view)
        if "is reached" in view.text:
            break
        view = browser.get(f"/topics/{name}/messages" + view.link("Older"))
    assert seen == [str(number) for number in range(29, -1, -1)]


def test_no_message_is_missing_or_twice_whatever_their_sizes(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 12})
    expected = set()
    for number in range(120):
        value = f"{number}:" + "x" * (300_000 if number % 7 == 0 else 10)
        broker.produce(name, value=value, partition=number % 12, timestamp=1_700_000_000_000 + number)
        expected.add(number)
    for begin, further in (("newest", "Older"), ("oldest", "Newer")):
        seen: list[int] = []
        view = browser.get(f"/topics/{name}/messages?limit=25&from={begin}")
        while True:
            seen += [int(value.partition(":")[0]) for value in values(view)]
            if "is reached" in view.text:
                break
            link = "Search further" if "Search further" in view.text else further
            view = browser.get(f"/topics/{name}/messages" + view.link(link))
        assert sorted(seen) == sorted(expected)


@pytest.mark.parametrize("direction", ["forth", "back"])
def test_a_search_that_takes_long_ends_in_time_and_goes_on_where_it_was(
    broker: Broker, name: str, direction: str
) -> None:
    broker.create_topics({name: 2})
    for number in range(100):
        broker.produce(name, value=str(number), partition=number % 2)

    def slow(found: Found) -> bool:
        time.sleep(0.005)
        return found.offset % 10 == 0

    places = [Place(name, 0), Place(name, 1)]
    first, last = dict.fromkeys(places, 0), dict.fromkeys(places, 50)
    positions = last if direction == "back" else first
    seen: list[tuple[int, int]] = []
    scanned = rounds = 0
    with Wire({"bootstrap_servers": [broker.bootstrap_servers]}, 30) as wire:
        reader = Reader(wire, Topics(wire, 30))
        while True:
            if direction == "back":
                read = reader.back(positions, first, 1000, 0.1, slow)
            else:
                read = reader.forth(positions, last, 1000, 0.1, slow)
            seen += [(each.partition, each.offset) for each in read.found]
            scanned, rounds, positions = scanned + read.scanned, rounds + 1, read.positions
            if read.is_at_end:
                break
            assert read.has_stopped
    assert sorted(seen) == [(partition, offset) for partition in (0, 1) for offset in range(0, 50, 10)]
    assert rounds > 2
    assert scanned == 100


def test_transactions_show_their_markers_and_committed_ones_alone_on_request(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions()
    for value, ends in (
        ("one", producer.commit_transaction),
        ("two", producer.abort_transaction),
        ("three", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush()
        ends()
    producer.begin_transaction()
    producer.produce(name, "open")
    producer.flush()
    path = f"/topics/{name}/messages?from=oldest"
    committed, aborted = "transaction committed", "transaction aborted"
    assert values(browser.get(path)) == ["one", committed, "two", aborted, "three", committed, "open"]
    assert values(browser.get(path + "&committed=1")) == ["one", "three"]
    assert values(browser.get(f"/topics/{name}/messages?committed=1")) == ["three", "one"]
    row = next(row for row in browser.get("/transactions?open=1").rows if row[0] == name)
    assert row[1] == "Ongoing"
    assert row[5] == f"{name}-0"
    producer.abort_transaction()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_messages_within_compressed_batches_are_found_by_offset(
    broker: Broker, browser: Browser, name: str, codec: str
) -> None:
    broker.create_topics({name: 1})
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 200}
    )
    for number in range(1000):
        producer.produce(name, str(number))
    producer.flush()
    path = f"/topics/{name}/messages?limit=3&partition=0"
    assert values(browser.get(path + "&from=offset&at=500")) == ["500", "501", "502"]
    assert values(browser.get(path)) == ["999", "998", "997"]


def test_one_message_is_shown_whole_in_the_form_that_is_asked_for(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    text = '{"price": 1.10, "id": 12345678901234567890123, "of": {"a": []}}'
    broker.produce(name, key=(17).to_bytes(8), value=text, headers=[("trace", "<b>"), ("none", None)])
    view = browser.get(f"/topics/{name}/0/0?keys=integer")
    assert "<bdi>17</bdi>" in view.text
    assert "&#34;price&#34;: 1.10" in view.text  # as it is written, and not as a float
    assert "12345678901234567890123" in view.text
    assert view.rows == [["trace", "<b>"], ["none", "null"]]
    assert "00 00 00 00 00 00 00 11" in browser.get(f"/topics/{name}/0/0").text
    assert "has no record at offset 5" in browser.get(f"/topics/{name}/0/5").problem


def test_live_messages_are_those_since_the_last_look(broker: Broker, browser: Browser, topic: str) -> None:
    path = f"/topics/{topic}/messages/new?pos="
    first = browser.get(path + "0:10")
    assert (values(first), first.headers["x-position"]) == ([], "0:10")
    broker.produce(topic, value="new")
    broker.produce(topic, value="newer")
    second = browser.get(path + first.headers["x-position"])
    assert values(second) == ["newer", "new"]
    assert second.headers["x-position"] == "0:12"
    for number in range(1100):
        broker.produce(topic, value=str(number))
    third = browser.get(path + second.headers["x-position"])
    assert third.headers["x-skipped"] == "100"


def test_a_message_of_the_largest_size_and_wild_characters_stay_text(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    broker.produce(name, value="</pre><script>alert(1)</script>\u202e")
    broker.produce(name, value="x" * 900_000)
    broker.produce(name, value="[" * 100_000)
    broker.produce(name, value='{"a": "\\ud800"}')
    view = browser.get(f"/topics/{name}/messages")
    assert len(values(view)) == 4
    assert "<script>alert" not in view.text
    assert "<RIGHT-TO-LEFT OVERRIDE>" in values(view)[3]
    assert len(view.text) < 300_000


def test_a_batch_with_too_many_records_is_named_and_passed(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    # 250,000 records without a key and a value, by their own protocol: no client makes such batches.
    from kafkapy.protocol.compression import Compression

    batch = build_batch(
        (Record(timestamp=1_700_000_000_000) for _ in range(250_000)), compression=Compression.ZSTD
    )
    produce_raw(broker, name, bytes(batch))
    broker.produce(name, value="after")
    view = browser.get(f"/topics/{name}/messages?from=oldest")
    assert values(view) == ["after"]
    assert "250,000 records in one batch are more than the page reads" in view.problem
    back = browser.get(f"/topics/{name}/messages")
    assert values(back) == ["after"]
    assert "The first message is reached" in back.text


def produce_raw(broker: Broker, topic: str, batch: bytes) -> None:
    """Write a batch as it is."""
    from kafkapy.protocol.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        ProduceResponse,
        TopicProduceData,
    )

    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    with Wire({"bootstrap_servers": [broker.bootstrap_servers]}, 30) as wire:
        answer = wire.ask(
            ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), ProduceResponse, newest=12
        )
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_messages_of_any_size_are_shown_from_the_newest_back(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    for number in range(60):
        broker.produce(name, value=f"{number:02d}" + "x" * 900_000)
    view, seen = browser.get(f"/topics/{name}/messages?limit=500"), list[str]()
    while True:
        found = [value[:2] for value in values(view)] if view.rows else []
        assert found, "a view has none, and there are older ones"
        seen += found
        if "The first message is reached" in view.text:
            break
        view = browser.get(f"/topics/{name}/messages" + view.link("Search further"))
    assert seen == [f"{number:02d}" for number in reversed(range(60))]


@pytest.mark.parametrize("begin", ["oldest", "newest"])
def test_what_few_bytes_decompress_to_is_counted(
    broker: Broker, browser: Browser, name: str, begin: str
) -> None:
    from kafkapy.protocol.compression import Compression

    broker.create_topics({name: 1})
    batch = build_batch([Record(value=bytes(30_000_000))], compression=Compression.ZSTD)
    for _ in range(6):
        produce_raw(broker, name, bytes(batch))
    view, places = browser.get(f"/topics/{name}/messages?from={begin}"), list[str]()
    while True:
        assert 1 <= len(view.rows) <= 2  # 32 MiB at once, and one more
        places += [row[0] for row in view.rows]
        if "message is reached" in view.text:
            break
        view = browser.get(f"/topics/{name}/messages" + view.link("Search further"))
    assert sorted(places) == [f"0: {offset}" for offset in range(6)]


def test_a_view_of_long_messages_shows_their_beginnings(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    wild = "\u202e" * 20_000
    for _ in range(100):
        broker.produce(name, value=wild, headers={"h" * 20_000: wild})
    view = browser.get(f"/topics/{name}/messages?limit=100")
    assert len(view.text) < 40_000_000
    assert view.text.count("only the beginning is shown") == 100
    one = browser.get(f"/topics/{name}/0/7")
    assert "only the beginning is shown" not in one.text
    assert "h" * 300 not in one.text


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/0/" + "9" * 30, "it is too large"),
        ("/messages?from=time&at=" + "9" * 19, "expected a time such as"),
        ("/messages?from=time&at=" + "9" * 5000, "expected a time such as"),
        ("/messages?from=time&at=0001-01-01", "expected a time such as"),
        ("/messages?from=time&at=%C2%B2", "expected a time such as"),
    ],
)
def test_numbers_that_kafka_cannot_have_are_told_in_a_line(
    browser: Browser, topic: str, path: str, problem: str
) -> None:
    view = browser.get(f"/topics/{topic}{path}")
    assert view.status == 400
    assert problem in view.problem
