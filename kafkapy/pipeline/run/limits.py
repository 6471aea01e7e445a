"""Limits of a run, on its lag, on the time of a batch and on dead letters.

What exceeds a limit ends the run, or calls the definition's command (`on_limit`) once, until the value is
within the limit again. The lag counts once the run has been within the limit: a run that begins far behind
is not ended while it catches up. A batch with too many dead letters is refused before anything of it is
written, or, with a command, written as others are.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError


class Limits:
    """The limits of one run."""

    def __init__(self, definition: PipelineDefinition, note: Callable[[str], None]) -> None:
        self._definition, self._note = definition, note
        self._caught_up = False
        self._exceeded: set[str] = set()

    def check_lag(self, partitions: Mapping[int, int]) -> None:
        """Raises LimitError if there is too much left to read."""
        most, lag = self._definition.max_lag, sum(partitions.values())
        if most is None:
            return
        self._caught_up = self._caught_up or lag <= most
        told = f"the lag of {lag:,} offsets is over {most:,} (max_lag)"
        self._check("max_lag", lag > most and self._caught_up, told)

    def check_batch(self, batch: int, seconds: float) -> None:
        """Raises LimitError if a batch has taken `seconds`, and that is too long."""
        most = self._definition.max_batch_seconds
        if most is not None:
            told = f"batch {batch} has taken more than {self._definition.max_batch_time} (max_batch_time)"
            self._check("max_batch_time", seconds > most, told)

    def check_dead_letters(self, told: str | None) -> None:
        """Raises LimitError if a batch, of which nothing is written yet, has too many.

        `told` says how many; it is None if they are within the limit.
        """
        ending = (
            "neither they nor the batch were written; correct what writes them, or the schema (format:), or "
            "allow more of them"
        )
        self._check("max_dead_letters", told is not None, told or "", ending)

    def _check(
        self,
        limit: str,
        exceeded: bool,
        told: str,
        ending: str = "the run ends, and the next one continues from here",
    ) -> None:
        if not exceeded:
            self._exceeded.discard(limit)
        elif limit not in self._exceeded:
            self._exceeded.add(limit)
            message = f"{self._definition.name}: {told}"
            command = self._definition.limit_command
            if command is None:
                raise LimitError(f"{message}; {ending}")
            self._note(message)
            self._call(command, limit, message)

    def _call(self, command: list[str], limit: str, message: str) -> None:
        """Starts the command; a thread waits for it, since the run does not."""
        about = {"PIPELINE": self._definition.name, "LIMIT": limit, "MESSAGE": message}
        environment = {**os.environ, **{f"KAFKAPY_{name}": value for name, value in about.items()}}
        threading.Thread(
            target=self._carry_out, args=(command, environment), name="on-limit", daemon=True
        ).start()

    def _carry_out(self, command: list[str], environment: Mapping[str, str]) -> None:
        start = f"{self._definition.name}: on_limit: {command[0]}"
        try:
            # Its output goes where errors go: that of the run may be read by a program.
            done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=2, check=False)
        except OSError as error:
            self._note(f"{start} cannot be run: {error.strerror}")
        else:
            if done.returncode:
                self._note(f"{start} ended with status {done.returncode}")
