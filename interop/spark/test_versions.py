"""Other versions of Spark: tables, audits and `kafkapy-log`.

They are judged by readers that are not ours.

KAFKAPY_SPARK_VERSIONS says which: `all`, or some with commas between them. Each has a Python of its own in
`.cache/spark/versions`, which takes all but pyspark from this one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.other_readers import contents, merged_rows
from interop.spark.version_trial import PER_BATCH
from interop.support.locked import locked
from interop.support.maven import CACHE, java_missing
from kafkapy.pipeline.table_target import TableTarget
from tests.servers.kafkapy_process import KafkapyProcess

LAKES = {"4.1.1": ["delta", "iceberg"], "4.2.0": ["delta"]}
"""The versions, and the table formats that have a jar for them."""
ADMITTED = ("4.2.0",)
"""Those that ask a Python source for the end of each micro-batch."""
CHOSEN = os.environ.get("KAFKAPY_SPARK_VERSIONS", "")
COUNT, KEYS = 1_200, 50

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHOSEN, reason="KAFKAPY_SPARK_VERSIONS names no versions of Spark"),
]


@pytest.fixture(params=[each for each in LAKES if CHOSEN == "all" or each in CHOSEN.split(",")])
def version(request: pytest.FixtureRequest) -> str:
    if missing := java_missing():
        pytest.skip(missing)
    return str(request.param)


@pytest.fixture
def python(version: str) -> Path:
    """A Python with that version of pyspark."""
    place = CACHE / "spark" / "versions" / version
    place.parent.mkdir(parents=True, exist_ok=True)
    ready = place / "ready"
    with locked(place):
        if not ready.exists():
            venv.create(place, symlinks=True, clear=True)
            there = Path(sysconfig.get_path("purelib", "venv", {"base": str(place)}))
            packages = sysconfig.get_path("purelib")
            (there / "this.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
            pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
            subprocess.run([*pip, "install", "-q", f"pyspark=={version}"], check=True)
            ready.touch()
    return place / "bin" / "python"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkapyProcess]:
    """Records with numbers, some of which are no JSON, and accounts of which some are deleted."""
    with KafkapyProcess(tmp_path_factory.mktemp("broker")) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        settings = {"retention.ms": "-1"}
        topics = [
            NewTopic("events", 2, 1, config=settings),
            NewTopic("accounts", 2, 1, config={**settings, "cleanup.policy": "compact"}),
        ]
        for future in admin.create_topics(topics).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": started.bootstrap_servers, "batch.num.messages": 20})
        for number in range(COUNT):
            value = json.dumps({"id": number, "text": f"text {number}"})
            key = f"key {number % KEYS}"
            event = "{" if number % 400 == 399 else value
            producer.produce("events", event, key, partition=number % 2, timestamp=1_700_000_000_000 + number)
            account = None if number >= COUNT - 5 else value
            producer.produce("accounts", account, key, partition=number % 2)
        assert producer.flush(60) == 0
        yield started


def tried(python: Path, **given: Any) -> dict[str, Any]:
    """What the trial in that Python has found."""
    ended = subprocess.run(
        [python, "-m", "interop.spark.version_trial", json.dumps(given)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def test_a_version_of_spark(version: str, python: Path, broker: KafkapyProcess, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(broker.data, damaged, ignore=shutil.ignore_patterns(".kafkapy_control"))
    with (damaged / "events-0" / f"{0:020}.log").open("r+b") as segment:
        segment.seek(100)
        segment.write(b"\xff\xff\xff\xff")
    lakes = LAKES[version]
    found = tried(
        python,
        bootstrap=broker.bootstrap_servers,
        data=str(broker.data),
        damaged=str(damaged),
        folder=str(tmp_path),
        lakes=lakes,
    )
    assert found["version"] == version
    assert found["beside_damage"] == 1
    assert sum(found["streamed"]) == (COUNT if version in ADMITTED else PER_BATCH)
    assert max(found["streamed"]) == PER_BATCH
    good = {number: f"text {number}" for number in range(COUNT) if number % 400 != 399}
    for kind in (*lakes, "parquet"):
        for reader, table in contents(TableTarget(format=kind, location=str(tmp_path / f"{kind}-events"))):
            assert table.num_rows == len(good), (kind, reader)
            assert _texts(table) == good, (kind, reader)
    kept = {number: f"text {number}" for number in range(COUNT - KEYS, COUNT - 5)}
    for kind in lakes:
        accounts = TableTarget(format=kind, location=str(tmp_path / f"{kind}-accounts"))
        for reader, rows in merged_rows(accounts):
            assert rows == kept, (kind, reader)


def _texts(table: pa.Table) -> dict[int, str]:
    return dict(zip(table.column("id").to_pylist(), table.column("text").to_pylist(), strict=True))
