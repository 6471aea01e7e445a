"""The window of an audit: the offsets that it compares.

An append table has a row for each offset, so any window can be compared. An upsert table has only the last
record of each key: a record within the window may have been replaced by one after it, so a window ends where
the topic does. What lies before it is not judged, except that a key with a record in the window must not have
an older row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.named_offsets import named_offsets
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.topics import Topics

_OUTSIDE = "Rows and records outside of the window were not looked at."
_OLDER = (
    "Keys without a record in the window were not compared, except that none of them is there twice. Of a "
    "key in several partitions, only what the window has was looked at: if one is reported, audit everything."
)


@dataclass(frozen=True)
class Window:
    """The offsets from `starting` to `ending` (exclusive) of each partition.

    A partition that is not named has no limit.
    """

    starting: Mapping[int, int] = field(default_factory=dict)
    ending: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def named(
        cls, definition: PipelineDefinition, topics: Topics, starting: str | None, ending: str | None
    ) -> Window:
        """The window of the options --from and --to."""

        def offsets(text: str | None, option: str, word: str) -> dict[int, int]:
            return named_offsets(
                word if text is None else text,
                option=option,
                topics=topics,
                topic=definition.topic,
                words={word: {}},
                others={},
            )

        window = cls(offsets(starting, "--from", "earliest"), offsets(ending, "--to", "latest"))
        for partition, end in window.ending.items():
            if (first := window.starting.get(partition, 0)) > end:
                raise PipelineError(
                    f"--to: partition {partition} ends at {end}, before it begins at {first} (--from); "
                    "name a later end"
                )
        return window

    def check_mode(self, mode: str) -> None:
        if mode == "upsert" and self.ending:
            raise PipelineError(
                "--to: an upsert table has only the last record of each key, so what a window before the "
                "topic's end has cannot be compared; leave --to out"
            )

    @property
    def is_everything(self) -> bool:
        return not (self.starting or self.ending)

    def limits(self, mode: str) -> tuple[str, ...]:
        """What an audit of the window does not see."""
        if self.is_everything:
            return ()
        return (_OLDER if mode == "upsert" else _OUTSIDE,)

    @property
    def condition(self) -> str:
        """The SQL condition for a row's `partition` and `offset`, in a form that skips files."""
        named = sorted({*self.starting, *self.ending})
        if not named:
            return "true"
        parts = [f"partition NOT IN ({', '.join(map(str, named))})"]
        for partition in named:
            end = f" AND offset < {self.ending[partition]}" if partition in self.ending else ""
            first = self.starting.get(partition, 0)
            parts.append(f"(partition = {partition} AND offset >= {first}{end})")
        return " OR ".join(parts)
