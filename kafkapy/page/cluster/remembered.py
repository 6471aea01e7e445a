"""A value that takes long: it is kept for a while, and found out once for all that ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kafkapy.errors import UserError

T = TypeVar("T")

_PATIENCE: Final = 0.05
"""A request waits so long for a new value if there is an old one."""
_REST: Final = 4
"""A value that took a second is kept for at least so many, so that a fifth of the time is spent on it."""


class Remembered(Generic[T]):
    """The value of a function, found out anew when somebody asks and it is too old.

    Args:
        find: finds it out; raises UserError.
        seconds: how old a value may be at least.
    """

    def __init__(self, find: Callable[[], T], seconds: float = 0.0) -> None:
        self._find, self._seconds = find, seconds
        self._changed: Final = threading.Condition()
        self._found: tuple[T, float] | None = None
        """The last value, and until when it is new."""
        self._error: UserError | None = None
        self._forgotten = 0
        self._rounds = 0
        self._is_busy = False

    def get(self, wait: float) -> T | None:
        """The value; an old one, or None, if a new one is not there after so many seconds.

        Raises:
            UserError: it cannot be found out, and there is no old one.
        """
        with self._changed:
            if self._found is not None:
                if time.monotonic() <= self._found[1]:
                    return self._found[0]
                wait = min(wait, _PATIENCE)
            if not self._is_busy:
                self._is_busy, self._error = True, None
                threading.Thread(target=self._work, name="kafkapy-page-reader", daemon=True).start()
            asked = self._rounds
            self._changed.wait_for(lambda: self._rounds > asked, timeout=wait)
            if self._found is not None:
                return self._found[0]
            if self._error is not None:
                raise self._error
            return None

    def forget(self) -> None:
        """Find it out anew for those who ask from now on: something was changed."""
        with self._changed:
            self._found = None
            self._forgotten += 1

    def _work(self) -> None:
        while True:
            began, forgotten = time.monotonic(), self._forgotten
            found: tuple[T] | None = None
            error: UserError | None = UserError("what the cluster answered cannot be used")
            try:
                found, error = (self._find(),), None
            except UserError as raised:
                error = raised
            finally:
                now = time.monotonic()
                with self._changed:
                    # What was asked before the change may not have it.
                    is_new = forgotten == self._forgotten
                    if is_new or error is not None:
                        if found is not None:
                            self._found = (found[0], now + max(self._seconds, (now - began) * _REST))
                        self._error, self._is_busy = error, False
                        self._rounds += 1
                        self._changed.notify_all()
            if is_new or error is not None:
                return
