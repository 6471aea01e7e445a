"""Creates, renews and expires delegation tokens in the metadata tree (KIP-48, KIP-373).

Every broker with `delegation.token.secret.key` may change them, each node at the version that its image
shows. The controller removes those that have expired. The rules of time and the order of the checks are
those of Apache Kafka 4; brokers of 3.9 with ZooKeeper check the owner before the time, and renew for as long
as they are asked. Source: Kafka's DelegationTokenControlManager, DelegationTokenManagerZk.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Sequence
from typing import Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.logs.text import quoted
from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.change_notices import ChangeNotices
from kafkapy.metadata.delegation_tokens import DelegationToken, encode_token, token_notice, token_path
from kafkapy.metadata.parent_nodes import ParentNodes
from kafkapy.metadata.store import Create, Delete, MetadataStore, SetData
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import random_uuid, uuid_to_text
from kafkapy.security.token_cache import TokenCache

MAX_TOKENS: Final = 10_000
"""The most tokens of a cluster. Apache Kafka has no such limit."""

MAX_TEXT: Final = 4_000
"""The most characters of a token's owner, requester and renewers together. Apache Kafka has no such limit."""

REMOVED_AT_ONCE: Final = 200
"""How many expired tokens one transaction removes."""

_LAST_MS: Final = 2**63 - 1

logger = logging.getLogger(__name__)


class DelegationTokenAdmin:
    """Changes the tokens of a cluster."""

    def __init__(
        self,
        writer: MetadataWriter,
        store: MetadataStore,
        notices: ChangeNotices,
        cache: TokenCache,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        self.cache = cache
        self._writer = writer
        self._parents = ParentNodes(store, znodes.DELEGATION_TOKEN_PARENTS)
        self._notices = notices
        self._config = config
        self._clock = clock
        self._sweeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to remove expired tokens."""
        self._sweeping = asyncio.create_task(self._sweep_often(), name="kafkapy-expired-tokens")

    async def stop(self) -> None:
        """End the removal of expired tokens."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping

    async def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> DelegationToken:
        """Create a token; a lifetime of 0 or less stands for the longest.

        Raises:
            KafkaError: POLICY_VIOLATION, there are too many, or their texts are too long; or the metadata
                cannot be changed.
        """
        if len(owner) + len(requester) + sum(map(len, renewers)) > MAX_TEXT:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "The principals of a token are too long together.")
        longest = self._config["delegation.token.max.lifetime.ms"]
        lifetime = min(longest, max_lifetime_ms) if max_lifetime_ms > 0 else longest
        now = self._clock.now_ms()
        most = min(now + lifetime, _LAST_MS)
        token = DelegationToken(
            uuid_to_text(random_uuid()),
            owner,
            requester,
            tuple(dict.fromkeys(renewers)),
            now,
            most,
            min(most, now + self._config["delegation.token.expiry.time.ms"]),
        )
        async with self._writer.turn:
            if len(self._writer.image.delegation_tokens) >= MAX_TOKENS:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, f"There are {MAX_TOKENS:,} tokens already.")
            await self._writer.until_current(functools.partial(self._create, token))
        logger.info(
            "%s has created the delegation token %s of %s", quoted(requester), token.id, quoted(owner)
        )
        return token

    async def renew(self, principal: str, token_hmac: bytes, period_ms: int) -> int:
        """Let a token expire later; a period of 0 or less stands for the longest.

        Returns when it expires.

        Raises:
            KafkaError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED or
                DELEGATION_TOKEN_OWNER_MISMATCH; or the metadata cannot be changed.
        """
        async with self._writer.turn:
            return await self._writer.until_current(
                functools.partial(self._renew, principal, token_hmac, period_ms)
            )

    async def expire(self, principal: str, token_hmac: bytes, period_ms: int) -> int:
        """Let a token expire after a period; one below 0 removes it at once.

        Returns when it expires.

        Raises:
            KafkaError: as `renew`.
        """
        async with self._writer.turn:
            return await self._writer.until_current(
                functools.partial(self._expire, principal, token_hmac, period_ms)
            )

    async def sweep(self) -> None:
        """Remove the tokens that have expired, if this broker is the controller.

        Raises:
            KafkaError: the metadata cannot be changed. The first ones may have been removed.
        """
        while self._writer.is_controller and self._expired():
            async with self._writer.turn:
                await self._writer.until_current(self._remove_expired)
            await asyncio.sleep(0)

    async def _sweep_often(self) -> None:
        while True:
            await self._clock.sleep(self._config["delegation.token.expiry.check.interval.ms"] / 1000)
            try:
                await self.sweep()
            except KafkaError as error:
                logger.error("expired delegation tokens cannot be removed: %s; the broker tries again", error)

    async def _create(self, token: DelegationToken) -> None:
        await self._parents.require()
        path = token_path(token.id)
        await self._notices.commit_with([Create(path, encode_token(token))], [token_notice(token.id)])
        self._writer.publish(self._writer.image.with_delegation_tokens({token.id: token}))

    async def _renew(self, principal: str, token_hmac: bytes, period_ms: int) -> int:
        token, now = self._find(token_hmac), self._clock.now_ms()
        if token.is_expired(now):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if not token.may_renew(principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        longest = self._config["delegation.token.expiry.time.ms"]
        period = min(longest, period_ms) if period_ms > 0 else longest
        return await self._set_expiry(token, now + period)

    async def _expire(self, principal: str, token_hmac: bytes, period_ms: int) -> int:
        token, now = self._find(token_hmac), self._clock.now_ms()
        if not token.may_renew(principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if period_ms < 0:
            await self._remove([token])
            return now
        if token.is_expired(now):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return await self._set_expiry(token, now + period_ms)

    def _find(self, token_hmac: bytes) -> DelegationToken:
        token = self.cache.find(token_hmac)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    async def _set_expiry(self, token: DelegationToken, expiry: int) -> int:
        changed = token._replace(expiry_timestamp=min(token.max_timestamp, expiry), version=token.version + 1)
        operation = SetData(token_path(token.id), encode_token(changed), token.version)
        await self._notices.commit_with([operation], [token_notice(token.id)])
        self._writer.publish(self._writer.image.with_delegation_tokens({token.id: changed}))
        logger.info("the delegation token %s of %s has another time of expiry", token.id, quoted(token.owner))
        return changed.expiry_timestamp

    def _expired(self) -> list[DelegationToken]:
        now = self._clock.now_ms()
        return [token for token in self._writer.image.delegation_tokens.values() if token.is_expired(now)]

    async def _remove_expired(self) -> None:
        await self._remove(self._expired()[:REMOVED_AT_ONCE])

    async def _remove(self, tokens: Sequence[DelegationToken]) -> None:
        if not tokens:  # others have removed them
            return
        operations = [Delete(token_path(token.id), token.version) for token in tokens]
        await self._notices.commit_with(operations, [token_notice(token.id) for token in tokens])
        gone = dict.fromkeys(token.id for token in tokens)
        self._writer.publish(self._writer.image.with_delegation_tokens(gone))
        for token in tokens:
            logger.info("the delegation token %s of %s is removed", token.id, quoted(token.owner))
