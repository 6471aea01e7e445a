"""Calls an operator's policy: the operator's code must neither block nor break the broker.

A policy has a daemon thread of its own, which calls it for one request after another. The event loop waits
`PATIENCE_SECONDS` for an answer. A call that takes longer keeps the thread; requests that come meanwhile wait
as long, and are then withdrawn. Nothing that a policy raises leaves the thread, and one that hangs does not
keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from kafkapy.operator_class import UnusableClassError, find_class, one_line
from kafkapy.policies import AlterConfigPolicy, CreateTopicPolicy, Policy, PolicyViolationError
from kafkapy.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""How long a request waits for the policy."""

CLOSE_SECONDS: Final = 5.0
"""How long the stop of the broker waits for the policy."""


class PolicyError(Exception):
    """A policy cannot be used; the message is one line for the operator."""


class PolicyCalls:
    """A policy, and the thread that calls it."""

    def __init__(
        self,
        policy: Policy,
        setting: str,
        *,
        patience: float = PATIENCE_SECONDS,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        """`setting` is the name of the setting that names the policy."""
        self._policy = policy
        self._setting = setting
        self._patience = patience
        self._close_seconds = close_seconds
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="kafkapy-policy", daemon=True).start()

    async def refusals(self, requests: Sequence[Any]) -> list[KafkaError | None]:
        """For each request, the error of its client, or None if the policy allows it."""
        if not requests:
            return []
        answers: list[KafkaError | None] = []
        call = self._submit(lambda: answers.extend(map(self._refusal, requests)))
        try:
            await asyncio.wait_for(asyncio.wrap_future(call), self._patience)
        except TimeoutError:
            logger.error(
                "The policy of %s has not answered in %g seconds; what it was asked for is refused",
                self._setting,
                self._patience,
            )
            late = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The policy of the broker ({self._setting}) has not answered in time.",
            )
            return [late] * len(requests)
        return answers

    async def close(self) -> None:
        """Close the policy after its present call, and end the thread; do not wait for ever."""
        closing = self._submit(self._policy.close)
        self._calls.put(None)
        try:
            await asyncio.wait_for(asyncio.wrap_future(closing), self._close_seconds)
        except TimeoutError:
            logger.warning("The policy of %s has not closed; it is left", self._setting)
        except Exception:
            logger.exception("The policy of %s cannot be closed", self._setting)

    # --- in the thread ------------------------------------------------------------------------------------

    def _submit(self, call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return future

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits any more
            try:
                result = call()
            except BaseException as error:
                outcome: BaseException | None = error if isinstance(error, Exception) else _as_error(error)
            else:
                outcome = None
            with contextlib.suppress(Exception):  # the event loop may be closed
                if outcome is None:
                    future.set_result(result)
                else:
                    future.set_exception(outcome)

    def _refusal(self, request: Any) -> KafkaError | None:
        try:
            self._policy.validate(request)
        except PolicyViolationError as violation:
            return KafkaError(ErrorCode.POLICY_VIOLATION, str(violation))
        except BaseException as error:  # SystemExit too: it is the operator's code that ends, not the broker
            logger.error("The policy of %s failed; %s is refused", self._setting, request, exc_info=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None


def _as_error(error: BaseException) -> Exception:
    return RuntimeError(f"{type(error).__name__}: {error}")


class Policies(NamedTuple):
    """The policies of a broker."""

    create_topic: PolicyCalls | None = None
    alter_config: PolicyCalls | None = None

    @classmethod
    def load(cls, configs: Mapping[str, str]) -> Policies:
        """The policies that the settings of a broker name.

        Raises:
            PolicyError: one cannot be used.
        """
        kinds: dict[str, type[Any]] = {
            "create.topic.policy.class.name": CreateTopicPolicy,
            "alter.config.policy.class.name": AlterConfigPolicy,
        }
        loaded = [
            load_policy(setting, name, kind, configs) if (name := configs.get(setting, "").strip()) else None
            for setting, kind in kinds.items()
        ]
        return cls(
            *(
                None if policy is None else PolicyCalls(policy, setting)
                for setting, policy in zip(kinds, loaded, strict=True)
            )
        )

    async def close(self) -> None:
        """Close the policies."""
        for calls in self:
            if calls is not None:
                await calls.close()


NO_POLICIES: Final = Policies()


def load_policy(setting: str, name: str, kind: type[Any], configs: Mapping[str, str]) -> Policy:
    """The configured policy of the class that `setting` names as `module:Class`.

    Raises:
        PolicyError: it cannot be loaded, is not a policy of this kind, or refuses its settings.
    """
    try:
        policy_class = find_class(setting, name, kind)
    except UnusableClassError as error:
        raise PolicyError(str(error)) from None
    validate = getattr(policy_class, "validate", None)
    if inspect.isabstract(policy_class) or inspect.iscoroutinefunction(validate):
        raise PolicyError(
            f"{setting}={name}: {policy_class.__qualname__} needs a method validate(self, request), which is"
            " not a coroutine; define it"
        )
    try:
        policy: Policy = policy_class()
        policy.configure(dict(configs))
    except BaseException as error:
        raise PolicyError(
            f"{setting}={name}: the policy cannot be configured: {one_line(error)}; correct its settings, or"
            " remove this one"
        ) from None
    return policy
