"""The quantiles of durations that a page shows."""

from __future__ import annotations

from typing import Final

from kafkapy.metrics.page import Sample

QUANTILES: Final = (0.50, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's histograms."""

_TEXTS: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


def quantiles(seconds: list[float]) -> list[Sample]:
    """The quantiles in milliseconds; none without durations."""
    if not seconds:
        return []
    seconds.sort()
    last = len(seconds) - 1
    return [
        (f'quantile="{text}"', round(seconds[min(int(quantile * len(seconds)), last)] * 1000, 4))
        for quantile, text in zip(QUANTILES, _TEXTS, strict=True)
    ]
