"""Data directories in object stores: only the ranges that are wanted are read.

The store is fsspec's own in memory, which notes what is asked of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from fsspec.implementations.memory import MemoryFileSystem

from kafkapy import Broker
from kafkapy.errors import UserError
from kafkapy.log import scan
from tests.log.reading import numbers_scanned, write_aborted_and_others
from tests.storage.log_harness import Logs

_RECORDS = 30_000
_PARTITIONS = 3
_FIRST_MS = 1_700_000_000_000
_VALUE = b"." * 500


class NotedFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A store in memory that notes what is asked of it, and fails if a test says so."""

    protocol: ClassVar[str] = "noted"
    asked: ClassVar[list[tuple[str, int]]] = []
    """Paths, and how many bytes were asked for; -1 for a list."""
    failure: ClassVar[Exception | None] = None

    def __init__(self, shelf: str = "", secret: str = "", client: Any = None) -> None:
        super().__init__()

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        self.asked.append((path, -1))
        return super().ls(path, detail, **options)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> Any:
        self.asked.append((path, end - start))
        return super().cat_file(path, start, end, **options)


@pytest.fixture(autouse=True)
def _store() -> Iterator[None]:
    fsspec.register_implementation("noted", NotedFileSystem, clobber=True)
    NotedFileSystem.asked.clear()
    NotedFileSystem.failure = None
    yield
    NotedFileSystem.failure = None
    NotedFileSystem.store.clear()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of a broker that has stopped; record `n` is in a segment of partition `n % 3`."""
    path = tmp_path_factory.mktemp("data")
    config = {"num.partitions": _PARTITIONS, "log.segment.bytes": 2 << 20}
    with Broker(data_dir=path, config=config) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(_RECORDS):
            producer.produce(
                "orders",
                key=b"k%d" % (number % 1000),
                value=b"%d" % number + _VALUE,
                partition=number % _PARTITIONS,
                timestamp=_FIRST_MS + 1000 * number,
            )
            if number % 100 == 0:
                producer.flush()
        producer.flush()
    assert len(list(path.glob("orders-0/*.log"))) > 2
    return path


def copied(directory: Path, url: str = "noted://shelf/data") -> str:
    """Copy a directory to a store."""
    store, target = fsspec.core.url_to_fs(url)
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            store.pipe_file(f"{target}/{path.relative_to(directory)}", path.read_bytes())
    return url


def fetched() -> int:
    return sum(nbytes for _, nbytes in NotedFileSystem.asked if nbytes > 0)


@pytest.mark.parametrize(
    ("url", "end"), [("noted://shelf/data", ""), ("noted://data", "/"), ("noted://", "")]
)
def test_a_copy_has_the_rows_of_the_directory(directory: Path, url: str, end: str) -> None:
    copied(directory, url)
    assert scan(url + end, "orders").read_all().equals(scan(directory, "orders").read_all())


def test_a_file_url_is_a_directory_of_this_machine(directory: Path) -> None:
    found = scan(f"file://{directory}", "orders", partitions=[1]).read_all()
    assert found.num_rows == _RECORDS // _PARTITIONS


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"partitions": [2], "starting": {2: 5000}, "ending": {2: 5001}}, [15_002]),
        (
            {"starting": _FIRST_MS + 20_000_000, "ending": _FIRST_MS + 20_003_000},
            [20_001, 20_002, 20_000],
        ),
    ],
)
def test_only_what_is_wanted_is_fetched(directory: Path, options: dict[str, Any], numbers: list[int]) -> None:
    url = copied(directory)
    NotedFileSystem.asked.clear()
    found = scan(url, "orders", **options).read_all()
    assert [int(each.removesuffix(_VALUE)) for each in found.column("value").to_pylist()] == numbers
    partitions = len({each["partition"] for each in found.select(["partition"]).to_pylist()})
    assert fetched() < partitions * (1 << 20)
    assert len(NotedFileSystem.asked) < partitions * 20
    others = {f"orders-{number}" for number in range(_PARTITIONS)} - {
        f"orders-{number}" for number in options.get("partitions", range(_PARTITIONS))
    }
    assert not [path for path, _ in NotedFileSystem.asked if others & set(path.split("/"))]


def test_a_whole_topic_is_fetched_about_once(directory: Path) -> None:
    url = copied(directory)
    size = sum(path.stat().st_size for path in directory.glob("orders-*/*"))
    NotedFileSystem.asked.clear()
    assert scan(url, "orders").read_all().num_rows == _RECORDS
    assert size < fetched() < 1.5 * size
    lists = [path for path, nbytes in NotedFileSystem.asked if nbytes < 0]
    assert sorted(lists) == sorted(set(lists)), "a directory is listed once"


def test_aborted_records_are_left_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("one", "two"))
    write_aborted_and_others(logs.log)
    logs.crash()
    urls = [
        copied(logs.root / name, f"noted://shelf/{name}")
        for name in logs.dirs
        if any((logs.root / name).iterdir())
    ]
    assert numbers_scanned(urls, "read_committed") == [2]
    assert numbers_scanned(urls, "read_uncommitted") == [1, 2, 3]


def test_a_segment_that_is_replaced_by_a_shorter_one_is_an_error(directory: Path) -> None:
    url = copied(directory)
    reader = scan(url, "orders", partitions=[0])
    store, target = fsspec.core.url_to_fs(url)
    for path in store.glob(f"{target}/orders-0/*.log"):
        store.pipe_file(path, store.cat_file(path, start=0, end=1000))
    with pytest.raises(UserError, match=r"shorter|damaged") as caught:
        reader.read_all()
    assert "\n" not in str(caught.value)


def test_a_segment_that_goes_meanwhile_is_an_error(directory: Path) -> None:
    url = copied(directory)
    reader = scan(url, "orders", partitions=[0])
    store, target = fsspec.core.url_to_fs(url)
    store.rm(f"{target}/orders-0", recursive=True)
    with pytest.raises(UserError, match=r"noted://shelf/data/orders-0.*(cannot be read|gone)"):
        reader.read_all()


def test_what_is_not_there_is_named(directory: Path) -> None:
    url = copied(directory)
    with pytest.raises(UserError, match="There is no directory noted://shelf/other: name the data directory"):
        scan("noted://shelf/other", "orders")
    with pytest.raises(UserError, match="There is no topic order in noted://shelf/data; did you mean orders"):
        scan(url, "order")
    with pytest.raises(UserError, match="is not a directory"):
        scan(f"{url}/meta.properties", "orders")


def test_the_two_kinds_of_places_are_not_mixed(directory: Path) -> None:
    with pytest.raises(UserError, match="partly in a store and partly on this machine"):
        scan([str(directory), copied(directory)], "orders")
    with pytest.raises(UserError, match="on this machine: leave them out"):
        scan(directory, "orders", storage_options={"anon": True})


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (PermissionError("Access Denied"), "cannot be read: Access Denied; give credentials that may list"),
        (
            ValueError("Unable to locate\ncredentials for hunter22"),
            r"Unable to locate credentials for \[hidden\]; g",
        ),
        (RuntimeError(), "cannot be read: RuntimeError"),
    ],
)
def test_a_failure_of_the_store_is_one_line_without_secrets(
    directory: Path, failure: Exception, message: str
) -> None:
    url = copied(directory)
    NotedFileSystem.failure = failure
    with pytest.raises(UserError, match=message) as caught:
        scan(url, "orders", storage_options={"client": {"secret": "hunter22"}, "secret": "hunter22"})
    assert str(caught.value).startswith(url)
    assert "hunter22" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_in_a_url_is_refused_and_not_shown(directory: Path) -> None:
    with pytest.raises(
        UserError, match="has a password in it: leave it out; it is a storage option"
    ) as caught:
        scan("ftp://ann:hunter22@host/data", "orders")
    assert "hunter22" not in str(caught.value)


def test_a_store_that_nothing_knows_is_named() -> None:
    with pytest.raises(UserError, match="nowhere://bucket/data cannot be opened: Protocol not known"):
        scan("nowhere://bucket/data", "orders")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("unpacked", "no_such_package.FileSystem", clobber=True)
    with pytest.raises(UserError, match=r"unpacked://data: a package is missing: .*no_such_package"):
        scan("unpacked://data", "orders")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UserError, match="fsspec is not installed: pip install"):
        scan("noted://shelf/data", "orders")


def test_options_reach_the_store(directory: Path) -> None:
    url = copied(directory)
    with pytest.raises(UserError, match=r"cannot be opened: .*unexpected.*colour"):
        _ = scan(url, "orders", storage_options={"colour": 1})
    table = scan(url, "orders", partitions=[0], storage_options={"shelf": "a"}).read_all()
    assert isinstance(table, pa.Table)
