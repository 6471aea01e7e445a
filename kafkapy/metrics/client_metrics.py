"""The metrics that clients push, beside the broker's own (KIP-714).

A client's label is its instance id, with its client id. What else tells it is in `kafka_client_info`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafkapy.loop.turns import Steps
from kafkapy.metrics.names import Metric
from kafkapy.metrics.page import Page, labels
from kafkapy.telemetry.samples import CLIENT_LABELS, ClientSample
from kafkapy.telemetry.telemetry import ClientTelemetry


class ClientFacts(NamedTuple):
    """The values of one client.

    Each push makes new ones, so that a thread may read them.
    """

    labels: dict[str, str]
    values: dict[ClientSample, float]


@dataclass(slots=True)
class TelemetryFacts:
    """The telemetry of a broker."""

    clients: list[ClientFacts]
    instances: int
    exports: int
    failures: int
    throttled: int
    unknown_subscriptions: int
    left_out: int


def take(telemetry: ClientTelemetry) -> Steps[TelemetryFacts]:
    """Copy the facts, in steps."""
    telemetry.expire()
    counts = telemetry.counts
    found = TelemetryFacts(
        [],
        len(telemetry.instances),
        counts.exports,
        counts.failures,
        counts.throttled,
        counts.unknown_subscriptions,
        telemetry.samples.left_out,
    )
    for client in telemetry.samples:
        yield
        found.clients.append(ClientFacts(client.labels, client.values))
    return found


def write(page: Page, found: TelemetryFacts) -> None:
    """Write the metrics of clients."""
    page.add_one("ClientMetrics.client-metrics-instance-count", found.instances)
    page.add_one("ClientMetrics.plugin-export-count", found.exports)
    page.add_one("ClientMetrics.plugin-error-count", found.failures)
    page.add_one("ClientMetrics.throttle-count", found.throttled)
    page.add_one("ClientMetrics.unknown-subscription-request-count", found.unknown_subscriptions)
    page.add_one("kafkapy_client_metrics_left_out", found.left_out)
    page.add("kafka_client_info", [(labels(each.labels), 1) for each in found.clients])
    families: dict[str, tuple[Metric, dict[str, float]]] = {}
    for client in found.clients:
        own = labels({name: client.labels[name] for name in sorted(CLIENT_LABELS)})
        for sample, value in client.values.items():
            kind = "counter" if sample.only_grows else "gauge"
            metric = Metric(sample.name, kind, "Pushed by clients")
            _, samples = families.setdefault(sample.name, (metric, {}))
            samples[",".join((own, labels(dict(sample.labels)))).rstrip(",")] = value
    for name in sorted(families):
        metric, samples = families[name]
        page.add_named(metric, samples.items())
