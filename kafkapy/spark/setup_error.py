"""The error for a machine on which Spark cannot run."""

from __future__ import annotations

from kafkapy.errors import UserError


class SparkSetupError(UserError):
    """Spark cannot run here as asked; the message has the problem and the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem, self.remedy = problem, remedy
