"""What serves HTTP in threads of this process: its start, its end and its address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import ClassVar, Self

from kafkapy.errors import UserError


class Served(ABC):
    """A context manager; `start` and `stop` may come again and again."""

    noun: ClassVar[str]
    """What it is called in messages."""
    extra: ClassVar[str]
    """The extra of the package that it needs."""

    _running: tuple[str, ExitStack] | None = None
    """Its address, and what is to be ended."""

    @property
    def url(self) -> str:
        """The address for clients.

        Raises:
            RuntimeError: it is not running.
        """
        if self._running is None:
            raise RuntimeError(f"the {self.noun} is not running; use it in a with statement or call start()")
        return self._running[0]

    def start(self) -> None:
        """Connect to the cluster, and serve.

        Raises:
            UserError: the cluster or the port cannot be used, or a library is missing.
        """
        if self._running is not None:
            raise RuntimeError(f"the {self.noun} is running already")
        try:
            with ExitStack() as stack:
                url = self._start(stack)
                self._running = (url, stack.pop_all())
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("kafkapy"):
                raise
            raise UserError(
                f"{error.name} is not installed: pip install '.[{self.extra}]' in a checkout"
            ) from None

    def stop(self) -> None:
        """End what is under way, and the connections; do nothing if it is not running."""
        if self._running is not None:
            _, stack = self._running
            self._running = None
            stack.close()

    @abstractmethod
    def _start(self, stack: ExitStack) -> str:
        """Serve; return the address, and leave to `stack` what is to be ended."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
