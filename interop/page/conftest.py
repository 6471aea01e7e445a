"""Fixtures: a headless browser, axe-core, and a page that shows a broker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from playwright.sync_api import Browser, BrowserContext, Dialog, sync_playwright
from playwright.sync_api import Page as Tab

from interop.support.debian import installed
from interop.support.npm import unpacked
from kafkapy import Broker, Page, SchemaRegistry
from kafkapy.pipeline.state import Progress, State
from kafkapy.remote.brokers import Brokers
from kafkapy.remote.server import RemoteServer
from kafkapy.trace.trace_file import TraceWriter
from tests.pipeline import spark_checkpoint
from tests.trace.relaying import relaying

_AXE = "axe-core@4"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
HOSTILE = '</pre><img src=x onerror="alert(1)"><script>alert(2)</script>'


@dataclass(frozen=True)
class Shown:
    """A broker, and the address of the page that shows it."""

    broker: Broker
    url: str
    writer: TraceWriter
    """Of the trace that the page shows."""


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core as a script."""
    return (unpacked(_AXE, tmp_path_factory.mktemp("axe")) / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a screen.

    Playwright's event loop runs until it ends, so that tests with asyncio could not follow in this process.
    """
    if missing := installed("chromium", "chromium"):
        pytest.skip(missing)
    path = shutil.which("chromium")
    with sync_playwright() as playwright:
        # Root may not use Chromium's sandbox.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Topics, groups, a transaction, faults, requests, and content that would like to run."""
    folder = tmp_path_factory.mktemp("page")
    trace = folder / "orders.trace"
    with Broker() as broker:
        address = {"bootstrap.servers": broker.bootstrap_servers}
        broker.create_topics({"orders": 6, "payments": 1, "empty": 1, "traced": 1})
        for number in range(100):
            value = json.dumps({"id": number, "customer": {"id": number % 7}, "note": HOSTILE})
            broker.produce("orders", key=f"customer-{number % 7}", value=value, headers=[("h", HOSTILE)])
        broker.produce("payments", key=b"\x00\xff", value=HOSTILE)
        consumer = Consumer(
            {**address, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe(["orders"])
        consumer.consume(10, timeout=30)
        consumer.commit(asynchronous=False)
        stopped = Consumer({**address, "group.id": "stopped", "auto.offset.reset": "earliest"})
        stopped.subscribe(["payments"])
        stopped.consume(1, timeout=30)
        stopped.close()
        producer = Producer({**address, "transactional.id": "transfer", "transaction.timeout.ms": 900_000})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("payments", b"open")
        producer.flush()
        with (
            TraceWriter(trace) as writer,
            RemoteServer(Brokers(broker), 0) as remote,
            SchemaRegistry(broker.bootstrap_servers) as registry,
        ):
            write_requests(broker, writer)
            write_avro(broker, registry)
            broker.faults.produce(topic="orders", client_id=HOSTILE).error("NOT_LEADER_OR_FOLLOWER", every=3)
            with Page(
                broker.bootstrap_servers,
                faults=remote.url,
                trace=trace,
                pipelines=[pipeline(broker, folder)],
                schema_registry=registry.url,
            ) as page:
                yield Shown(broker, page.url.rstrip("/"), writer)
        producer.abort_transaction()
        consumer.close()


def write_avro(broker: Broker, registry: SchemaRegistry) -> None:
    """Write a record to the topic `avro` as producers with a schema registry do."""
    order = {"type": "record", "name": "Order", "fields": [{"name": "what", "type": "string"}]}
    broker.create_topics({"avro": 1})
    with SchemaRegistryClient({"url": registry.url}) as client:
        serialize = AvroSerializer(client, json.dumps(order))
        context = SerializationContext("avro", MessageField.VALUE)
        broker.produce("avro", value=serialize({"what": "two apples"}, context))


def pipeline(broker: Broker, folder: Path) -> Path:
    """The file of a pipeline that has written some batches, and one whose topic is missing."""
    entries = [{"topic": "orders", "dead_letter": "payments"}, {"topic": "missing"}]
    value = {"bootstrap": broker.bootstrap_servers, "table": "delta:{topic}", "pipelines": entries}
    file = folder / "lake.yaml"
    file.write_text(json.dumps(value))
    state = State(folder / "orders")
    state.begin()
    state.progress = Progress(
        incarnation="1f",
        batch=4,
        finished="2026-11-30T08:00:00+00:00",
        rows=20,
        seconds=0.5,
        total_rows=100,
        dead_letters=1,
    )
    for batch in range(5):
        end = dict.fromkeys(range(6), batch * 2)
        spark_checkpoint.commit(state, "orders", batch, end, at=1_796_025_600_000 + batch * 60_000)
    error = [("kafkapy.error", HOSTILE.encode()), ("kafkapy.source", b"orders-0-1")]
    broker.produce("payments", value="{", headers=[*error, ("kafkapy.pipeline", b"orders")])
    return file


def write_requests(broker: Broker, writer: TraceWriter) -> None:
    """Write what a producer says to a broker by a relay."""
    with relaying(broker.bootstrap_servers) as tap:
        producer = Producer({"bootstrap.servers": tap.address, "client.id": HOSTILE})
        producer.produce("traced", None)
        producer.flush()
        tap.until(lambda: any(exchange.api == "Produce" for exchange in list(tap.exchanges)))
    for exchange in tap.exchanges:
        writer.write(exchange)


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A window of its own."""
    context = chromium.new_context(viewport={"width": 1200, "height": 800})
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext, shown: Shown) -> Iterator[Tab]:
    """A tab in which no script fails, no content runs, and nothing is fetched from elsewhere."""
    tab, wrong = context.new_page(), list[str]()

    def refused(dialog: Dialog) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", refused)
    tab.on("request", lambda asked: None if asked.url.startswith(shown.url) else wrong.append(asked.url))
    yield tab
    assert wrong == []
