"""confluent-kafka continues, and nothing is lost, when the broker restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from interop.confluent_kafka.client import as_received, consume, poll, produce
from interop.conftest import ServerFactory
from interop.support.records import check_one_partition, text_records
from tests.servers.server_process import ServerProcess


@pytest.fixture
def own_server(new_server: ServerFactory, tmp_path: Path) -> Iterator[ServerProcess]:
    with new_server(tmp_path / "server") as server:
        yield server


@pytest.mark.capability("restart")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_topics_records_and_offsets_are_still_there(own_server: ServerProcess, how: str) -> None:
    address = own_server.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("kept", 1, config={"retention.ms": "-1"})])["kept"].result(30)
    sent = text_records(1_000)
    produce(address, "kept", sent, enable_idempotence=True)
    config = {"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest"}
    reader = Consumer({**config, "enable.auto.commit": False})
    reader.subscribe(["kept"])
    last = poll(reader, 400)[399]
    reader.commit(asynchronous=False)
    reader.close()
    cluster_id = admin.list_topics(timeout=10).cluster_id

    getattr(own_server, how)()
    own_server.start()

    assert admin.list_topics(timeout=10).cluster_id == cluster_id
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "kept")]).values()
    assert described.result(30)["retention.ms"].value == "-1"
    check_one_partition(sent, consume(address, "kept", 1_000))
    reader = Consumer(config)
    reader.subscribe(["kept"])
    following = poll(reader, 1_000 - last.offset - 1)
    check_one_partition(sent[last.offset + 1 :], following, last.offset + 1)
    reader.close()


@pytest.mark.capability("restart")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_clients_that_are_at_work_go_on(own_server: ServerProcess, how: str) -> None:
    """An idempotent producer and a consumer work through a restart.

    The consumer gets every record once, in order.
    """
    address, count = own_server.bootstrap_servers, 20_000
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("stream", 1)])["stream"].result(30)
    quick = {"bootstrap.servers": address, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    producer = Producer({**quick, "enable.idempotence": True, "linger.ms": 1})
    refused: list[object] = []

    def told(error: object, _message: object) -> None:
        if error:
            refused.append(error)

    def send() -> None:
        for n in range(count):
            producer.produce("stream", b"%d" % n, on_delivery=told)
            producer.poll(0)
            if n % 500 == 0:
                time.sleep(0.02)

    sender = threading.Thread(target=send)
    sender.start()
    consumer = Consumer({**quick, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["stream"])
    received = poll(consumer, 2_000)
    getattr(own_server, how)()
    own_server.start()
    deadline = time.monotonic() + 60
    while len(received) < count and time.monotonic() < deadline:
        received += [as_received(each) for each in consumer.consume(1_000, 0.2) if each.error() is None]
    sender.join()
    assert producer.flush(30) == 0
    consumer.close()
    assert not refused
    assert [int(each.record.value or b"-1") for each in received] == list(range(count))
