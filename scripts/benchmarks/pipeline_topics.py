"""The topic of the pipeline benchmark: JSON records of about 100 bytes.

The records are the same in every server. Keys are the account's number: each account has ten records, all in
one partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from scripts.benchmarks.load import Target
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer

PARTITIONS = 4
RECORDS_PER_KEY = 10
SCHEMA = "id BIGINT, account STRING, amount DOUBLE, currency STRING, note STRING"

_ROWS = 10_000


def fill(target: Target, rows: int) -> str:
    """A new topic with so many records; its name."""
    topic = target.new_topic(PARTITIONS)
    producer = row_producer(target.bootstrap_servers, linger_ms=20)
    for first in range(0, rows, _ROWS):
        for partition in range(PARTITIONS):
            numbers = range(first, min(first + _ROWS, rows))
            records = _records(numbers, partition, max(rows // RECORDS_PER_KEY, 1))
            produce_rows(producer, topic, partition, list(records))
    flush_rows(producer)
    return topic


def _records(numbers: range, partition: int, accounts: int) -> Iterator[dict[str, bytes]]:
    """Those of the records with these numbers that belong to the partition."""
    for number in numbers:
        account = number * 7919 % accounts
        if account % PARTITIONS == partition:
            value = {
                "id": number,
                "account": f"account-{account:07}",
                "amount": number % 100_000 / 100,
                "currency": "EUR",
                "note": f"order {number}",
            }
            yield {"key": b"%d" % account, "value": json.dumps(value).encode()}
