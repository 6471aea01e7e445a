"""Workers import the pyspark that is installed, and not the archive in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kafkapy.spark.installation import Spark
from kafkapy.spark.unpacked_home import from_unpacked_home, unpacked_home
from tests.spark.installations import make_spark


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    package = tmp_path / "site" / "pyspark"
    for folder in ("bin", "python/lib"):
        (package / folder).mkdir(parents=True)
    (package / "bin" / "spark-submit").touch()
    (package / "python" / "lib" / "pyspark.zip").touch()
    return make_spark(package)


def test_it_has_all_but_the_archive(spark: Spark) -> None:
    home = unpacked_home(spark)
    assert home is not None
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "jars" / "spark-core_2.13-4.0.0.jar").exists()
    assert not (home / "python").exists()
    assert unpacked_home(spark) == home
    assert [each.name for each in home.parent.iterdir()] == [home.name]


def test_configuration_that_is_written_later_counts(spark: Spark) -> None:
    home = unpacked_home(spark)
    assert home is not None
    (spark.home / "conf").mkdir()
    (spark.home / "conf" / "spark-defaults.conf").touch()
    assert (home / "conf" / "spark-defaults.conf").exists()


def test_links_to_what_is_gone_are_made_again(spark: Spark) -> None:
    home = unpacked_home(spark)
    assert home is not None
    (home / "bin").unlink()
    (home / "bin").symlink_to("gone")
    assert unpacked_home(spark) == home
    assert (home / "bin" / "spark-submit").exists()


def test_a_jvm_has_it_while_it_starts(spark: Spark) -> None:
    with from_unpacked_home(spark, sys.executable):
        assert os.environ["SPARK_HOME"] == str(unpacked_home(spark))
    assert "SPARK_HOME" not in os.environ


def test_another_python_keeps_the_archive(spark: Spark) -> None:
    with from_unpacked_home(spark, "/usr/bin/python3"):
        assert "SPARK_HOME" not in os.environ


def test_a_pyspark_that_a_new_python_would_not_find_keeps_the_archive(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    with from_unpacked_home(spark, sys.executable):
        assert "SPARK_HOME" not in os.environ


def test_a_home_that_is_named_stays(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with from_unpacked_home(spark, sys.executable):
        assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_a_cache_that_cannot_be_written_keeps_the_archive(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with from_unpacked_home(spark, sys.executable):
        assert "SPARK_HOME" not in os.environ
