"""The archive for executors has what is installed here.

A cluster runs with one in interop/spark/test_cluster.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.errors import UserError
from kafkapy.spark.pack import pack, packed_files, settings

pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install '.[spark]')")


def test_it_has_kafkapy_and_its_dependencies_without_pyspark() -> None:
    files = packed_files()
    for module in ("log/range_reader.py", "protocol/records.py", "storage/log/log_config.py"):
        assert f"kafkapy/{module}" in files
    assert {"pyarrow", "numpy", "re2", "zstandard", "confluent_kafka", "google"} <= {
        name.partition("/")[0] for name in files
    }
    assert not [name for name in files if name.startswith(("pyspark", "py4j", "__editable__", "tests", ".."))]
    assert not [name for name in files if name.endswith(".pyc")]


def test_spark_is_told_of_the_archive_and_its_folder(tmp_path: Path) -> None:
    assert settings(tmp_path / "packed.tar.gz") == {
        "spark.archives": f"{tmp_path}/packed.tar.gz#kafkapy-packages",
        "spark.executorEnv.PYTHONPATH": "./kafkapy-packages",
    }


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/packed\.tar\.gz cannot be written \(.*\); name another file"):
        pack(tmp_path / "file" / "packed.tar.gz")
