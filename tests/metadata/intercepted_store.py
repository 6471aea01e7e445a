"""A store whose requests a test sees, delays, or lets fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from kafkapy.metadata.store import MetadataStore, Node, NodeStat, Operation, TreeWatcher, Watcher, WatchEvent

Hook = Callable[..., Awaitable[Any]]
"""Answers a request; called with what asks the store, and the arguments."""

Multi = Callable[[Sequence[Operation]], Awaitable[list[str | int | None]]]
"""Makes changes."""


class InterceptedStore(MetadataStore):
    """Another store, with hooks before it.

    `create`, `set` and `delete` are requests of `multi`.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.inner = store
        self.is_blind = False
        """Whether changes in the tree are told to no `TreeWatcher`."""
        self._watchers: list[TreeWatcher] = []
        self._hooks: dict[str, list[Hook]] = defaultdict(list)

    def intercept(self, request: str, hook: Hook) -> None:
        """Let a hook answer this request, `multi` for example, from now on."""
        self._hooks[request].append(hook)

    def let_through(self, request: str) -> None:
        """Take the last hook of this request away."""
        self._hooks[request].pop()

    async def _ask(self, request: str, *arguments: Any) -> Any:
        ask = getattr(self.inner, request)
        for hook in self._hooks[request]:
            ask = partial(hook, ask)
        return await ask(*arguments)

    @property
    def is_connected(self) -> bool:  # type: ignore[override]
        return self.inner.is_connected

    @property
    def session_id(self) -> int:
        return self.inner.session_id

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        found: list[str | int | None] = await self._ask("multi", operations)
        return found

    async def get(self, path: str, watcher: Watcher | None = None) -> Node:
        found: Node = await self._ask("get", path, watcher)
        return found

    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        found: NodeStat | None = await self._ask("exists", path, watcher)
        return found

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        found: list[str] = await self._ask("children", path, watcher)
        return found

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        found: dict[str, Node] = await self._ask("nodes", paths)
        return found

    async def subtree(self, *paths: str) -> dict[str, Node]:
        found: dict[str, Node] = await self._ask("subtree", *paths)
        return found

    async def sync(self) -> None:
        await self._ask("sync")

    async def watch(self, path: str, watcher: TreeWatcher) -> None:
        def tell(events: Sequence[WatchEvent]) -> None:
            if not self.is_blind:
                watcher(events)

        self._watchers.append(watcher)
        await self._ask("watch", path, tell)

    def tell(self, event: WatchEvent) -> None:
        """Tell the watchers of the tree of an event, as after a lost connection."""
        for watcher in self._watchers:
            watcher([event])

    async def close(self) -> None:
        await self.inner.close()
