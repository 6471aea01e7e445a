"""Many topics become tables in one Spark, by one `kafkapy pipeline run`.

The run is the command itself, in a process of its own. All that is said of tables comes from deltalake and
from the files that it names: which records they have, and when the commit came that has them.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pyarrow
import pyarrow.parquet
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from interop.support.maven import CACHE
from interop.support.waiting import wait_until
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import Meter, Stopwatch
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer
from tests.servers.kafkapy_process import KafkapyProcess

_PATIENCE: Final = 600.0  # seconds
_LOOK: Final = 0.5
_SCHEMA: Final = "id BIGINT, account STRING, amount DOUBLE, note STRING"


def measure(case: Case) -> Iterator[tuple[str, Figures]]:
    """The figures of each phase, as soon as it is over.

    Raises RuntimeError if a record is missing or doubled, or one pipeline stops another.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        KafkapyProcess(Path(folder, "broker"), properties={"durability": "os"}) as broker,
    ):
        rig = _Rig(case, Path(folder), broker)
        topics = [f"shop.{number:03}" for number in range(case.topics)]
        rig.create(topics)
        share = case.records // case.rounds
        rig.send(share, topics)
        with rig.running() as run:
            yield "the first rows in all tables", rig.phase(run, lambda: rig.wait_for_rows(topics, run))

            def rounds() -> None:
                for _ in range(case.rounds - 1):
                    time.sleep(case.pause)
                    rig.send(share, topics)
                rig.wait_for_rows(topics, run)

            yield f"{case.rounds - 1} more rounds", rig.phase(run, rounds)
            rig.check(topics)
            yield "no records", rig.phase(run, lambda: time.sleep(case.seconds))
            since = time.time()

            def trickle() -> None:
                for second in range(int(case.seconds)):
                    rig.send(1, topics[second % case.between :: case.between])
                    time.sleep(max(since + second + 1 - time.time(), 0))
                rig.wait_for_rows(topics, run)

            figures = rig.phase(run, trickle)
            delays = sorted(rig.delays(topics, since))
            figures |= {"p50 s": statistics.median(delays), "p99 s": delays[len(delays) * 99 // 100]}
            yield f"a record a topic every {case.between} s", figures
            new = "shop.new"
            rig.create([new])
            rig.send(case.records, [new])
            yield "a new topic is a table", rig.phase(run, lambda: rig.wait_for_rows([new], run))
            deleted, poisoned, *others = topics
            rig.poison(poisoned)
            rig.admin.delete_topics([deleted])[deleted].result(60)

            def others_continue() -> None:
                wait_until(lambda: rig.failed() == {deleted, poisoned}, timeout=_PATIENCE, pause=_LOOK)
                rig.send(1, others)
                rig.wait_for_rows(others, run)

            yield "two fail, the others continue", rig.phase(run, others_continue)

            before = time.perf_counter()
            run.terminate()
            run.wait(120)
            yield "stopped", {"seconds": time.perf_counter() - before}
            if run.returncode != 1 or "2 of" not in rig.told()[-1]:
                raise RuntimeError("\n".join(rig.told()[-10:]))
        rig.check([*topics, new])


@dataclass(frozen=True, kw_only=True)
class Case:
    """How many topics there are, and what is sent to them.

    `records` go to each topic, in `rounds`, the first before the run begins and each further one `pause`
    seconds after the last. `seconds` are those without a record, and then those of a trickle, in which each
    topic gets a record every `between` seconds.
    """

    topics: int
    partitions: int
    records: int
    rounds: int
    pause: float
    seconds: float
    between: int
    every: str | None
    memory: str
    cores: int


@dataclass
class _Sent:
    """What was sent to a topic, by partition: how many records."""

    partitions: int
    counts: Counter[int] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.counts.total()


class _Rig:
    """The broker, its topics, their tables, and the run."""

    def __init__(self, case: Case, folder: Path, broker: KafkapyProcess) -> None:
        self.case, self.folder, self.broker = case, folder, broker
        self.log = folder / "run.log"
        self.admin = Target(broker).admin
        self.sent: dict[str, _Sent] = {}
        self._producer: Producer = row_producer(broker.bootstrap_servers, linger_ms=5, log_level=0)

    def create(self, names: list[str]) -> None:
        wanted = [NewTopic(name, self.case.partitions, 1) for name in names]
        for future in self.admin.create_topics(wanted).values():
            future.result(60)
        self.sent |= {name: _Sent(self.case.partitions) for name in names}

    def send(self, records: int, topics: list[str]) -> None:
        """So many records to each of the topics, to its partitions in turn."""
        for topic in topics:
            sent = self.sent[topic]
            rows: dict[int, list[dict[str, bytes]]] = {}
            for number in range(sent.total, sent.total + records):
                partition = number % sent.partitions
                value = {
                    "id": number,
                    "account": f"account-{number % 97:07}",
                    "amount": number % 100_000 / 100,
                    "note": f"order {number}",
                }
                row = {"key": b"%d" % number, "value": json.dumps(value).encode()}
                rows.setdefault(partition, []).append(row)
                sent.counts[partition] += 1
            for partition, listed in rows.items():
                produce_rows(self._producer, topic, partition, listed)
        flush_rows(self._producer)

    def poison(self, topic: str) -> None:
        """Send a record that is no row."""
        self._producer.produce(topic, b"no JSON", partition=0)
        flush_rows(self._producer)

    def phase(self, run: subprocess.Popen[bytes], work: Callable[[], None]) -> Figures:
        """What the run and the broker cost while something is done."""
        batches = self._batches()
        everything = Stopwatch(Meter(run.pid, descendants=True))
        python, serving = Stopwatch(Meter(run.pid)), Stopwatch(Meter(self.broker.pid))
        work()
        cost = everything.cost()
        jvm = next(one.pid for one in psutil.Process(run.pid).children() if one.name() == "java")
        return {
            "seconds": cost.seconds,
            "CPU s": cost.cpu_seconds,
            "of it Python's": python.cost().cpu_seconds,
            "batches": self._batches() - batches,
            "broker's CPU s": serving.cost().cpu_seconds,
            "JVM MB": Meter(jvm).resident_mb(),
            "Python MB": Meter(run.pid).resident_mb(),
            "threads": psutil.Process(jvm).num_threads() + psutil.Process(run.pid).num_threads(),
        }

    def _batches(self) -> int:
        """How many the run has told."""
        return sum(": batch " in line for line in self.told())

    def failed(self) -> set[str]:
        """The pipelines that the run says it has ended."""
        found = (re.match(r"(shop[.]\w+): (?!batch )", line) for line in self.told())
        return {one[1] for one in found if one}

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The command; it is ended with the block."""
        file = self.folder / "pipelines.yaml"
        definition = {
            "bootstrap": self.broker.bootstrap_servers,
            "topics": "shop[.].*",
            "table": "delta:lake/{topic}",
            "format": {"kind": "json", "schema": _SCHEMA},
            "mode": "append",
            "master": f"local[{self.case.cores}]",
            "spark": {
                "spark.driver.memory": self.case.memory,
                "spark.jars.ivy": str(CACHE / "spark" / "ivy"),
                "spark.ui.enabled": "false",
            },
        }
        if self.case.every is not None:
            definition["every"] = self.case.every
        file.write_text(json.dumps(definition))
        command = [sys.executable, "-m", "kafkapy", "pipeline", "run", str(file)]
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(120)
            if process.poll() is None:
                process.kill()
                process.wait()

    def told(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    # -- the tables, as deltalake reads them

    def table(self, topic: str) -> DeltaTable | None:
        with contextlib.suppress(TableNotFoundError):
            return DeltaTable(str(self.folder / "lake" / topic))
        return None

    def rows(self, topic: str) -> int:
        """How many rows the log of the table counts."""
        if (table := self.table(topic)) is None:
            return 0
        counted = pyarrow.table(table.get_add_actions(flatten=True))
        return sum(counted["num_records"].to_pylist()) if counted.num_rows else 0

    def wait_for_rows(self, topics: list[str], run: subprocess.Popen[bytes]) -> None:
        """Wait until each table has as many rows as its topic got records."""
        missing = dict.fromkeys(topics)

        def complete() -> bool:
            if run.poll() is not None:
                raise RuntimeError("the run ended:\n" + "\n".join(self.told()[-20:]))
            for topic in list(missing):
                if self.rows(topic) < self.sent[topic].total:
                    return False
                del missing[topic]
            return True

        wait_until(complete, timeout=_PATIENCE, pause=_LOOK)

    def check(self, topics: list[str]) -> None:
        """Raise RuntimeError unless each record is one row, with its own number."""
        for topic in topics:
            table, sent = self.table(topic), self.sent[topic]
            assert table is not None, topic
            found = table.to_pyarrow_table(columns=["id", "_partition", "_offset"]).to_pydict()
            places = list(zip(found["_partition"], found["_offset"], strict=True))
            expected = {
                (partition, offset): partition + offset * sent.partitions
                for partition, count in sent.counts.items()
                for offset in range(count)
            }
            doubled = len(places) - len(set(places))
            if doubled or dict(zip(places, found["id"], strict=True)) != expected:
                lacking = len(expected.keys() - set(places))
                raise RuntimeError(f"{topic}: {lacking} records are no rows, {doubled} rows are there twice")

    def delays(self, topics: list[str], since: float) -> list[float]:
        """The seconds from each record that was sent after `since` to the commit of its row."""
        found = []
        for topic in topics:
            table = self.table(topic)
            assert table is not None, topic
            root = self.folder / "lake" / topic
            seen: set[str] = set()
            for version in sorted((root / "_delta_log").glob("*.json")):
                for line in version.read_text().splitlines():
                    added = json.loads(line).get("add")
                    if added is None or not added["dataChange"] or added["path"] in seen:
                        continue
                    seen.add(added["path"])
                    committed = version.stat().st_mtime
                    if committed < since or not (root / added["path"]).exists():
                        continue
                    times = pyarrow.parquet.read_table(root / added["path"], columns=["_timestamp"])
                    sent = [moment.timestamp() for moment in times["_timestamp"].to_pylist()]
                    found += [committed - moment for moment in sent if moment >= since]
        return found
