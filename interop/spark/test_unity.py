"""Delta tables in Unity Catalog, judged by deltalake and by the server's own REST API.

KAFKAPY_UNITY_JARS says where the jars are; without it, nothing of this is run (`unity_catalog.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from interop.conftest import MakeTopic
from interop.spark.conftest import INTERPRETED, SMALL
from interop.spark.test_audit import produce
from interop.spark.test_catalogs import records
from interop.spark.unity_catalog import JARS, UnityServer
from tests.ports import free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not JARS, reason="KAFKAPY_UNITY_JARS names no folder with Unity Catalog's jars"),
]


@pytest.fixture(scope="module")
def unity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnityServer]:
    (port,) = free_ports(1)
    with UnityServer(tmp_path_factory.mktemp("unity"), port) as started:
        yield started


def rows_of(folder: Path) -> list[tuple[int, str]]:
    rows = DeltaTable(str(folder)).to_pyarrow_table(columns=["id", "name"]).to_pylist()
    return sorted((row["id"], row["name"]) for row in rows)


def test_delta_tables_are_written_into_a_schema_of_unity(
    unity: UnityServer, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic()
    entries = [
        {
            "name": mode,
            "table": f"delta:unity.default.{mode}",
            "mode": mode,
            "state": f"states/{mode}",
            "files": f"files/{mode}",
        }
        for mode in ("append", "upsert")
    ]
    managed = {"name": "managed", "table": "delta:unity.default.managed", "state": "states/managed"}
    common = {"bootstrap": bootstrap_servers, "topic": topic, "format": "json", "master": "local[2]"}
    file = tmp_path / "lake.yaml"
    options = SMALL | INTERPRETED | unity.spark_options
    file.write_text(json.dumps({**common, "spark": options, "pipelines": [*entries, managed]}))
    command = [sys.executable, "-m", "kafkapy", "pipeline", "run", str(file), "--once"]
    changed = [(0, "k3", json.dumps({"id": 3, "name": "b", "price": 2}))]
    for sent in (records(range(10)), [*changed, *records(range(10, 12))]):
        produce(bootstrap_servers, topic, sent)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 1, done.stderr
        assert "set files: to a folder or URI for the table's files" in done.stderr
    rows = [(number, "a") for number in range(12)]
    assert rows_of(tmp_path / "files" / "append") == sorted([*rows, (3, "b")])
    assert rows_of(tmp_path / "files" / "upsert") == [*rows[:3], (3, "b"), *rows[4:]]
    for mode in ("append", "upsert"):
        told = unity.table(mode)
        assert (told["table_type"], told["data_source_format"]) == ("EXTERNAL", "DELTA")
        assert told["storage_location"] == f"file://{tmp_path}/files/{mode}"
