"""A Prometheus that scrapes one broker."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from interop.support.waiting import wait_until
from tests.ports import free_ports

_CONFIG = """
global:
  scrape_interval: 500ms
  evaluation_interval: 1s
scrape_configs:
  - job_name: kafka
    static_configs:
      - targets: ["{target}"]
rule_files: [{rules}]
"""


class PrometheusProcess:
    """Prometheus in `folder`, which scrapes `target` and evaluates `rules`."""

    def __init__(self, folder: Path, target: str, rules: Path) -> None:
        self._folder, self._target, self._rules = folder, target, rules
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        config = self._folder / "prometheus.yml"
        config.write_text(_CONFIG.format(target=self._target, rules=json.dumps(str(self._rules))))
        with (self._folder / "prometheus.out").open("wb") as output:
            self._process = subprocess.Popen(
                (
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self._folder / 'tsdb'}",
                    f"--web.listen-address={self._address}",
                ),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: self.query("up == 1"), ignoring=OSError)  # it scrapes the broker
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the HTTP API."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
