"""The metrics that clients have pushed, as Prometheus reads them.

A value is kept until its client has been silent for some time, also after the client's last push: a scrape
comes every 15 seconds or so. Clients that were there first keep their place. What there is no room for is
counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kafkapy.protocol.types import Uuid
from kafkapy.telemetry.otlp import Attributes, OtlpSample

MOST_SAMPLES: Final = 20_000
"""The most values of all clients together, where each client counts as one more."""

LONGEST_LABELS: Final = 1_024
"""The most characters of the names and values of a sample's labels."""

PREFIX: Final = "kafka_client_"
"""Begins every name, so that no client can name a metric of the broker."""

_KAFKA: Final = "org.apache.kafka."
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9]+")

Labels = tuple[tuple[str, str], ...]


class ClientSample(NamedTuple):
    """The name and labels of a series."""

    name: str
    labels: Labels
    only_grows: bool


class ClientSamples:
    """The values of one client."""

    __slots__ = ("expires_ms", "labels", "left_out", "values")

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        """Those that tell the client."""
        self.values: dict[ClientSample, float] = {}
        self.left_out = 0
        self.expires_ms = 0


class AllSamples:
    """The values of all clients of a broker; they belong to the event loop."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._most = most
        self._clients: dict[Uuid, ClientSamples] = {}
        self._total = 0

    def __iter__(self) -> Iterator[ClientSamples]:
        return iter(tuple(self._clients.values()))

    @property
    def left_out(self) -> int:
        """The values of the last pushes that are not shown."""
        return sum(each.left_out for each in self._clients.values())

    def update(
        self,
        instance_id: Uuid,
        labels: Mapping[str, str],
        found: Sequence[tuple[ClientSample, float, bool]],
        left_out: int,
        expires_ms: int,
    ) -> None:
        """Take a push: each value with whether it is to be added to the last one."""
        client = self._clients.get(instance_id)
        if client is None:
            if self._total >= self._most:
                return
            client = self._clients[instance_id] = ClientSamples()
            self._total += 1
        room = self._most - self._total + len(client.values)
        values: dict[ClientSample, float] = {}
        for sample, value, is_delta in found:
            if sample not in values and len(values) >= room:
                left_out += 1
                continue
            values[sample] = value + client.values.get(sample, 0) if is_delta else value
        self._total += len(values) - len(client.values)
        client.labels, client.values, client.left_out = dict(labels), values, left_out
        client.expires_ms = expires_ms

    def expire(self, now_ms: int) -> None:
        """Forget the clients that have been silent for long."""
        for instance_id in [key for key, each in self._clients.items() if each.expires_ms <= now_ms]:
            self._total -= 1 + len(self._clients.pop(instance_id).values)


def named(samples: Iterable[OtlpSample]) -> tuple[list[tuple[ClientSample, float, bool]], int]:
    """Samples with names for Prometheus, and the number of those whose labels are too long."""
    found, left_out = [], 0
    for sample in samples:
        labels = _labels(sample.attributes)
        if sum(len(key) + len(value) for key, value in labels) > LONGEST_LABELS:
            left_out += 1
            continue
        series = ClientSample(_name(sample), labels, sample.only_grows)
        found.append((series, sample.value, sample.is_delta and sample.only_grows))
    return found, left_out


def _name(sample: OtlpSample) -> str:
    name = PREFIX + _NOT_IN_NAMES.sub("_", sample.name.removeprefix(_KAFKA)).strip("_").lower()
    return f"{name}_total" if sample.only_grows and not name.endswith("_total") else name


def _labels(attributes: Attributes) -> Labels:
    """No label can take the place of those that tell the client, or begin with a digit."""
    labels = {}
    for key, value in attributes:
        name = _NOT_IN_NAMES.sub("_", key).strip("_").lower()
        if name and name not in CLIENT_LABELS:
            labels[f"_{name}" if name[0].isdigit() else name] = value
    return tuple(labels.items())


CLIENT_LABELS: Final = frozenset({"client_instance_id", "client_id"})
