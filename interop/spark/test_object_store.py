"""Tables in S3: two drivers at once, kills, and a driver that stands still.

No row is missing, and none is there twice, in the eyes of readers that are not ours. KAFKAPY_STORE_KILLS says
how many drivers are killed; without it, nothing of this is run, since it takes some ten minutes. KAFKAPY_SEED
says what follows from chance. Many kills take longer than a test may (`-o timeout=0
-o faulthandler_timeout=0`).
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.kill_load import Expected, Load, Place
from interop.spark.kill_run import Driver, write_definition
from interop.support.s3_server import S3Server
from interop.support.waiting import wait_until
from kafkapy.pipeline.stores.lease import DURATION
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess

pytest.importorskip("moto", reason="moto is not installed (pip install 'moto[server]')")
KILLS = int(os.environ.get("KAFKAPY_STORE_KILLS", "0"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not KILLS, reason="KAFKAPY_STORE_KILLS does not say how many drivers to kill"),
]
SEED = int(os.environ.get("KAFKAPY_SEED", random.SystemRandom().randrange(10**6)))
PIPELINES = {"delta": "events", "iceberg": "events", "parquet": "events", "delta-upsert": "accounts"}
PARTITION = {"delta": "_partition", "iceberg": "_kafka_partition", "parquet": "_partition"}
PATIENCE = 400.0  # seconds, for a batch: three formats on a machine that does other things too


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkapyProcess]:
    with KafkapyProcess(tmp_path_factory.mktemp("broker")) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        topics = [
            NewTopic("events", 2, 1, config={"retention.ms": "-1"}),
            NewTopic("accounts", 2, 1, config={"retention.ms": "-1", "cleanup.policy": "compact"}),
        ]
        for future in admin.create_topics(topics).values():
            future.result(30)
        yield started


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    (port,) = free_ports(1)
    with S3Server(tmp_path_factory.mktemp("s3"), port) as started:
        yield started


class StoreRun:
    """Two drivers that always want the same tables.

    The one that takes the place of a killed one starts its Spark before: that takes longer than a batch.
    """

    load: Load

    def __init__(self, folder: Path, broker: KafkapyProcess, s3: S3Server, seed: int) -> None:
        self.folder, self.broker, self.s3 = folder, broker, s3
        self._files = s3.files
        self._chance = random.Random(seed)
        self._started: list[Driver] = []
        self.files = [self._write(name, topic) for name, topic in PIPELINES.items()]
        self.drivers: list[Driver] = []

    def _write(self, name: str, topic: str) -> Path:
        servers, options = self.broker.bootstrap_servers, self.s3.spark_options
        return write_definition(
            self.folder, name, topic, servers, place="s3a://lake", most=500, spark=options
        )

    def _starting(self, how: str = "follow") -> Driver:
        started = Driver(self.folder, how, self.files)
        self._started.append(started)
        return started

    def driver(self, how: str = "follow") -> Driver:
        return gone(self._starting(how))

    def batches(self) -> dict[str, int]:
        """How many batches Spark has committed of each table; it keeps the last hundred of them."""
        found = dict.fromkeys(PIPELINES, 0)
        for name in PIPELINES:
            for incarnation in self._below(f"{name}/_kafkapy/checkpoint"):
                commits = self._below(f"{name}/_kafkapy/checkpoint/{incarnation}/commits")
                numbers = [int(one) + 1 for one in commits if one.isdecimal()]
                found[name] = max([found[name], *numbers])
        return found

    def _below(self, folder: str) -> list[str]:
        selector = pyarrow.fs.FileSelector(f"lake/{folder}", allow_not_found=True)
        return [one.base_name for one in self._files.get_file_info(selector)]

    def await_a_batch_of_each(self) -> None:
        before = self.batches()

        def done() -> bool:
            assert any(driver.running for driver in self.drivers), self.drivers[0].told()
            now = self.batches()
            return all(now[name] > before[name] for name in PIPELINES)

        # The server lists files with the CPU time that the drivers need.
        wait_until(done, timeout=PATIENCE, pause=1)

    def kill_some(self, count: int) -> None:
        for _ in range(count):
            successor = self._starting()
            self.await_a_batch_of_each()
            time.sleep(self._chance.uniform(0, 6))
            victim = self._chance.choice(self.drivers)
            victim.kill(self._chance.choice(("driver", "python")))
            self.drivers.remove(victim)
            self.drivers.append(gone(successor))

    def freeze_one(self) -> None:
        """Let a driver that has a table stand still until the other has all, and then continue.

        It is refused. What it was doing when it stopped decides how.
        """
        frozen = self._one_that_has_a_table()
        (other,) = (driver for driver in self.drivers if driver is not frozen)
        told = len(frozen.log.read_bytes())
        frozen.signal(signal.SIGSTOP)
        time.sleep(DURATION)
        self.drivers = [other]
        self.await_a_batch_of_each()
        frozen.signal(signal.SIGCONT)
        self.drivers = [frozen, other]
        refusals = (
            b"was silent for more than 60 seconds",
            b"another driver has written this batch meanwhile",
        )

        def is_refused() -> bool:
            assert frozen.running, frozen.told()
            since = frozen.log.read_bytes()[told:]
            return any(refusal in since for refusal in refusals)

        wait_until(is_refused, timeout=PATIENCE, pause=1)
        self.await_a_batch_of_each()

    def _one_that_has_a_table(self) -> Driver:
        """The one that the other has last found at work, since both are there."""
        first = len(self.drivers[0].log.read_bytes())
        drivers = {str(driver.process_id): driver for driver in self.drivers}

        def found() -> list[str]:
            told = self.drivers[0].log.read_bytes()[first:].decode(errors="replace")
            return [one for one in re.findall(r"running already \(process (\d+)", told) if one in drivers]

        wait_until(lambda: bool(found()), timeout=PATIENCE)
        return drivers[found()[-1]]

    def finish(self) -> None:
        """To the end of the topics, undisturbed."""
        self.load.end()
        for file in self.files:
            definition = yaml.safe_load(file.read_text())
            file.write_text(yaml.safe_dump({**definition, "max_offsets_per_trigger": 100_000}))
        for driver in self.drivers:
            driver.terminate()
        for driver in self.drivers:
            assert driver.wait(PATIENCE) == 0, driver.told()
        assert self.driver("once").wait(PATIENCE) == 0, self._started[-1].told()

    def end(self) -> None:
        for driver in self._started:
            driver.end()


def gone(driver: Driver) -> Driver:
    """A driver that runs its pipelines, as soon as it has its Spark."""
    driver.wait_until_ready()
    driver.go()
    return driver


@pytest.fixture(scope="module")
def run(broker: KafkapyProcess, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreRun]:
    print(f"seed {SEED}")
    run = StoreRun(tmp_path_factory.mktemp("drivers"), broker, s3, SEED)
    run.load = Load(broker.bootstrap_servers, ["events", "accounts"], at_once=2_000, seed=SEED, pause=1)
    try:
        run.drivers = [gone(one) for one in (run._starting(), run._starting())]
        yield run
    finally:
        run.load.end()
        run.end()


@pytest.fixture(scope="module")
def finished(run: StoreRun) -> StoreRun:
    """The tables at the end of their topics, after all that the tests before have done."""
    run.finish()
    print(f"batches: {run.batches()}")
    return run


def test_of_two_drivers_one_writes_and_the_other_succeeds_it(run: StoreRun) -> None:
    run.kill_some(KILLS)
    told = run.drivers[0].log.read_text(errors="replace")
    for name in PIPELINES:
        assert f"s3a://lake/{name}: its pipeline is running already (process " in told


def test_a_driver_that_stood_still_writes_no_more(run: StoreRun) -> None:
    run.freeze_one()


@pytest.mark.parametrize("name", ["delta", "iceberg", "parquet"])
def test_each_good_record_is_one_row(name: str, finished: StoreRun) -> None:
    expected = Expected.of(finished.broker.bootstrap_servers, "events")
    rows = read(finished.s3, name, name).select([PARTITION[name], "_offset", "id"]).to_pylist()
    found = Counter(((row[PARTITION[name]], row["_offset"]), row["id"]) for row in rows)
    assert found == Counter(expected.good.items())


def test_an_upserted_table_has_the_last_record_of_each_key(finished: StoreRun) -> None:
    expected = Expected.of(finished.broker.bootstrap_servers, "accounts")
    last: dict[bytes, tuple[Place, int]] = {
        row["_key"]: ((row["_partition"], row["_offset"]), row["id"])
        for row in read(finished.s3, "delta-upsert", "delta").to_pylist()
    }
    assert last == expected.last


def read(s3: S3Server, name: str, kind: str) -> pa.Table:
    """The table as a reader of its format finds it in S3."""
    if kind == "delta":
        import deltalake

        table = deltalake.DeltaTable(f"s3://lake/{name}", storage_options=s3.deltalake_options)
        return pa.table(table.to_pyarrow_table())
    if kind == "iceberg":
        from pyiceberg.table import StaticTable

        found = s3.files.get_file_info(pyarrow.fs.FileSelector(f"lake/{name}/metadata"))
        # A version is renamed to this; a driver that was killed before may leave it under another name.
        versions = [re.fullmatch(r"v(\d+)\.metadata\.json", one.base_name) for one in found]
        newest = max(int(one[1]) for one in versions if one)
        located = f"s3a://lake/{name}/metadata/v{newest}.metadata.json"
        return StaticTable.from_metadata(located, s3.pyiceberg_options).scan().to_arrow()
    dataset = pyarrow.dataset.dataset(
        f"lake/{name}", filesystem=s3.files, format="parquet", partitioning="hive"
    )
    return dataset.to_table()
