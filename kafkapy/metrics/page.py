"""The page that Prometheus reads, in its text format 0.0.4.

The client library writes it for what it collects itself: the process, Python and its garbage collector. It
takes 15 µs for each sample, with 17 samples for each partition: 1.2 s for 10,000 partitions. So the samples
of the broker are written here, 20 times as fast: the labels of a partition are text that is written once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from kafkapy.metrics.names import Metric, Names

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

LINES_AT_ONCE: Final = 1000
"""How many lines are written before the event loop may run, which takes less than a millisecond.

Otherwise it would wait for the interpreter's lock for 5 ms, before each of its iterations.
"""

REST_SECONDS: Final = 0.0002

Sample: TypeAlias = tuple[str, float]
"""The labels of `labels`, and the value."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def labels(pairs: Mapping[str, str]) -> str:
    """Labels as the page has them; their values may hold any text."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items())


class Page:
    """A page that is being written, in a thread."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.spelling = names.spelling
        self.parts: list[bytes] = []
        """What is written. A page of 10,000 partitions has 12 MB, and joining it would hold up the loop."""

    def add(self, key: str, samples: Iterable[Sample]) -> None:
        """Add a metric, unless it has no samples."""
        self._write(self._names[key], samples)

    def add_one(self, key: str, value: float) -> None:
        """Add a metric with one sample, without labels."""
        self._write(self._names[key], [("", value)])

    def add_named(self, metric: Metric, samples: Iterable[Sample]) -> None:
        """Add a metric whose name a client has chosen."""
        self._write(metric, samples)

    def add_timer(self, key: str, counts: Iterable[Sample], quantiles: Iterable[Sample]) -> None:
        """Add a metric of durations: how many there were, and quantiles in milliseconds."""
        metric = self._names[key]
        self._write(metric._replace(name=f"{metric.name}_count", type="counter"), counts)
        self._write(metric, quantiles)

    def add_histogram(self, key: str, buckets: Iterable[tuple[str, int]], total: float, count: int) -> None:
        """Add a histogram; `buckets` are cumulative, each with its upper bound."""
        metric = self._names[key]
        name = metric.name
        lines = [f'{name}_bucket{{le="{bound}"}} {number}\n' for bound, number in buckets]
        lines.append(f"{name}_sum {total}\n{name}_count {count}\n")
        self.parts.append("".join((_head(metric), *lines)).encode())

    def _write(self, metric: Metric, samples: Iterable[Sample]) -> None:
        name, left, head = metric.name, iter(samples), _head(metric)
        while lines := [
            f"{name}{{{text}}} {value}\n" if text else f"{name} {value}\n"
            for text, value in islice(left, LINES_AT_ONCE)
        ]:
            self.parts.append((head + "".join(lines)).encode())
            head = ""
            if len(lines) == LINES_AT_ONCE:
                time.sleep(REST_SECONDS)


def _head(metric: Metric) -> str:
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"
