"""A server of S3 that is not ours: moto's, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.fs

from interop.support.waiting import wait_until
from tests.servers.server_process import ServerProcess

KEYS = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class S3Server(ServerProcess):
    """A server with one bucket, `lake`."""

    name = "moto"

    def __init__(self, folder: Path, port: int) -> None:
        self.log_path = folder / "moto.out"
        self.url = f"http://127.0.0.1:{port}"
        self._port = port

    def start(self, timeout: float = 60.0) -> S3Server:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env=os.environ | KEYS,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: "Running on" in self.log_path.read_text() or not self.running, timeout=timeout)
        assert self.running, self.output()
        self.files.create_dir("lake")
        return self

    @property
    def files(self) -> pyarrow.fs.S3FileSystem:
        """Its files by pyarrow's own client."""
        return pyarrow.fs.S3FileSystem(
            access_key=KEYS["AWS_ACCESS_KEY_ID"],
            secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region=KEYS["AWS_REGION"],
            endpoint_override=self.url,
            allow_bucket_creation=True,
        )

    @property
    def spark_options(self) -> dict[str, str]:
        """Spark's own settings for it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": KEYS["AWS_REGION"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEYS["AWS_ACCESS_KEY_ID"],
            "spark.hadoop.fs.s3a.secret.key": KEYS["AWS_SECRET_ACCESS_KEY"],
        }

    @property
    def fsspec_options(self) -> dict[str, Any]:
        return {
            "key": KEYS["AWS_ACCESS_KEY_ID"],
            "secret": KEYS["AWS_SECRET_ACCESS_KEY"],
            "endpoint_url": self.url,
        }

    def copy(self, directory: Path, name: str) -> str:
        """Copy a folder into the bucket; return its URL."""
        pyarrow.fs.copy_files(str(directory), f"lake/{name}", destination_filesystem=self.files)
        return f"s3://lake/{name}"

    @property
    def deltalake_options(self) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL": self.url, "AWS_ALLOW_HTTP": "true"}

    @property
    def pyiceberg_options(self) -> dict[str, Any]:
        return {
            "s3.endpoint": self.url,
            "s3.access-key-id": KEYS["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": KEYS["AWS_SECRET_ACCESS_KEY"],
            "s3.region": KEYS["AWS_REGION"],
        }
