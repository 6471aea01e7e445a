"""Policies as an operator writes them; the tests name them in settings of brokers."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kafkapy.policies import (
    AlterConfigPolicy,
    ConfigRequest,
    CreateTopicPolicy,
    PolicyViolationError,
    TopicRequest,
)

asked: list[TopicRequest | ConfigRequest] = []
"""What the policies were asked, in this process."""
closed: list[str] = []
hold = threading.Event()
"""Until it is set, `Waits` does not answer."""
held = threading.Event()
"""Set while `Waits` does not answer."""


class Prefix(CreateTopicPolicy):
    """Topics have a prefix, which is a setting of the broker's."""

    _prefix = ""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._prefix = configs.get("topic.prefix", "")

    def validate(self, request: TopicRequest) -> None:
        asked.append(request)
        if not request.topic.startswith(self._prefix):
            raise PolicyViolationError(f"{request.topic} does not begin with {self._prefix}")

    def close(self) -> None:
        closed.append(type(self).__name__)


class ShortRetention(AlterConfigPolicy):
    """Nothing is kept for longer than a second."""

    def validate(self, request: ConfigRequest) -> None:
        asked.append(request)
        if int(request.configs.get("retention.ms") or 0) > 1000:
            raise PolicyViolationError("retention.ms is too long")

    def close(self) -> None:
        raise ValueError("close fails")


class Breaks(CreateTopicPolicy):
    """Ends its thread, if it could."""

    def validate(self, request: TopicRequest) -> None:
        raise SystemExit(3)


class Waits(CreateTopicPolicy):
    """Answers when it may."""

    def validate(self, request: TopicRequest) -> None:
        held.set()
        hold.wait()


class Coroutine(CreateTopicPolicy):
    """Nobody would await it, and everything would be allowed."""

    async def validate(self, request: TopicRequest) -> None:  # type: ignore[override]
        raise PolicyViolationError("never raised")


class Abstract(CreateTopicPolicy):
    """Has no rule."""


class RefusesSettings(CreateTopicPolicy):
    """Cannot be configured."""

    def configure(self, configs: Mapping[str, str]) -> None:
        raise ValueError("topic.prefix\nis missing")

    def validate(self, request: TopicRequest) -> None:
        raise AssertionError


NOT_A_CLASS = 1
