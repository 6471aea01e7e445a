"""DuckDB and Polars read a data directory in S3 as they read the original."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from interop.support.s3_server import S3Server
from kafkapy import Broker
from kafkapy.cli import main
from kafkapy.errors import UserError
from kafkapy.log import scan
from tests.ports import free_ports

pytest.importorskip("moto", reason="moto is not installed (pip install 'moto[server]')")
pytest.importorskip("s3fs", reason="s3fs is not installed (pip install s3fs)")

_RECORDS = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    (port,) = free_ports(1)
    with S3Server(tmp_path_factory.mktemp("s3"), port) as started:
        yield started


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of a broker which has stopped."""
    path = tmp_path_factory.mktemp("data")
    config = {"num.partitions": 4, "log.segment.bytes": 1 << 20}
    with Broker(data_dir=path, config=config) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(_RECORDS):
            value = b'{"n": %d, "text": "%s"}' % (number, b"x" * 300)
            producer.produce("orders", key=b"k%d" % (number % 100), value=value, partition=number % 4)
        producer.flush()
    assert len(list(path.glob("orders-0/*.log"))) > 1
    return path


@pytest.fixture(scope="module")
def url(server: S3Server, directory: Path) -> str:
    return server.copy(directory, "kafkapy-data")


def test_duckdb_and_polars_read_what_is_in_the_directory(server: S3Server, directory: Path, url: str) -> None:
    orders = scan(url, "orders", storage_options=server.fsspec_options)
    found = duckdb.sql(
        "select count(*), sum(cast(json_extract(decode(value), '$.n') as bigint)) from orders"
    ).fetchall()
    assert found == [(_RECORDS, sum(range(_RECORDS)))]
    assert orders.schema == scan(directory, "orders").schema
    stored = pl.from_arrow(scan(url, "orders", storage_options=server.fsspec_options))
    assert stored.equals(pl.from_arrow(scan(directory, "orders")))


def test_one_record_and_one_key(server: S3Server, directory: Path, url: str) -> None:
    one: dict[str, Any] = {"partitions": [1], "starting": {1: 3000}, "ending": {1: 3001}}
    key: dict[str, Any] = {"key": b"k7"}
    for options in (one, key):
        found = scan(url, "orders", storage_options=server.fsspec_options, **options)
        table = found.read_all()
        assert table.num_rows in (1, _RECORDS // 100)
        assert table.equals(scan(directory, "orders", **options).read_all())


def test_an_export_takes_its_credentials_from_the_environment(
    server: S3Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.fsspec_options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.fsspec_options["secret"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    target = tmp_path / "orders.parquet"
    command = ["pipeline", "export", "orders", "--data-dir", url, "--to", f"parquet:{target}"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert duckdb.sql(f"select count(*) from '{target}/*.parquet'").fetchall() == [(_RECORDS,)]


def test_what_is_wrong_is_one_line(server: S3Server, url: str) -> None:
    options = server.fsspec_options
    for place, topic, message in (
        ("s3://lake/other", "orders", "There is no directory s3://lake/other: name the data directory"),
        ("s3://no-such-bucket/data", "orders", "There is no directory s3://no-such-bucket/data"),
        (url, "order", f"There is no topic order in {url}; did you mean orders?"),
    ):
        with pytest.raises(UserError) as caught:
            scan(place, topic, storage_options=options)
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)
