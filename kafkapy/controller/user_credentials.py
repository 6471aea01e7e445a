"""Changes the credentials with which users log in by SCRAM (KIP-554).

Source: Kafka's ScramControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafkapy.controller.entity_nodes import EntityNodes
from kafkapy.metadata.quotas import USER, QuotaEntity, quota_entity
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.security.sasl.scram_credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    encode_credential,
)

MOST_BYTES: Final = 1024
"""The longest salt and salted password: many times what a hash has."""


class CredentialChange(NamedTuple):
    """A change of one credential of a user."""

    mechanism: int
    """A `ScramMechanism`, unless the client sent something else."""
    iterations: int | None
    """None: the credential is deleted."""
    salt: bytes = b""
    salted_password: bytes = b""
    is_first_of_several: bool = False
    """The same request has other changes of the user, of which nothing else counts."""


class UserCredentialAdmin:
    """Changes credentials."""

    def __init__(self, nodes: EntityNodes) -> None:
        self._nodes = nodes

    async def alter(self, by_user: Mapping[str, CredentialChange]) -> dict[str, KafkaError | None]:
        """Change one credential of each user; several changes of one are refused.

        Returns the error of each user, or None, in the same order.

        Raises:
            KafkaError: the metadata cannot be changed. Credentials of the first users may have been changed.
        """
        errors: dict[str, KafkaError | None] = {}
        await self._nodes.change(tuple(by_user.items()), partial(self._commit, errors))
        return errors

    async def _commit(
        self,
        errors: dict[str, KafkaError | None],
        changes: Sequence[tuple[str, CredentialChange]],
    ) -> None:
        wanted = {}
        for user, change in changes:
            errors[user] = self._error(user, change)
            if errors[user] is None:
                name, text = _entry(change)
                texts = dict(self._nodes.content(_node(user)))
                texts.pop(name, None)
                wanted[_node(user)] = texts if text is None else {**texts, name: text}
        await self._nodes.commit(wanted)

    def _error(self, user: str, change: CredentialChange) -> KafkaError | None:
        """The error of a user, or None: that of the first change comes before that of several."""
        if (error := self._error_of_one(user, change)) is None and change.is_first_of_several:
            return KafkaError(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        return error

    def _error_of_one(self, user: str, change: CredentialChange) -> KafkaError | None:
        """The error of one change, or None."""
        if not user:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if change.mechanism not in list(ScramMechanism):
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if change.iterations is None:
            if ScramMechanism(change.mechanism).text in self._nodes.content(_node(user)):
                return None
            return KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            )
        if change.iterations < MIN_ITERATIONS:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MAX_ITERATIONS:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if max(len(change.salt), len(change.salted_password)) > MOST_BYTES:
            return KafkaError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt or the salted password is too long"
            )
        return None


def _node(user: str) -> QuotaEntity:
    """The entity whose node has the credentials of a user."""
    return quota_entity({USER: user})


def _entry(change: CredentialChange) -> tuple[str, str | None]:
    """The name and the text of a credential in the node of its user; None deletes it."""
    mechanism = ScramMechanism(change.mechanism)
    if change.iterations is None:
        return mechanism.text, None
    credential = credential_of(mechanism, change.salt, change.salted_password, change.iterations)
    return mechanism.text, encode_credential(credential)
