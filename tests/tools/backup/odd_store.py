"""An object store, `odd://`, some of whose requests fail or are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

Hook = Callable[[str, str], object]
"""Is called before each request with its name, as fsspec has it, and the path; may raise."""


class OddStore(MemoryFileSystem):  # type: ignore[misc]
    """A store in memory with a hook before its requests."""

    protocol = ("odd",)
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    hooks: ClassVar[list[Hook]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("odd://")))

    def _meet(self, request: str, path: str) -> None:
        for hook in self.hooks:
            hook(request, path)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._meet("ls", path)
        return super().ls(path, detail, **options)

    def find(self, path: str, **options: Any) -> Any:
        self._meet("find", path)
        return super().find(path, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self._meet("put_file", rpath)
        super().put_file(lpath, rpath, **options)

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._meet("pipe_file", path)
        super().pipe_file(path, value, **options)

    def rm_file(self, path: str) -> None:
        self._meet("rm_file", path)
        super().rm_file(path)


fsspec.register_implementation("odd", OddStore)


@contextmanager
def before_requests(hook: Hook) -> Iterator[None]:
    """Have a hook called before the requests of the store."""
    OddStore.hooks.append(hook)
    try:
        yield
    finally:
        OddStore.hooks.remove(hook)
