"""The error for what Spark lacks on this machine."""

from __future__ import annotations

from kafkapy.errors import UserError


class SparkSetupError(UserError):
    """Spark cannot run here as asked; the message has the problem and its remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem, self.remedy = problem, remedy
