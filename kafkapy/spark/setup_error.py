"""The one error of what Spark needs on this machine."""

from __future__ import annotations

from kafkapy.errors import UserError


class SparkSetupError(UserError):
    """Spark cannot run here as asked: what is wrong, and what to do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem, self.remedy = problem, remedy
