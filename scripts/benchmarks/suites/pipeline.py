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
from scripts.benchmarks.pipeline import (
    appending,
    auditing,
    finding,
    from_kafka,
    inferred_appending,
    plain_appending,
    plain_small_upserting,
    plain_upserting,
    reading,
    reading_log,
    replaying,
    small_upserting,
    upserting,
)

LOADS: Final = {
    "read-500": Load(
        "Kafka source, max.poll.records=500 (Kafka's default)",
        reading(lambda topic: from_kafka(topic, max_poll_records="500")),
    ),
    "read": Load("Kafka source as read_topic sets it", reading(from_kafka)),
    "log": Load("kafkapy-log over the server's data directory", reading_log),
    "log-offset": Load("kafkapy-log: one record by partition and offset", finding("offset")),
    "log-time": Load("kafkapy-log: the records of one timestamp", finding("timestamp")),
    "log-key": Load("kafkapy-log: the records of one key", finding("key")),
    "append": Load("pipeline: JSON, append to Delta", appending),
    "inferred-append": Load("pipeline: JSON with inferred columns, append to Delta", inferred_appending),
    "plain-append": Load("Spark alone: JSON, append to Delta", plain_appending),
    "upsert": Load("pipeline: JSON, upsert into Delta, 10 records a key", upserting),
    "plain-upsert": Load("Spark alone: JSON, MERGE into Delta, 10 records a key", plain_upserting),
    "small-upsert": Load(
        "pipeline: 100 keys into a Delta table, copy-on-write", small_upserting("copy-on-write"), warm_up=0
    ),
    "marked-upsert": Load(
        "pipeline: 100 keys into a Delta table, merge-on-read", small_upserting("merge-on-read"), warm_up=0
    ),
    "plain-small-upsert": Load(
        "Spark alone: MERGE of 100 keys into a Delta table", plain_small_upserting, warm_up=0
    ),
    "audit": Load("audit of an appended Delta table", auditing),
    "replay": Load("replay of a Delta table into a topic", replaying),
}


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS)
