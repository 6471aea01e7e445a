"""Encoded answers about the metadata, which many clients share.

An answer about 20,000 partitions takes 100 ms of CPU time. After a restart, thousands of clients ask for the
same one. It is encoded once for the present metadata and for each key: what may differ between clients, such
as the version of the request and the addresses by which the brokers are reached.

The answers take MAX_BYTES at most. Those that were not asked for the longest are forgotten first, and all of
them when the metadata changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final

from kafkapy.metadata.image import MetadataImage

MAX_BYTES: Final = 32 << 20

_KEY_BYTES: Final = 256
"""The bytes of an entry without its body and its names."""

_NAME_BYTES: Final = 8
"""The bytes of a name in a key: the image has the text."""

OfflineReplicas = Mapping[tuple[str, int], tuple[int, ...]]


class EncodedAnswers:
    """The answers as of one image."""

    def __init__(self) -> None:
        self.nbytes = 0
        """The bytes that the answers take."""
        self._image = MetadataImage()
        self._offline: OfflineReplicas = {}
        self._answers: dict[Hashable, tuple[bytes, int]] = {}
        """Each answer and the bytes that it takes; the one asked for last is at the end."""
        self._being_made: dict[Hashable, asyncio.Task[bytes]] = {}

    def follow(self, image: MetadataImage, offline: OfflineReplicas) -> None:
        """Forget the answers if they were made from other metadata.

        `offline` has the offline replicas that the controller has reported.
        """
        old, self._image = self._image, image
        if (
            old.topics is not image.topics
            or old.brokers is not image.brokers
            or old.controller_id != image.controller_id
            or self._offline != offline
        ):
            self._offline = dict(offline)
            self._answers, self._being_made, self.nbytes = {}, {}, 0

    def get(self, key: Hashable) -> bytes | None:
        """The answer, if it is encoded already."""
        found = self._answers.pop(key, None)
        if found is None:
            return None
        self._answers[key] = found
        return found[0]

    async def make(self, key: Hashable, names: int, encode: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the answer that `encode` makes, or the one that another request already waits for.

        The key has so many `names`.
        """
        task = self._being_made.get(key)
        if task is None:
            task = self._being_made[key] = asyncio.create_task(
                self._make(self._answers, self._being_made, key, names, encode)
            )
        return await asyncio.shield(task)

    async def _make(
        self,
        answers: dict[Hashable, tuple[bytes, int]],
        being_made: dict[Hashable, asyncio.Task[bytes]],
        key: Hashable,
        names: int,
        encode: Callable[[], Awaitable[bytes]],
    ) -> bytes:
        """Make an answer, and keep it in `answers` unless the metadata has changed meanwhile."""
        try:
            body = await encode()
        finally:
            del being_made[key]
        nbytes = len(body) + names * _NAME_BYTES + _KEY_BYTES
        if answers is self._answers and nbytes <= MAX_BYTES:
            answers[key] = body, nbytes
            self.nbytes += nbytes
            while self.nbytes > MAX_BYTES:
                self.nbytes -= answers.pop(next(iter(answers)))[1]
        return body
