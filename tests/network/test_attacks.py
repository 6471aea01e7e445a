"""Attacks on memory before authentication.

None may take 64 MiB, or keep others waiting for 0.25 s.

Apache Kafka 4.3.1 with a heap of 1 GB goes down under 12 connections that declare 100 MiB, and takes 4.6 s
and 980 MB for a header with 20 million tagged fields (CVE-2026-111115, CVE-2026-111108, CVE-2022-34917).
"""

from __future__ import annotations

import contextlib
import os
import random
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.records import Record, build_batch
from tests.crash.results import note
from tests.network.attacked_broker import ALL, OPEN, AttackedBroker
from tests.network.raw_client import RawClient, eventually
from tests.security.certificates import Certificates

ALLOWED_GROWTH = 64 << 20
ALLOWED_WAIT = 0.25


@pytest.fixture(scope="module", params=ALL, ids=str)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[AttackedBroker]:
    with AttackedBroker(tmp_path_factory.mktemp("broker"), certificates, request.param) as process:
        with process.friend() as client:
            client.ask(MetadataRequest(), 12)
        yield process


class Watch:
    """Measures a broker while it is attacked.

    It takes its memory, and how long a client's metadata request takes.
    """

    def __init__(self, broker: AttackedBroker) -> None:
        self._before = broker.rss
        self._probe = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("probe.py")), *broker.probe()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._output = self._probe.communicate(timeout=30)[0]

    def check(self) -> None:
        wait, probes, memory, slowdown = (float(word) for word in self._output.split())
        growth = memory - self._before
        print(
            f"memory +{growth / (1 << 20):.1f} MiB, p90 of {probes:.0f} probes {wait * 1000:.0f} ms", end=" "
        )
        print(f"where work takes {slowdown:.1f} times its processor time")
        file, _, test = os.environ["PYTEST_CURRENT_TEST"].partition("::")
        note(
            Path(file).stem,
            test.removesuffix(" (call)"),
            tried=1,
            memory_mib_at_most=round(growth / (1 << 20), 1),
            p90_ms_at_most=round(wait * 1000, 1),
            slowdown_at_most=round(slowdown, 1),
        )
        assert growth <= ALLOWED_GROWTH
        assert wait <= ALLOWED_WAIT * slowdown


def hold(seconds: float = 1.5) -> None:
    """Keep up the attack while the probe measures."""
    deadline = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > deadline, "time passes", seconds + 1)


def send_all(client: RawClient, data: bytes) -> None:
    """Send as much as the broker takes before it closes the connection."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        client.send(data)


def test_connections_that_declare_100_mib_and_send_nothing(broker: AttackedBroker) -> None:
    with contextlib.ExitStack() as stack:
        with Watch(broker) as watch:
            for client in broker.clients(stack, 1000):
                client.send(struct.pack(">ihhi", 100 << 20, 0, 9, 1))
            hold()
        watch.check()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def metadata_header(version: int) -> bytes:
    return struct.pack(">hhih", 3, version, 1, -1)


def tagged_fields(count: int) -> bytes:
    """A request header with `count` tagged fields of no bytes."""
    fields = b"".join(uvarint(tag) + b"\0" for tag in range(100, 100 + min(count, 2000)))
    return metadata_header(12) + uvarint(count) + (fields * (count // 2000 + 1))[: count * 2]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(tagged_fields(19_000_000), id="38 MiB of tagged fields in the header"),
        pytest.param(
            metadata_header(12) + uvarint(20_000_000), id="a count of tagged fields and nothing else"
        ),
        pytest.param(metadata_header(1) + struct.pack(">i", 2**31 - 1), id="2^31 topics, declared"),
        pytest.param(
            metadata_header(1) + struct.pack(">i", 10_000_000) + bytes(20_000_000),
            id="ten million empty names",
        ),
        pytest.param(
            metadata_header(12) + b"\0" + uvarint(8_000_001) + bytes(30_000_000), id="eight million topic ids"
        ),
    ],
)
def test_a_request_that_would_become_millions_of_objects(broker: AttackedBroker, attack: bytes) -> None:
    with contextlib.ExitStack() as stack:
        with Watch(broker) as watch:
            client = stack.enter_context(broker.client())
            send_all(client, frame(attack))
            assert client.is_closed()
            hold()
        watch.check()


def test_counts_nested_in_counts(broker: AttackedBroker) -> None:
    # CreateTopics v4: topics of assignments of broker ids, each array with an element too many.
    topic = struct.pack(">h1sih", 1, b"t", -1, -1)
    assignment = struct.pack(">ii", 0, 250_000) + bytes(1_000_000)
    body = struct.pack(">hhih", 19, 4, 1, -1) + struct.pack(">i", 1000)
    attack = body + topic + struct.pack(">i", 1_000_000) + assignment * 30
    with broker.client() as client:
        with Watch(broker) as watch:
            send_all(client, frame(attack))
            assert client.is_closed()
            hold()
        watch.check()


@pytest.mark.parametrize("seed", [random.randrange(1 << 32)], ids=["seed"])
def test_half_a_mebibyte_of_noise_from_each_of_many(broker: AttackedBroker, seed: int) -> None:
    rng = random.Random(seed)
    with contextlib.ExitStack() as stack:
        with Watch(broker) as watch:
            for client in broker.clients(stack, 100):
                send_all(client, struct.pack(">i", 600 << 10) + rng.randbytes(512 << 10))
            hold()
        watch.check()


def test_readers_that_never_read_what_they_fetch(broker: AttackedBroker) -> None:
    if broker.kind not in OPEN:
        pytest.skip("nobody may fetch before the login")
    with broker.client() as client:
        wanted = CreatableTopic(name="big", num_partitions=1, replication_factor=1)
        created = client.ask(CreateTopicsRequest(topics=[wanted]), 4)
        assert created.topics[0].error_code == 0
        batch = build_batch(Record(n, 1_700_000_000_000, None, bytes(1000), []) for n in range(1000))
        partition = PartitionProduceData(index=0, records=bytes(batch))
        topic = TopicProduceData(name="big", partition_data=[partition])
        for _ in range(52):
            produced = client.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
            assert produced.responses[0].partition_responses[0].error_code == 0
    everything = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=60 << 20)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=60 << 20, topics=[FetchTopic(topic="big", partitions=[everything])]
    )
    fetch = encode_request(request, 12, 1, "raw")
    with contextlib.ExitStack() as stack:
        with Watch(broker) as watch:
            readers = broker.clients(stack, 500)
            for reader in readers:
                reader.send(fetch * 3)
            for reader in readers:
                reader.receive(1)  # it is being answered
            hold()
        watch.check()


@pytest.mark.parametrize(
    "compression", [each for each in Compression if each is not Compression.NONE], ids=lambda each: each.name
)
def test_a_batch_that_decompresses_to_more_than_is_allowed(
    broker: AttackedBroker, compression: Compression
) -> None:
    if broker.kind not in OPEN:
        pytest.skip("nobody may produce before the login")
    bomb = bytes(build_batch([Record(value=bytes(80 << 20))], compression=compression))
    with broker.client() as client:
        wanted = CreatableTopic(name="bombs", num_partitions=1, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[wanted]), 4)
        topic = TopicProduceData(name="bombs", partition_data=[PartitionProduceData(index=0, records=bomb)])
        with Watch(broker) as watch:
            for _ in range(5):
                produced = client.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
                answer = produced.responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
            hold()
        watch.check()


def test_nothing_that_was_sent_made_the_broker_log_a_traceback(broker: AttackedBroker) -> None:
    assert "Traceback" not in broker.log_path.read_text()
    assert broker.running
