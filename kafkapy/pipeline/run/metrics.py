"""Metrics of pipelines for Prometheus, at a port of the process that runs them.

    kafkapy_pipeline_up                            1 while the pipeline runs
    kafkapy_pipeline_rows_total                    rows that the run has written
    kafkapy_pipeline_dead_letters_total            dead letters, by `reason` (`reasons.py`)
    kafkapy_pipeline_left_out_total                records that became neither rows nor dead letters
    kafkapy_pipeline_batch_seconds                 a histogram of the time that batches took
    kafkapy_pipeline_maintenance_seconds_total     time that batches waited for the table's maintenance
    kafkapy_pipeline_last_batch                    the number of the last batch
    kafkapy_pipeline_last_batch_timestamp_seconds  when it was written
    kafkapy_pipeline_lag                           offsets left to read, by `partition`

Each has the labels `pipeline` and `topic`. Counts begin at 0 with each run, as Prometheus expects.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.run.progress import BatchReport, Progress

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_ADDRESS: Final = re.compile(r"(?:(?P<host>[^\s:\[\]]+|\[[^\s\]]+\]):)?(?P<port>\d{1,5})")
_SECONDS: Final = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_LABELS: Final = ("pipeline", "topic")


class Metrics:
    """The metrics of the pipelines of this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        def made(kind: Any, name: str, about: str, *labels: str, **how: Any) -> Any:
            return kind(f"kafkapy_pipeline_{name}", about, (*_LABELS, *labels), registry=registry, **how)

        self.up = made(Gauge, "up", "1 while the pipeline runs.")
        self.rows = made(Counter, "rows", "Rows that the run has written.")
        self.dead_letters = made(Counter, "dead_letters", "Dead letters of the run.", "reason")
        self.left_out = made(Counter, "left_out", "Records that became neither rows nor dead letters.")
        self.seconds = made(Histogram, "batch_seconds", "The time that batches took.", buckets=_SECONDS)
        self.maintenance = made(
            Counter, "maintenance_seconds", "Time that batches waited for the table's maintenance."
        )
        self.last = made(Gauge, "last_batch", "The number of the last batch.")
        self.written = made(Gauge, "last_batch_timestamp_seconds", "When the last batch was written.")
        self.lag = made(Gauge, "lag", "Offsets left to read.", "partition")


@contextlib.contextmanager
def serving(address: str) -> Iterator[Metrics]:
    """Serves metrics at `[HOST:]PORT`, by default on 127.0.0.1.

    Raises PipelineError if prometheus_client is not installed, or if the port cannot be used.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise PipelineError(f"--metrics: expected PORT or HOST:PORT, not {address!r}")
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise PipelineError(
            "--metrics needs prometheus_client: pip install '.[metrics]' in a checkout"
        ) from None
    registry = CollectorRegistry()
    host = (match["host"] or "127.0.0.1").strip("[]")
    try:
        server, thread = start_http_server(int(match["port"]), host, registry)
    except OSError as error:
        raise PipelineError(f"--metrics: cannot listen at {address}: {error.strerror}") from None
    try:
        yield Metrics(registry)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Measured(Progress):
    """Counts a pipeline's progress in metrics, and passes it on."""

    watches_lag = True

    def __init__(self, definition: PipelineDefinition, metrics: Metrics, progress: Progress) -> None:
        self._metrics, self._progress = metrics, progress
        self._labels = (definition.name, definition.topic)
        self._partitions: frozenset[int] = frozenset()

    def __enter__(self) -> Self:
        self._progress.__enter__()
        metrics = self._metrics
        for one in (metrics.rows, metrics.left_out, metrics.seconds, metrics.maintenance):
            one.labels(*self._labels)  # 0 is there before the first batch
        self._metrics.up.labels(*self._labels).set(1)
        return self

    def note(self, line: str) -> None:
        self._progress.note(line)

    def batch(self, report: BatchReport) -> None:
        self._progress.batch(report)
        metrics, labels = self._metrics, self._labels
        metrics.rows.labels(*labels).inc(report.rows)
        metrics.left_out.labels(*labels).inc(report.left_out)
        for reason, count in report.reasons.items():
            metrics.dead_letters.labels(*labels, reason).inc(count)
        metrics.seconds.labels(*labels).observe(report.seconds)
        metrics.maintenance.labels(*labels).inc(report.maintained.seconds)
        metrics.last.labels(*labels).set(report.batch)
        metrics.written.labels(*labels).set_to_current_time()

    def lag(self, partitions: Mapping[int, int]) -> None:
        self._progress.lag(partitions)
        for partition, lag in partitions.items():
            self._metrics.lag.labels(*self._labels, partition).set(lag)
        self._partitions = frozenset(partitions)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What nobody measures any more is no longer shown."""
        for partition in self._partitions:
            self._metrics.lag.remove(*self._labels, partition)
        self._metrics.up.labels(*self._labels).set(0)
        self._progress.__exit__(kind, error, trace)
