"""Requests as they happen on the page, by the file of a live tap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kafkapy import Broker, Page
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.trace_file import TraceWriter
from tests.page.browsing import Browser
from tests.trace.relaying import relaying

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.trace"


@pytest.fixture
def traced(broker: Broker, path: Path) -> Iterator[Browser]:
    with Page(broker.bootstrap_servers, trace=path) as page:
        yield Browser(page.url)


def exchange(number: int, client_id: str = "app") -> Exchange:
    request = encode_request(MetadataRequest(topics=None), 9, number, client_id)[4:]
    return Exchange(number, "127.0.0.1:1", "127.0.0.1:2", 1_700_000_000.0 + number, request)


def test_what_a_client_asks_is_shown_with_its_answers(
    broker: Broker, traced: Browser, path: Path, name: str
) -> None:
    broker.create_topics({name: 1})
    with relaying(broker.bootstrap_servers) as tap:
        producer = Producer({"bootstrap.servers": tap.address, "client.id": "till"})
        producer.produce(name, "two apples")
        assert producer.flush(20) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": tap.address,
                "group.id": name,
                "client.id": "billing",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([name])
        assert len(consumer.consume(1, timeout=20)) == 1
        consumer.close()
    with TraceWriter(path) as writer:
        for seen in tap.exchanges:
            writer.write(seen)
    view = traced.get(f"/requests?api=Produce&client=till&topic={name}")
    (row,) = view.rows
    assert row[2:4] == ["till", row[3]]
    assert row[3].startswith("Produce v")
    assert f"{name}-0 (1 record)" in row[4]
    assert row[4].endswith(f"→ {name}-0@0")
    assert row[5].endswith(" ms")
    assert {row[2] for row in traced.get("/requests?client=bill*").rows} == {"billing"}
    assert "JoinGroup" in traced.get("/requests").text
    one = traced.get(re.findall(r'href="(/requests/\d+)"', view.text)[0])
    assert "&#34;acks&#34;: -1" in one.text
    assert "1 record in 1 batch, offsets 0-0" in one.text
    assert "&#34;baseOffset&#34;: 0" in one.text


def test_only_what_failed_is_shown(traced: Browser, path: Path) -> None:
    with TraceWriter(path) as writer:
        writer.write(exchange(1))
        writer.write(Exchange(2, "a", "b", 1.0, exchange(2).request, note="it went away"))
    (row,) = traced.get("/requests?errors=1").rows
    assert "it went away" in row[4]


def test_older_ones_are_pages_away_and_new_ones_come(traced: Browser, path: Path) -> None:
    with TraceWriter(path) as writer:
        for number in range(1, 151):
            writer.write(exchange(number))
        view = traced.get("/requests")
        assert [row[1] for row in view.rows] == [str(number) for number in range(150, 50, -1)]
        older = traced.get("/requests" + view.link("Older"))
        assert [row[1] for row in older.rows] == [str(number) for number in range(50, 0, -1)]
        assert "The first request is reached." in older.text
        live = re.findall(r'data-address="([^"]*)"', view.text)[0].replace("&amp;", "&")
        assert traced.get(live).rows == []
        writer.write(exchange(151))
        new = traced.get(live)
        assert [row[1] for row in new.rows] == ["151"]
        for number in range(152, 352):
            writer.write(exchange(number))
        new = traced.get(f"/requests/new?pos={new.headers['x-position']}")
        assert [row[1] for row in new.rows] == [str(number) for number in range(351, 251, -1)]
        assert new.headers["x-skipped"] == "100"


def test_content_of_a_trace_is_text(traced: Browser, path: Path) -> None:
    with TraceWriter(path) as writer:
        writer.write(exchange(1, HOSTILE))
        writer.write(Exchange(2, HOSTILE, HOSTILE, 1.0, note=HOSTILE))
        writer.write(Exchange(3, HOSTILE, HOSTILE, 1.0, b"\x7f\xff\x00\x01" + HOSTILE.encode()))
    view = traced.get("/requests")
    assert [row[1] for row in view.rows] == ["3", "2", "1"]
    assert "<script>alert" not in view.text
    for address in re.findall(r'href="(/requests/\d+)"', view.text):
        one = traced.get(address)
        assert one.status == 200
        assert "<script>alert" not in one.text


def test_what_is_wrong_is_named(traced: Browser, path: Path, tmp_path: Path, broker: Broker) -> None:
    view = traced.get("/requests")
    assert view.status == 400
    assert f"`kafkapy trace --write {path}` writes it" in view.problem
    with TraceWriter(path) as writer:
        writer.write(exchange(1))
    assert "Kafka has no API 'Fetsh'" in traced.get("/requests?api=Fetsh").problem
    assert "pos: expected a whole number" in traced.get("/requests?pos=-1").problem
    assert "has no request at 7" in traced.get("/requests/7").problem
    assert traced.get("/requests?pos=99999999999").rows[0][1] == "1"


def test_a_frame_that_is_too_large_is_left_to_the_command(traced: Browser, path: Path) -> None:
    with TraceWriter(path) as writer:
        writer.write(Exchange(1, "a", "b", 1.0, exchange(1).request, 2.0, b"\0" * 3_000_000))
    view = traced.get("/requests")
    problem = traced.get(re.findall(r'href="(/requests/\d+)"', view.text)[0]).problem
    assert problem == f"it is too large to be shown: see kafkapy trace read {path} --full"


def test_a_page_without_a_trace_has_no_requests(browser: Browser) -> None:
    assert "Requests" not in browser.get("/topics").text
    assert browser.get("/requests").status == 404


def test_a_broker_that_is_away_keeps_its_trace(path: Path) -> None:
    with TraceWriter(path) as writer, Broker() as broker:
        writer.write(exchange(1))
        with Page(broker.bootstrap_servers, trace=path, timeout=1) as page:
            browser = Browser(page.url)
            broker.kill()
            assert browser.get("/requests").rows[0][1] == "1"
