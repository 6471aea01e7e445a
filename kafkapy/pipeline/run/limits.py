"""Limits of a run, on its lag and on the time of a batch.

What exceeds a limit ends the run, or calls the definition's command (`on_limit`) once, until the value is
within the limit again. The lag counts once the run has been within the limit: a run that begins far behind
is not ended while it catches up.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError

_PATIENCE: Final = 5.0  # seconds, for each


class Limits:
    """The limits of one run."""

    def __init__(self, definition: PipelineDefinition, note: Callable[[str], None]) -> None:
        self._definition, self._note = definition, note
        self._caught_up = False
        self._exceeded: set[str] = set()
        self._calls: list[subprocess.Popen[bytes]] = []

    def check_lag(self, partitions: Mapping[int, int]) -> None:
        """Raises LimitError if there is too much left to read."""
        most, lag = self._definition.max_lag, sum(partitions.values())
        if most is None:
            return
        self._caught_up = self._caught_up or lag <= most
        self._check("max_lag", lag > most and self._caught_up, f"the lag of {lag:,} offsets is over {most:,}")

    def check_batch(self, batch: int, seconds: float) -> None:
        """Raises LimitError if a batch has taken `seconds`, and that is too long."""
        most = self._definition.max_batch_seconds
        if most is not None:
            told = f"batch {batch} has taken more than {self._definition.max_batch_time}"
            self._check("max_batch_time", seconds > most, told)

    def _check(self, limit: str, exceeded: bool, told: str) -> None:
        self._look_at_calls()
        if not exceeded:
            self._exceeded.discard(limit)
        elif limit not in self._exceeded:
            self._exceeded.add(limit)
            message = f"{self._definition.name}: {told} ({limit})"
            command = self._definition.limit_command
            if command is None:
                raise LimitError(f"{message}; the run ends, and the next one goes on from here")
            self._note(message)
            self._call(command, limit, message)

    def _call(self, command: list[str], limit: str, message: str) -> None:
        about = {"PIPELINE": self._definition.name, "LIMIT": limit, "MESSAGE": message}
        environment = {**os.environ, **{f"KAFKAPY_{name}": value for name, value in about.items()}}
        try:
            # Its output goes where errors go: that of the run may be read by a program.
            called = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=2)
        except OSError as error:
            self._note(f"{self._definition.name}: on_limit: {command[0]} cannot be run: {error.strerror}")
        else:
            self._calls.append(called)

    def close(self) -> None:
        """Waits a little for the commands that still run; they are not ended."""
        for call in self._calls:
            with contextlib.suppress(subprocess.TimeoutExpired):
                call.wait(_PATIENCE)
        self._look_at_calls()

    def _look_at_calls(self) -> None:
        """Collects the commands that have ended."""
        for call in [call for call in self._calls if call.poll() is not None]:
            self._calls.remove(call)
            if call.returncode:
                self._note(
                    f"{self._definition.name}: on_limit: {self._definition.on_limit} ended with status "
                    f"{call.returncode}"
                )
