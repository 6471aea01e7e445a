"""What the suites show of a client, in the words and order of the report card.

A test says which it shows: `@pytest.mark.capability("records")`.
"""

from __future__ import annotations

CAPABILITIES = {
    "records": "keys, values, headers, timestamps, order and offsets of every shape of record",
    "codecs": "gzip, snappy, lz4, zstd",
    "acks": "acks 0, 1 and all",
    "idempotence": "idempotent producer",
    "transactions": "what is committed is read, once; producers before it are fenced",
    "partitions": "keyed partitioning, many partitions",
    "positions": "earliest, latest, seek by offset and by timestamp",
    "groups": "consumer groups, rebalances, committed offsets",
    "topics": "create, list, describe, grow, delete topics",
    "configs": "describe and alter configs",
    "delete records": "delete records before an offset",
    "group admin": "list, describe, delete groups; set their offsets",
    "cluster": "brokers, cluster id, API versions, log dirs",
    "errors": "refusals: too large, invalid, unknown, existing",
    "restart": "continues after the broker stops and starts again",
    "throughput tools": "performance tools of the client",
    "batch": "batch reads and writes of data frames",
    "streaming": "exactly-once streaming across a kill",
}
