"""The identity of a batch, which the commit of its rows carries.

Spark takes batch numbers from its checkpoint. If an older copy of the checkpoint is restored, or two drivers
use one checkpoint on a store without locks, a number is planned again for other records. So a commit carries
the offsets too, and the table identifies a batch by both.

    {"app_id": "kafkapy-orders-5f0c", "batch_id": 12, "offsets": {"0": [4000, 5000]}}

Offsets are [first, end) by partition; partitions without new records are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Offsets = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Batch:
    """The batch of a commit.

    `app_id` identifies one incarnation of the pipeline. Within it, `id` rises from batch to batch. `offsets`
    is None in a commit of an older version, which did not store them. `version` is the version of the table
    that the commit made, as its format names it.
    """

    app_id: str
    id: int
    offsets: Offsets | None
    version: str = field(default="", compare=False)

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any], version: str = "") -> Batch:
        """Parses a batch.

        Raises KeyError, TypeError or ValueError if no pipeline has written it.
        """
        return cls(value["app_id"], int(value["batch_id"]), _offsets(value.get("offsets")), version)

    @property
    def records(self) -> int | None:
        """How many offsets it has; some may have no record."""
        return None if self.offsets is None else sum(end - first for first, end in self.offsets.values())

    def has(self, partition: int, offset: int) -> bool:
        first, end = (self.offsets or {}).get(partition, (0, 0))
        return first <= offset < end

    def to_mapping(self) -> dict[str, Any]:
        return {"app_id": self.app_id, "batch_id": self.id, "offsets": self.offsets}

    def to_json(self) -> str:
        return json.dumps(self.to_mapping(), separators=(",", ":"))


def differences(planned: Offsets, written: Offsets) -> str:
    """Describes the differences of the first few partitions whose offsets differ.

    For example `partition 0 is 100 to 129 here and 100 to 119 in the table`.
    """
    differing = [one for one in sorted({*planned, *written}) if planned.get(one) != written.get(one)]
    told = [
        f"partition {one} is {_shown(planned.get(one))} here and {_shown(written.get(one))} in the table"
        for one in differing[:3]
    ]
    return ", ".join(told) + (", ..." if len(differing) > 3 else "")


def _shown(offsets: tuple[int, int] | None) -> str:
    return "nothing" if offsets is None else f"{offsets[0]} to {offsets[1] - 1}"


def _offsets(value: Mapping[str, Any] | None) -> Offsets | None:
    if value is None:
        return None
    return {int(partition): (int(first), int(end)) for partition, (first, end) in value.items()}
