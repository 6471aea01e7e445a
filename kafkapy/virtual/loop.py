"""The event loop of an actor in virtual time, which the world runs callback by callback.

It has no selector and no threads. Work that is given to an executor is done in a callback (threads.py), and
connections are those of the simulated network (network.py). All else that an event loop does outside of its
process is refused.

Tasks and futures are hashed by the order in which they were made. By default their hash is their address, and
`asyncio.wait` returns sets of them: what a program does first would differ from run to run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar, TypeVarTuple

from kafkapy.virtual.threads import SimulatedPool

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kafkapy.virtual.world import World

Ts = TypeVarTuple("Ts")
P = ParamSpec("P")
T = TypeVar("T")

_A_SOCKET: Final = "a connection by a socket of one's own"


class _Task(asyncio.Task[T]):
    """A task with a hash that does not depend on the process."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[T]):
    """A future with a hash that does not depend on the process."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Generators(weakref.WeakSet[AsyncGenerator[Any, Any]]):
    """Asynchronous generators, in the order in which they began."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: weakref.WeakKeyDictionary[AsyncGenerator[Any, Any], int] = weakref.WeakKeyDictionary()
        self._begun = 0

    def add(self, item: AsyncGenerator[Any, Any]) -> None:
        self._begun += 1
        self._numbers[item] = self._begun
        super().add(item)

    def __iter__(self) -> Iterator[AsyncGenerator[Any, Any]]:
        return iter(sorted(super().__iter__(), key=self._numbers.__getitem__))


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one actor."""

    _ready: deque[asyncio.Handle]
    _asyncgens: weakref.WeakSet[AsyncGenerator[Any, Any]]
    _asyncgen_firstiter_hook: Callable[[AsyncGenerator[Any, Any]], None]
    _asyncgen_finalizer_hook: Callable[[AsyncGenerator[Any, Any]], None]

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self._asyncgens = _Generators()
        self.world = world
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.slept = 0.0
        """The seconds for which the present callback has waited: what it does later is done so much later."""
        self._busy_until = 0.0
        self.connector: Callable[[VirtualLoop, Any, str, int], Coroutine[Any, Any, Any]] | None = None
        """Opens connections from this actor (network.py)."""
        self._watched: dict[tuple[int, str], asyncio.Handle] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """The tasks, so that those of a dead actor are not finalized while the world runs."""
        self._made = 0
        """The number of tasks and futures that were made."""
        self._is_over = False

    def time(self) -> float:
        return self.world.now

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._is_over

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: _Task[Any] = _Task(coro, loop=self, **options)
        self._made += 1
        task.number = self._made
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        future: _Future[Any] = _Future(loop=self)
        self._made += 1
        future.number = self._made
        return future

    @property
    def tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """The tasks that have not ended."""
        return tuple(self._tasks)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon
    """There are no threads."""

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.world.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.world.add_timer(when, timer, self)
        return timer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._is_over:
            return
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, (Exception, asyncio.CancelledError)):
            self.world.interrupted = error  # a test runner ends the test
        elif self.world.is_strict:
            self.world.failed(f"{self.name}: {context.get('message')}", error)
        else:
            super().call_exception_handler(context)

    def _write_to_self(self) -> None:
        """Nothing: there are no threads that could wake the loop."""

    def _check_closed(self) -> None:
        """Nothing: the loop is never closed, since it holds nothing that would have to be."""

    def __del__(self) -> None:
        """Nothing, for the same reason."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        return asyncio.wrap_future(SimulatedPool(self).submit(func, *args), loop=self)

    # --- the outside ----------------------------------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Every name is known; nobody asks what it stands for."""
        return []

    async def create_connection(
        self, protocol_factory: Any, host: str | None = None, port: int | None = None, **options: Any
    ) -> Any:
        if host is None or port is None or options.get("sock") is not None:
            self._refuse(_A_SOCKET)
        if options.get("ssl"):
            self._refuse("TLS")
        assert self.connector is not None
        return await self.connector(self, protocol_factory, host, int(port))

    async def create_server(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a server")

    async def create_datagram_endpoint(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a datagram endpoint")

    async def create_unix_connection(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a Unix socket")

    async def create_unix_server(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a Unix socket")

    async def subprocess_exec(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a process")

    async def subprocess_shell(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a process")

    async def connect_read_pipe(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a pipe")

    async def connect_write_pipe(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("a pipe")

    async def connect_accepted_socket(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse(_A_SOCKET)

    async def start_tls(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("TLS")

    async def _no_socket(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse(_A_SOCKET)

    sock_accept = sock_connect = sock_recv = sock_recv_into = _no_socket
    sock_recvfrom = sock_recvfrom_into = sock_sendall = sock_sendto = sock_sendfile = _no_socket

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], Any], *args: *Ts) -> NoReturn:
        """Refuse, as loops on Windows do: programs that run there are ready for it."""
        raise NotImplementedError(
            "virtual time does not have signals: have the program take a NotImplementedError, as on Windows,"
            " or leave signals to what calls it"
        )

    def remove_signal_handler(self, sig: int) -> bool:
        """Nothing: there is none."""
        return False

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"virtual time does not have {what}: only connections of asyncio to its brokers, in plain text"
        )

    # --- readiness of simulated sockets ---------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        self._watched[fd, "read"] = asyncio.Handle(callback, args, self)
        self.world.ask_ready(self, fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._watched.pop((fd, "read"), None) is not None

    def add_writer(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        self._watched[fd, "write"] = asyncio.Handle(callback, args, self)
        self.call_soon(self.is_ready, fd, "write", lambda: True)

    def remove_writer(self, fd: Any) -> bool:
        return self._watched.pop((fd, "write"), None) is not None

    def is_ready(self, fd: int, way: str, still: Callable[[], bool]) -> None:
        """Call what waits for a socket, and again while it stays ready, as a selector does."""
        handle = self._watched.get((fd, way))
        if handle is not None and still():
            handle._run()
            if (fd, way) in self._watched and still():
                self.call_soon(self.is_ready, fd, way, still)

    # --- for the world --------------------------------------------------------------------------------------

    def forget_all(self) -> None:
        """Drop everything that was to happen, and end the coroutines.

        Nothing of what they do counts.
        """
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # without one, what ends might make one that nobody closes
        self._is_over = True
        for task in tuple(self._tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        asyncio._set_running_loop(running)
        self._ready.clear()
        self._tasks.clear()
        self._watched.clear()

    def run_one(self) -> None:
        """Run the callback that is next in line; this stays the running loop until another one is."""
        handle = self._ready.popleft()
        if not handle._cancelled:
            asyncio._set_running_loop(self)
            sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
            handle._run()
            if self.slept:
                self._busy_until = self.world.now + self.slept
                self.world.later(self.slept, _nothing)
                self.slept = 0.0

    @property
    def may_run(self) -> bool:
        """Whether the next callback in line may run now."""
        return bool(self._ready) and not self.is_paused and self._busy_until <= self.world.now

    def take_slept(self, before: float) -> float:
        """The seconds that a thread has waited since `before`, in which the loop continues."""
        slept, self.slept = self.slept - before, before
        return slept


def _nothing() -> None:
    """Let the time pass to here."""
