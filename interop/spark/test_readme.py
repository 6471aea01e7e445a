"""The pipeline that the README shows writes a topic to a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kafkapy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
README = Path(__file__).resolve().parents[2] / "README.md"


def test_its_lines_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [each for each in blocks if "kafkapy.pipeline" in each]
    with kafkapy.Broker() as broker:
        for number in range(3):
            broker.produce("orders", key=f"{number}", value=f'{{"id": {number}, "item": "apple"}}')
        monkeypatch.setenv("KAFKAPY_BOOTSTRAP", broker.bootstrap_servers)
        monkeypatch.chdir(tmp_path)
        exec(compile(block, "README.md", "exec"), {})
    rows = spark.read.format("delta").load(str(tmp_path / "lake" / "orders")).collect()
    assert sorted((row["id"], row["item"]) for row in rows) == [(0, "apple"), (1, "apple"), (2, "apple")]
