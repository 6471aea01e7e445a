"""Kills drivers and the broker of five pipelines, again and again, at moments that matter.

A driver process runs three appends and two upserts at once (`kill_driver.py`). One append joins a table, and
both upserts mark the rows that they replace, in large batches and in small ones. Several drivers start their
Spark first, which takes longer than what they do later. Then one works at a time, and the next one takes over
when it is killed. What is killed is the driver with its JVM, Python alone (its JVM ends by itself, and must
not write beside the next driver), or the JVM alone (Python must end by itself). The moment is chosen by
watching the files that a batch makes, in their order:

    planned      Spark's checkpoint has the offsets of a batch
    dead         the dead-letter topic has grown: before the commit of the table
    staged       files of rows are being written
    committed    the table has the batch, Spark's checkpoint has not
    noted        progress.json has it
    done         Spark has noted it: the next batch begins

While drivers work, the broker is killed every two to four seconds, and started again on the same port and
directory.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow
import pyarrow.parquet
import yaml

from interop.support.waiting import wait_until
from tests.servers.kafkapy_process import KafkapyProcess

CHECKOUT = Path(__file__).resolve().parents[2]
PIPELINES = {
    "delta": "events",
    "iceberg": "events",
    "parquet": "events",
    "delta-upsert": "accounts",
    "iceberg-upsert": "accounts",
}
JOINING = "iceberg"
JOINED = {digit: f"digit {digit}" for digit in range(9)}
"""The joined table: the last digits of ids, but no 9."""
MOMENTS = {
    "planned": "{}/_kafkapy/checkpoint/*/offsets/[0-9]*",
    "staged": "{}/*.parquet {}/data/*.parquet {}/_kafkapy/staging/batch=*/_temporary",
    "committed": "{}/_delta_log/*.json {}/metadata/v*.metadata.json {}/batch=*",
    "noted": "{}/_kafkapy/progress.json",
    "done": "{}/_kafkapy/checkpoint/*/commits/[0-9]*",
}
READY_AT_ONCE = 5
"""How many drivers start before the first of them works."""
_EMPTY_TABLE = ("00000000000000000000.json", "v1.metadata.json")
BEFORE, BETWEEN = "before the table's commit", "between the table's commit and Spark's"


class Driver:
    """A process with a session, which runs pipelines when it is told to go."""

    def __init__(self, folder: Path, how: str, files: list[Path]) -> None:
        self.log = folder / "drivers.log"
        self._children: list[psutil.Process] = []
        command = [sys.executable, "-m", "interop.spark.kill_driver", how, *map(str, files)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self.told()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def kill(self, what: str) -> None:
        """`driver`: all of it; `python` or `jvm`: that process alone, and the other ends by itself."""
        self._children = psutil.Process(self._process.pid).children(recursive=True)
        if what == "driver":
            os.killpg(self._process.pid, signal.SIGKILL)
        elif what == "python":
            self._process.kill()
        else:
            (jvm,) = (one for one in self._children if one.name() == "java")
            jvm.kill()
            assert self._process.wait(120) != 0
        self._process.wait()

    def signal(self, number: int) -> None:
        """Sends a signal to all of it."""
        os.killpg(self._process.pid, number)

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: float) -> int:
        return self._process.wait(timeout)

    def terminate(self) -> None:
        self._process.terminate()

    def told(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    def end(self) -> None:
        """Leave nothing of it.

        After its end, its process id may be another's.
        """
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for child in self._children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def write_definition(
    folder: Path, name: str, topic: str, bootstrap_servers: str, *, place: str, most: int, **more: object
) -> Path:
    """Write the file of a pipeline named FORMAT or FORMAT-MODE, with its table in `place`.

    `most` are the offsets of a batch.
    """
    file = folder / f"{name}.yaml"
    definition = {
        "name": name,
        "bootstrap": bootstrap_servers,
        "topic": topic,
        "table": f"{name.partition('-')[0]}:{place}/{name}",
        "format": {"kind": "json", "schema": "id BIGINT, text STRING"},
        "dead_letter": f"{name}.dlq",
        "max_offsets_per_trigger": most,
        **more,
    }
    file.write_text(yaml.safe_dump(definition))
    return file


class KillRun:
    """The pipelines in `folder`; counts what was killed when."""

    def __init__(self, folder: Path, broker: KafkapyProcess, seed: int) -> None:
        self.folder, self.broker, self._chance = folder, broker, random.Random(seed)
        self.tables = folder / "tables"
        self.kills: Counter[str] = Counter()
        self.moments: Counter[tuple[str, str]] = Counter()
        self.broker_kills = 0
        self._drivers: list[Driver] = []
        self.files = [self._write(name, topic) for name, topic in PIPELINES.items()]

    def _write(self, name: str, topic: str) -> Path:
        servers, most = self.broker.bootstrap_servers, 1_500
        more: dict[str, object] = {}
        if name == JOINING:
            table = pyarrow.table({"digit": list(JOINED), "name": list(JOINED.values())})
            pyarrow.parquet.write_table(table, self.folder / "digits.parquet")
            more["join"] = {"digits": {"table": "parquet:digits.parquet", "match": {"digit": "id % 10"}}}
            more["select"] = ["id", "text", "digits.name AS name"]
        elif name == "delta-upsert":
            most, more["merge_mode"] = 900, "merge-on-read"  # small batches, which get no MERGE
        return write_definition(self.folder, name, topic, servers, place="tables", most=most, **more)

    def _driver(self, how: str) -> Driver:
        """A driver that is ready to go."""
        driver = Driver(self.folder, how, self.files)
        self._drivers.append(driver)
        driver.wait_until_ready()
        return driver

    def kill_many(self, count: int) -> None:
        """Each of the kinds, moments and pipelines in turn, in an order of chance."""
        kinds = self._in_turn(["driver", "driver", "python", "driver", "jvm"])
        moments = self._in_turn([*MOMENTS, "dead", "committed"])
        pipelines = self._in_turn(list(PIPELINES))
        for done in range(0, count, READY_AT_ONCE):
            drivers = [self._driver("follow") for _ in range(min(READY_AT_ONCE, count - done))]
            with self._broker_dying():
                for driver in drivers:
                    driver.go()
                    pipeline = next(pipelines)
                    self._wait_for_a_batch(driver, pipeline)
                    self._kill(driver, next(kinds), next(moments), pipeline)

    def _in_turn(self, what: list[str]) -> Iterator[str]:
        while True:
            yield from self._chance.sample(what, len(what))

    def _wait_for_a_batch(self, driver: Driver, pipeline: str) -> None:
        """It continues after the last kill: Spark commits a batch."""
        committed = self._appears(MOMENTS["done"], pipeline)
        wait_until(lambda: committed() or self._ended(driver), timeout=300)

    def _kill(self, driver: Driver, what: str, moment: str, pipeline: str) -> None:
        if moment == "dead":
            seen = self._dead_letter_grows(pipeline)
        else:
            seen = self._appears(MOMENTS[moment], pipeline)
        deadline = time.monotonic() + 20  # dead letters come in stretches
        while not seen() and time.monotonic() < deadline and not self._ended(driver):
            time.sleep(0.001)
        time.sleep(self._chance.choice((0, 0, 0.002, 0.02, 0.2)))
        self.kills[what] += 1
        for found in self._unfinished():
            self.moments[found] += 1
        driver.kill(what)

    def _ended(self, driver: Driver) -> bool:
        assert driver.running, f"the driver ended by itself:\n{driver.told()}"
        return False

    def _appears(self, patterns: str, pipeline: str) -> Callable[[], bool]:
        """Whether there is a file now that was not there, or not of that age, before."""

        def present() -> set[tuple[Path, int]]:
            found = set()
            for pattern in patterns.split():
                for path in self.tables.glob(pattern.format(pipeline)):
                    with contextlib.suppress(FileNotFoundError):
                        found.add((path, path.stat().st_mtime_ns))
            return found

        before = present()
        return lambda: not present() <= before

    def _dead_letter_grows(self, pipeline: str) -> Callable[[], bool]:
        def size() -> int:
            return sum(path.stat().st_size for path in self.broker.data.glob(f"{pipeline}.dlq-0/*.log"))

        before = size()
        return lambda: size() > before

    def _unfinished(self) -> Iterator[tuple[str, str]]:
        """How far the batches are that a kill now interrupts."""
        for name in PIPELINES:
            plans = self.tables.glob(f"{name}/_kafkapy/checkpoint/*/offsets/[0-9]*")
            plan = max(plans, key=lambda path: int(path.name), default=None)
            if plan is None or (plan.parents[1] / "commits" / plan.name).exists():
                continue
            commits = MOMENTS["committed"].format(name, name, name).split()
            written = [path for pattern in commits for path in self.tables.glob(pattern)]
            ages = [path.stat().st_mtime_ns for path in written if path.name not in _EMPTY_TABLE]
            yield name, BETWEEN if max(ages, default=0) > plan.stat().st_mtime_ns else BEFORE

    @contextlib.contextmanager
    def _broker_dying(self) -> Iterator[None]:
        stop, failures = threading.Event(), []

        def kill() -> None:
            chance = random.Random(self._chance.random())
            while not stop.wait(chance.uniform(2, 4)):
                self.broker.kill()
                self.broker_kills += 1
                try:
                    self.broker.start()
                except Exception as error:
                    failures.append(error)
                    return

        thread = threading.Thread(target=kill, name="broker-killer")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not failures, failures

    def finish(self) -> None:
        """To the end of the topics, undisturbed."""
        for file in self.files:
            definition = yaml.safe_load(file.read_text())
            file.write_text(yaml.safe_dump({**definition, "max_offsets_per_trigger": 100_000}))
        last = self._driver("once")
        last.go()
        assert last.wait(600) == 0, last.told()

    def end(self) -> None:
        for driver in self._drivers:
            driver.end()
