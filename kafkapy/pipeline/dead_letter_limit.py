"""How many dead letters a run accepts: `max_dead_letters: 100` or `max_dead_letters: 1%`.

A number counts the dead letters of a run, over all its batches. A share is of the records of each batch. A
batch with too many is refused before anything of it is written, its dead letters included: each further run
would send them again. With `on_limit`, it is written, and a command is called (`run/limits.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from kafkapy.pipeline.fields import shown
from kafkapy.pipeline.pipeline_error import PipelineError

_LIMIT: Final = re.compile(r"(\d{1,18})|(\d{1,3}(?:\.\d{1,9})?) ?%", re.ASCII)


@dataclass(frozen=True)
class DeadLetterLimit:
    """The most dead letters of a run, or the greatest share, in percent, of a batch."""

    number: int | None
    percent: Decimal | None

    @classmethod
    def parse(cls, text: str) -> DeadLetterLimit:
        match = _LIMIT.fullmatch(text)
        if match is None:
            raise PipelineError(f"expected a number of records, or a share such as 1%, not {shown(text)}")
        if match[1] is not None:
            return cls(int(match[1]), None)
        percent = Decimal(match[2])
        if percent > 100:
            raise PipelineError(f"a share is at most 100%, not {shown(text)}")
        return cls(None, percent)

    def exceeded(self, letters: int, records: int, before: int) -> bool:
        """Whether a batch of so many records has too many dead letters.

        `before` is the number of those that the run has written.
        """
        if self.number is not None:
            return letters > 0 and before + letters > self.number
        assert self.percent is not None
        return letters * 100 > self.percent * records

    def told(self, before: int) -> str:
        """The limit, as it completes `max_dead_letters allows`."""
        if self.number is None:
            return f"{self.percent}% of a batch"
        earlier = f", which has had {before:,} already" if before else ""
        return f"{self.number:,} in a run{earlier}"
