"""DuckDB, Polars and pandas read what `kafkapy.log.scan` gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest
from confluent_kafka import Producer

from kafkapy import Broker
from kafkapy.log import scan

_RECORDS = 10_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("data")
    with Broker(data_dir=path, config={"num.partitions": 4}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"})
        for number in range(_RECORDS):
            value = None if number % 100 == 0 else b'{"n": %d}' % number
            producer.produce("orders", key=b"k%d" % (number % 10), value=value, partition=number % 4)
        producer.flush()
        yield path


def test_duckdb_queries_a_topic(directory: Path) -> None:
    orders = scan(directory, "orders")
    found = duckdb.sql(
        """
        select count(*), count(value), sum(cast(json_extract(decode(value), '$.n') as bigint)),
            count(distinct "partition"), max("offset")
        from orders
        """
    ).fetchall()
    with_value = [number for number in range(_RECORDS) if number % 100]
    assert found == [(_RECORDS, len(with_value), sum(with_value), 4, _RECORDS // 4 - 1)]
    assert orders.schema.names[0] == "key"


def test_polars_takes_a_topic(directory: Path) -> None:
    frame = pl.from_arrow(scan(directory, "orders", key=b"k3"))
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == _RECORDS // 10
    assert frame["key"].unique().to_list() == [b"k3"]
    assert frame["timestamp"].dtype == pl.Datetime("us", "UTC")


def test_pandas_takes_a_topic(directory: Path) -> None:
    frame = scan(directory, "orders", partitions=[1]).read_pandas()
    assert list(frame["offset"]) == list(range(_RECORDS // 4))


def test_the_query_of_the_readme_runs(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (block,) = [each for each in blocks if "import duckdb" in each]
    (tmp_path / "kafkapy-data").symlink_to(directory)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    counts = re.findall(r"^│ +([0-3]) │ +(\d+) │ \d{4}-", capsys.readouterr().out, re.MULTILINE)
    assert sorted(counts) == [(f"{partition}", f"{_RECORDS // 4}") for partition in range(4)]
