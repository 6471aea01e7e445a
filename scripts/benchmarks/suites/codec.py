"""The codec: microseconds for one encode and one decode of typical messages.

scripts/bench codec [--seconds 0.5]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kafkapy.protocol import codec
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import fetch, metadata, produce
from scripts.benchmarks.options import parser_of
from scripts.benchmarks.table import aligned
from scripts.benchmarks.timing import cpu_seconds


def _messages() -> list[tuple[str, TopMessage, int]]:
    partitions = [
        metadata.MetadataResponsePartition(
            partition_index=index, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for index in range(10)
    ]
    topics = [
        metadata.MetadataResponseTopic(name=f"topic-{index:04}", topic_id=bytes(16), partitions=partitions)
        for index in range(200)
    ]
    brokers = [
        metadata.MetadataResponseBroker(node_id=node, host=f"host-{node}", port=9092) for node in range(3)
    ]
    records = bytes(1100)
    one_fetched = fetch.FetchableTopicResponse(
        topic="topic-0001", partitions=[fetch.PartitionData(records=records)]
    )
    one_produced = produce.TopicProduceData(
        name="topic-0001", partition_data=[produce.PartitionProduceData(records=records)]
    )
    fetched_partitions = [fetch.FetchPartition(partition=index) for index in range(6)]
    fetched_topics = [fetch.FetchTopic(topic="topic-0001", partitions=fetched_partitions)]
    return [
        ("Metadata response", metadata.MetadataResponse(brokers=brokers, topics=topics), 12),
        ("Produce request", produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[one_produced]), 9),
        ("Fetch request", fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=fetched_topics), 12),
        ("Fetch response", fetch.FetchResponse(responses=[one_fetched]), 12),
        ("Fetch response, empty", fetch.FetchResponse(session_id=1), 12),
    ]


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    seconds = parser.parse_args(options).seconds
    rows = []
    for name, message, version in _messages():
        data = codec.encode(message, version)
        encode = cpu_seconds(partial(codec.encode, message, version), seconds)
        decode = cpu_seconds(partial(codec.decode, type(message), data, version), seconds)
        rows.append([name, f"{len(data)}", f"{encode * 1e6:.1f}", f"{decode * 1e6:.1f}"])
    print(aligned(["message", "bytes", "encode µs", "decode µs"], rows))
    return 0
