"""The nodes above others that a new tree does not have, made when they are first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kafkapy.metadata.store import Create, MetadataStore, NodeExistsError, OutcomeUnknownError


class ParentNodes:
    """Some nodes without content, parents first."""

    def __init__(self, store: MetadataStore, paths: Sequence[str]) -> None:
        self._store = store
        self._paths = paths
        self._exist = False
        """Whether they are known to exist."""

    async def require(self) -> None:
        """Create those that are missing; raises MetadataStoreError."""
        while not self._exist:
            missing = [Create(path) for path in self._paths if await self._store.exists(path) is None]
            # Another broker has created one of them; or the connection was lost: the tree says what is there.
            with contextlib.suppress(NodeExistsError, OutcomeUnknownError):
                if missing:
                    await self._store.multi(missing)
                self._exist = True
