"""Policies: an operator's own rules for new topics and changes of settings.

A policy is a subclass of `CreateTopicPolicy` or `AlterConfigPolicy` in a module that the broker can import.
The settings `create.topic.policy.class.name` and `alter.config.policy.class.name` name it as `module:Class`:

    from kafkapy.policies import CreateTopicPolicy, PolicyViolationError, TopicRequest

    class AtLeastThreeReplicas(CreateTopicPolicy):
        def validate(self, request: TopicRequest) -> None:
            if request.replication_factor is not None and request.replication_factor < 3:
                raise PolicyViolationError("a topic needs 3 replicas")

A broker makes one object of each class when it starts, and calls it in a thread of its own, one call at a
time. So a policy may block. A call that takes longer than 30 seconds fails, and its request with it.

Source: Kafka's CreateTopicPolicy, AlterConfigPolicy (KIP-108, KIP-133).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class PolicyViolationError(Exception):
    """A request violates a policy: its client gets POLICY_VIOLATION with the message."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A topic that is to be created (Kafka's CreateTopicPolicy.RequestMetadata)."""

    topic: str
    num_partitions: int | None
    """The number of partitions, also if the broker chose it; None if the replicas are assigned."""
    replication_factor: int | None
    """The replicas of each partition, also if the broker chose them; None if the replicas are assigned."""
    replicas_assignments: Mapping[int, Sequence[int]] | None
    """The brokers of each partition, if the client assigned them; otherwise None."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings that the request names, as text."""


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """What has settings: a topic, a broker, a group, or a subscription to metrics of clients."""

    type: str
    """TOPIC, BROKER, GROUP or CLIENT_METRICS."""
    name: str
    """Its name: for a broker its id as text, or an empty text for all brokers."""


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """A change of the settings of one resource (Kafka's AlterConfigPolicy.RequestMetadata)."""

    resource: ConfigResource
    configs: Mapping[str, str | None]
    """The settings that the request names, with their new values; None: the setting is deleted."""


class Policy:
    """What both policies have in common."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the settings of the broker, as they were given, before the first request.

        A policy may have settings of its own among them. If this raises, the broker does not start.
        """

    def close(self) -> None:
        """Release what the policy holds: the broker stops."""

    def validate(self, request: Any) -> None:
        """Return if the request is allowed.

        Raises:
            PolicyViolationError: it is not. Any other exception refuses the request too, with
                UNKNOWN_SERVER_ERROR, and is logged.
        """
        raise NotImplementedError


class CreateTopicPolicy(Policy, ABC):
    """Decides which topics may be created: those that clients create, and those made on demand."""

    @abstractmethod
    def validate(self, request: TopicRequest) -> None:
        """Return if the topic may be created; else raise PolicyViolationError."""


class AlterConfigPolicy(Policy, ABC):
    """Decides which settings may be changed: of topics, brokers, groups and metrics of clients."""

    @abstractmethod
    def validate(self, request: ConfigRequest) -> None:
        """Return if the settings may be changed; else raise PolicyViolationError."""
