"""What Spark does with kafkapy and with Apache Kafka: both columns and their ratios.

scripts/bench pipeline                                   all loads, 2,000,000 rows of about 100 bytes
scripts/bench pipeline --scale 0.05 --repeat 1 --load append --load upsert
scripts/bench pipeline --markdown out.md --json out.json

One Spark session, local[2] with 2g, serves all servers. Each repetition has a topic of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.benchmarks.comparison import compare_one_server
from scripts.benchmarks.load import Load
from scripts.benchmarks.pipeline import appending, from_kafka, from_log, reading, upserting

LOADS: Final = {
    "read-500": Load(
        "Kafka source, max.poll.records=500 (Kafka's default)",
        reading(lambda topic: from_kafka(topic, max_poll_records="500")),
    ),
    "read": Load("Kafka source as read_topic sets it", reading(from_kafka)),
    "log": Load("kafkapy-log over the server's data directory", reading(from_log)),
    "append": Load("pipeline: JSON, append to Delta", appending),
    "upsert": Load("pipeline: JSON, upsert into Delta, 10 records a key", upserting),
}


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS)
