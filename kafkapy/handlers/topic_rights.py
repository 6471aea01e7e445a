"""The rights of members to the topics that they subscribe to.

Clients are not allowed to see topics that are not authorized for DESCRIBE: a member that names one is
refused, whether the topic exists or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from kafkapy.groups.modern.heartbeats import Client
from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.security.acls.model import Operation, ResourceType


def client_of(context: RequestContext) -> Client:
    """The member's client, with its rights to topics."""
    may_describe = None if context.unrestricted else may_describe_of(context, log_if_denied=False)
    return Client(context.client_id or "", f"/{context.client_host}", may_describe)


def may_describe_of(context: RequestContext, *, log_if_denied: bool = True) -> Callable[[str], bool]:
    """Whether the client may describe a topic."""
    return lambda name: context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=log_if_denied)


def require_shown(
    context: RequestContext,
    names: Iterable[str],
    message: str = "The group has described topic(s) that the client is not authorized to describe.",
) -> None:
    """Let a group not be described if the client may not know one of its topics.

    Raises:
        KafkaError: TOPIC_AUTHORIZATION_FAILED, which names no topic.
    """
    if context.unrestricted:
        return
    for name in names:
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)


class HeartbeatResponse(Protocol):
    """The response to a heartbeat, of any kind of group."""

    error_code: int


Q = TypeVar("Q")
R = TypeVar("R", bound=HeartbeatResponse)


def with_rights(
    context: RequestContext,
    request: Q,
    names: Iterable[str] | None,
    answer: Callable[[RequestContext, Q], R | Awaitable[R]],
    response_class: Callable[[], R],
    before: Steps[None] | None = None,
) -> R | Awaitable[R] | Steps[R | Awaitable[R]]:
    """The answer to a heartbeat; a refusal if it names topics that the client may not see.

    The steps `before` are taken first.
    """
    asked = () if names is None or context.unrestricted else names
    if not asked and before is None:
        return answer(context, request)
    return _with_rights(context, request, asked, answer, response_class, before)


def _with_rights(
    context: RequestContext,
    request: Q,
    names: Iterable[str],
    answer: Callable[[RequestContext, Q], R | Awaitable[R]],
    response_class: Callable[[], R],
    before: Steps[None] | None,
) -> Steps[R | Awaitable[R]]:
    for name in names:
        yield
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            refused = response_class()
            refused.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return refused
    if before is not None:
        yield from before
    return answer(context, request)
