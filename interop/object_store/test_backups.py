"""Backups in S3 are whole, however their commands end."""

from __future__ import annotations

import operator
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import kafkapy
from interop.support.s3_server import KEYS, S3Server
from interop.support.waiting import wait_until
from tests.ports import free_ports

pytest.importorskip("moto", reason="moto is not installed (pip install 'moto[server]')")
s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed (pip install s3fs)")

KILLS: Final = int(os.environ.get("KAFKAPY_STORE_KILLS", "2"))
SEED: Final = int(os.environ.get("KAFKAPY_SEED", random.SystemRandom().randrange(10**6)))
SECONDS: Final = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    (port,) = free_ports(1)
    with S3Server(tmp_path_factory.mktemp("s3"), port) as started:
        yield started


class Bucket:
    """A place for backups, and the commands that use it."""

    def __init__(self, server: S3Server, name: str) -> None:
        self.url = f"s3://lake/{name}"
        self._path = f"lake/{name}"
        self._environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": server.url}
        self._files = s3fs.S3FileSystem(
            key=KEYS["AWS_ACCESS_KEY_ID"],
            secret=KEYS["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=server.url,
            use_listings_cache=False,
        )

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kafkapy", *map(str, arguments)]
        return subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def done(self, *arguments: object) -> str:
        with self.start(*arguments) as command:
            output, errors = command.communicate(timeout=SECONDS)
        assert command.returncode == 0, errors
        return output

    def objects(self, folder: str) -> set[str]:
        return {path.rpartition("/")[2] for path in self._files.find(f"{self._path}/{folder}")}

    def killed(self, *arguments: object, when: Callable[[int], bool]) -> bool:
        """Kill a command at a number of files in the store; whether it had not ended before."""
        with self.start(*arguments) as command:
            wait_until(
                lambda: command.poll() is not None or when(len(self.objects("files"))), timeout=SECONDS
            )
            command.kill()
            command.communicate()
        return command.returncode < 0


@pytest.fixture
def bucket(server: S3Server, request: pytest.FixtureRequest) -> Bucket:
    return Bucket(server, request.node.name)


def grow(data: Path, number: int) -> None:
    """Have a broker write a record to each of twenty partitions."""
    with kafkapy.Broker(data_dir=data) as broker:
        if number == 0:
            broker.create_topics({"orders": 20})
        for partition in range(20):
            broker.produce("orders", partition=partition, value=f"{number}")


def require_whole(bucket: Bucket, folder: Path, numbers: int, *at: str) -> None:
    """Fail unless the backup has the records of so many rounds."""
    bucket.done("restore", bucket.url, folder, *at)
    with kafkapy.Broker(snapshot=folder) as broker:
        values = [(record.partition, record.value) for record in broker.records("orders")]
    assert values == [(p, b"%d" % n) for p in range(20) for n in range(numbers)]


def test_backups_that_are_killed_are_not_named_and_the_next_is_whole(tmp_path: Path, bucket: Bucket) -> None:
    print(f"KAFKAPY_SEED={SEED}")
    chance = random.Random(SEED)
    killed = 0
    for number in range(KILLS):
        grow(tmp_path / "data", number)
        named, had = bucket.objects("backups"), len(bucket.objects("files"))
        enough = had + chance.randrange(1, 15)
        arguments = "backup", "--data", tmp_path / "data", bucket.url
        was_killed = bucket.killed(*arguments, when=partial(operator.le, enough))
        killed += was_killed
        if was_killed:
            assert bucket.objects("backups") == named
        if named:
            require_whole(bucket, tmp_path / f"before-{number}", number)
        bucket.done("backup", "--data", tmp_path / "data", bucket.url)
        assert len(bucket.objects("backups")) == len(named) + 1 + (not was_killed)
        require_whole(bucket, tmp_path / f"after-{number}", number + 1)
    assert killed
    assert bucket.objects("turns") == set()


def test_backups_that_stay_are_whole_when_a_prune_is_killed(tmp_path: Path, bucket: Bucket) -> None:
    print(f"KAFKAPY_SEED={SEED}")
    chance = random.Random(SEED)
    for number in range(KILLS + 1):
        grow(tmp_path / "data", number)
        bucket.done("backup", "--data", tmp_path / "data", bucket.url)
    last = max(bucket.objects("backups")).removesuffix(".json")
    for keep in range(KILLS, 0, -1):
        few = len(bucket.objects("files")) - chance.randrange(1, 15)
        arguments = "prune", bucket.url, "--keep", keep
        bucket.killed(*arguments, when=partial(operator.ge, few))
        assert last in {each.removesuffix(".json") for each in bucket.objects("backups")}
        require_whole(bucket, tmp_path / f"kept-{keep}", KILLS + 1)
    bucket.done("prune", bucket.url, "--keep", 1)
    assert {each.removesuffix(".json") for each in bucket.objects("backups")} == {last}
    assert bucket.done("prune", bucket.url, "--keep", 1).startswith("0 files of 0.0 MB have gone")
    require_whole(bucket, tmp_path / "last", KILLS + 1)


def test_of_backups_at_once_each_is_whole_or_refused(tmp_path: Path, bucket: Bucket) -> None:
    commands = []
    for number in range(2):
        data = tmp_path / f"data-{number}"
        if number == 0:
            grow(data, 0)
        else:
            subprocess.run(["cp", "-r", tmp_path / "data-0", data], check=True)
        commands.append(bucket.start("backup", "--data", data, bucket.url))
    ended = [(*each.communicate(timeout=SECONDS), each.returncode) for each in commands]
    assert all(code == 0 or "is at work there" in errors for _, errors, code in ended), ended
    bucket.done("backup", "--data", tmp_path / "data-0", bucket.url)
    names = sorted(each.removesuffix(".json") for each in bucket.objects("backups"))
    assert len(names) == 1 + sum(code == 0 for *_, code in ended)
    for number, name in enumerate(names):
        require_whole(bucket, tmp_path / f"again-{number}", 1, "--at", name)
