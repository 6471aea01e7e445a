"""The executor's side of a replay: produces the rows of one Spark task, in their order.

A source partition is in one task, sorted by offset, so the order of its records is kept. A record with a key
goes to the partition that Java producers choose for the key (murmur2). A record without a key goes to its own
partition number, modulo the number of the target's partitions.

The producer is idempotent, so its retries neither duplicate nor reorder records. A task that Spark runs again
(after the loss of an executor) does write duplicates; readers can drop them by the header `kafkapy.source`. A
failed delivery ends the task without an exception, so that Spark does not run it again. The task's result
tells what was written before.

librdkafka replaces a timestamp of 0 with the present time. This affects records with that timestamp.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

# The result of a task: one row.
ANSWER: Final = "written BIGINT, source STRING, error STRING"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
SOURCE_HEADER: Final = "kafkapy.source"

_SETTINGS: Final = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    "message.timeout.ms": 60_000,
    "log_level": 0,  # a failure is reported by delivery
}


class Pace:
    """Spreads events evenly: `next()` waits until the next one may happen.

    Lost time is not made up for. The events of `burst` seconds may follow one another without a wait, so that
    thousands per second need few waits.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval, self._burst, self._clock, self._sleep = 1 / rate, burst, clock, sleep
        self._due = clock()

    def next(self) -> None:
        now = self._clock()
        if self._due - now > self._burst:
            self._sleep(self._due - now)
        self._due = max(self._due, now - self._burst) + self._interval


@dataclass(frozen=True, kw_only=True)
class ReplayTask:
    """The function of every task, sent to the executors.

    kafkapy and confluent-kafka must be installed there. `rates` maps each source partition to the records per
    second of its task. `encode` turns the content of the column `value` into bytes.
    """

    target: str
    partitions: int
    client: dict[str, Any] = field(default_factory=dict)
    rates: dict[int, float] | None = None
    encode: Callable[[Any], bytes] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        written, source, error = _Run(self).produce(_records(batches))
        yield pa.RecordBatch.from_pydict(
            {"written": [written], "source": [source], "error": [error]},
            schema=pa.schema([("written", pa.int64()), ("source", pa.string()), ("error", pa.string())]),
        )


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)


class _Run:
    """The producer of one task, and the deliveries of its records."""

    def __init__(self, task: ReplayTask) -> None:
        from confluent_kafka import Producer

        self._task = task
        self._producer = Producer({**task.client, **_SETTINGS})
        self._written = 0
        self._failure: tuple[str, str] | None = None

    def produce(self, records: Iterable[tuple[Any, ...]]) -> tuple[int, str | None, str | None]:
        """(records written, the source of the first that was not, why)."""
        pace: Pace | None = None
        for topic, partition, offset, timestamp, key, value, headers in records:
            source = f"{topic}-{partition}-{offset}"
            if self._task.rates is not None:
                pace = pace or Pace(self._task.rates[partition])
                pace.next()
            self._send(
                source,
                key=key,
                value=value if self._task.encode is None or value is None else self._task.encode(value),
                headers=_headers(headers, source),
                timestamp=timestamp,
                **({"partition": partition % self._task.partitions} if key is None else {}),
            )
            if self._failure:
                self._producer.purge()
                break
        self._producer.flush()
        return (self._written, *(self._failure or (None, None)))

    def _send(self, source: str, **record: Any) -> None:
        def delivered(error: Any, _: Any) -> None:
            if error is None:
                self._written += 1
            elif self._failure is None:
                self._failure = (source, error.str())

        while not self._failure:
            try:
                self._producer.produce(self._task.target, on_delivery=delivered, **record)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)
            except Exception as error:
                # librdkafka refuses it at once, for example because it exceeds message.max.bytes.
                self._failure = (source, str(error.args[0].str() if hasattr(error.args[0], "str") else error))


def _headers(headers: list[dict[str, Any]] | None, source: str) -> list[tuple[str, bytes | None]]:
    """The record's headers and its source.

    A replay of a replay names the table's own source.
    """
    kept = [(each["key"], each["value"]) for each in headers or () if each["key"] != SOURCE_HEADER]
    return [*kept, (SOURCE_HEADER, source.encode())]
