"""How long a cluster is without controller and leaders after a SIGKILL."""

from __future__ import annotations

from collections.abc import Callable

from interop.support.waiting import wait_until
from scripts.benchmarks.cluster.target import ClusterTarget, controller_of, partitions_of, shown_by
from scripts.benchmarks.load import Figures
from scripts.benchmarks.many_partitions import create, topic_sizes
from scripts.benchmarks.meter import Meter, Stopwatch

_TOPIC_SIZE = 500


def failing_over(partitions: int) -> Callable[[ClusterTarget, float], Figures]:
    """Load: kill the controller of so many partitions, of which it leads a third."""
    return lambda target, scale: _fail_over(target, int(partitions * scale))


def _fail_over(target: ClusterTarget, partitions: int) -> Figures:
    sizes = topic_sizes(partitions, _TOPIC_SIZE)
    known = partitions_of(target.servers[0])
    missing = {name: size for name, size in sizes.items() if name not in known}
    create(target.bootstrap_servers, missing, target.replicas)
    target.wait_until_in_sync()
    killed = target.controller()
    others = target.without(killed)
    watch = Stopwatch(Meter(*(server.pid for server in others)))
    target.broker(killed).kill()
    wait_until(
        lambda: all(controller_of(server) not in (killed, -1) for server in others), timeout=120, pause=0.01
    )
    followed = watch.cost().seconds

    def are_led() -> bool:
        return all(each.leader_id not in (killed, -1) for each in shown_by(others))

    wait_until(are_led, timeout=300, pause=0.05)
    cost = watch.cost()
    target.restore(killed)
    return {
        "until a new controller is shown, s": followed,
        "until all have leaders, s": cost.seconds,
        "CPU seconds of the other two": cost.cpu_seconds,
    }
