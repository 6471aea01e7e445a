"""How long until a fresh server answers its first request, and what it holds when idle."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from scripts.benchmarks.load import Figures
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.servers import new_server

_CHECKOUT = Path(__file__).resolve().parents[2]

# Twice: the first includes what is imported on the way.
_IN_PROCESS = """
import json, time
from tests.servers.probe import brokers_alive, parse_address
import kafkapy
seconds = []
for _ in range(2):
    start = time.perf_counter()
    with kafkapy.Broker() as broker:
        assert brokers_alive(parse_address(broker.bootstrap_servers)) == 1
        seconds.append(time.perf_counter() - start)
print(json.dumps(seconds))
"""


def start(name: str, folder: Path) -> Figures:
    """Load: start on an empty folder, stop, start again; for kafkapy also inside a process."""
    server = new_server(name, folder)
    figures: Figures = {}
    for label in ("fresh data", "again"):
        begin = time.perf_counter()
        server.start()
        figures[f"process, {label}: first answer, s"] = time.perf_counter() - begin
        time.sleep(2)  # idle
        figures["memory idle, MB"] = Meter(server.pid).resident_mb()
        begin = time.perf_counter()
        server.stop()
        figures["stop, s"] = time.perf_counter() - begin
    if name.startswith("kafkapy"):
        run = subprocess.run(
            [sys.executable, "-c", _IN_PROCESS], cwd=_CHECKOUT, capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise RuntimeError(run.stderr[-500:])
        first, next_ = json.loads(run.stdout)
        figures["in-process, first: first answer, s"] = first
        figures["in-process, next: first answer, s"] = next_
    return figures
