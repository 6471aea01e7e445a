"""One run of a cluster and of a test's code in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from kafkapy.inprocess import TEST_DEFAULTS
from kafkapy.virtual.clients import clients_in_time
from kafkapy.virtual.cluster import VirtualCluster
from kafkapy.virtual.determinism import deterministic
from kafkapy.virtual.world import SimulationError, World

LAST_NOTES: Final = 20
"""How many of the last events a failure shows."""

_DEFAULTS: Final[Mapping[str, str]] = {**TEST_DEFAULTS, "durability": "fsync"}
"""The power may be cut, and a simulated sync costs nothing."""

ENDING_SECONDS: Final = 60.0
"""How long the tasks that a test leaves may take to end when they are cancelled, in virtual time."""

_ASYNCIO: Final = Path(asyncio.__file__).parent

T = TypeVar("T")


class TimeIsOverError(AssertionError):
    """A run has not ended in the virtual time that it may take."""


def run(
    main: Callable[[VirtualCluster], Coroutine[Any, Any, T]],
    *,
    seed: int,
    numbers: Iterable[int],
    config: Mapping[str, str],
    within: float,
    trace: str | Path | None,
) -> T:
    """Start a cluster, run `main(cluster)`, and return its result.

    Args:
        numbers: the ids of the brokers.
        config: settings, which override those of all brokers for tests.
        within: the virtual seconds that it may take.
        trace: a file to write each event to, one a line.

    Raises:
        TypeError: `main` is no function.
        ValueError: `within` is no time.
        RuntimeError: an event loop is running, or another world in this process.
        TimeIsOverError: it takes longer than `within`.
        ConfigError, StartError: as `VirtualCluster.start`.
    """
    if not callable(main):
        if asyncio.iscoroutine(main):
            main.close()
        raise TypeError(f"run(main) takes a coroutine function, not {main!r}")
    if not within > 0:
        raise ValueError(f"within={within:g}: expected more than 0 seconds")
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("run() has event loops of its own: call it from a function that is not async")
    world = World(seed)
    with (
        tempfile.TemporaryDirectory(prefix="kafkapy-virtual-", dir=memory()) as folder,
        _traced(world, trace),
        deterministic(world),
        clients_in_time(),
    ):
        world.folder = folder
        cluster = VirtualCluster(world, Path(folder), numbers, config, _DEFAULTS)
        try:
            return _play(world, cluster, main, within)
        finally:
            cluster.end()


def memory() -> str | None:
    """A folder in memory, where there is one: the simulated disks are small."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextlib.contextmanager
def _traced(world: World, trace: str | Path | None) -> Iterator[None]:
    if trace is None:
        yield
        return
    with Path(trace).open("w") as file:
        world.watch = lambda line: print(line, file=file)
        yield


def _play(
    world: World,
    cluster: VirtualCluster,
    main: Callable[[VirtualCluster], Coroutine[Any, Any, T]],
    within: float,
) -> T:
    """Run the test's code to its end, and what it leaves."""

    async def whole() -> T:
        await cluster.start()
        return await main(cluster)

    task = cluster.loop.create_task(whole())
    try:
        if not world.run_until(task.done, within):
            raise TimeIsOverError(
                f"main has not ended after {within:g} s of virtual time; it waits in {_place(task)}"
            )
        result: T = task.result()
    except BaseException as error:  # those of test runners are none of Exception
        error.add_note(_shown(world))
        if world.interrupted is None:
            _end_tasks(world, cluster)
        raise
    _end_tasks(world, cluster)
    return result


def _end_tasks(world: World, cluster: VirtualCluster) -> None:
    """Cancel what a test leaves behind, and let it end, as `asyncio.run` does."""
    left = cluster.loop.tasks
    for task in left:
        task.cancel()
    with contextlib.suppress(SimulationError):
        world.run_until(lambda: all(task.done() for task in left), world.now + ENDING_SECONDS)
        closing = cluster.loop.create_task(cluster.loop.shutdown_asyncgens())
        world.run_until(closing.done, world.now + ENDING_SECONDS)


def _place(task: asyncio.Task[Any]) -> str:
    """Where a task waits, from the outermost to the innermost, without places in asyncio."""
    places = []
    at: Any = task.get_coro()
    while (frame := getattr(at, "cr_frame", None)) is not None:
        file = frame.f_code.co_filename
        if Path(file).parent != _ASYNCIO and file != __file__:
            places.append(f"{file}:{frame.f_lineno}")
        at = at.cr_await
    return ", in ".join(places) or "its start"


def _shown(world: World) -> str:
    """The state of its world that a failure shows."""
    hashes = os.environ.get("PYTHONHASHSEED", "random")
    again = f"PYTHONHASHSEED={hashes}" if hashes != "random" else "for other processes, set PYTHONHASHSEED"
    told = f"seed {world.seed} ({again}), after {world.now:.3f} s of virtual time; the last events:"
    return "\n".join([told, *list(world.notes)[-LAST_NOTES:]])
