"""What keeps Spark from running here: named, with its remedy, before Spark starts."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy.spark import Check, SparkSetupError, check_setup, doctor
from kafkapy.spark.cli import spark as command
from tests.spark.installations import AVRO, CONNECTOR, DELTA, make_jars, make_java, make_spark

NO_JAVA = "install a Java runtime of version 17 or 21, or let JAVA_HOME name one"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has Java 17, pyspark 4.0.0 and all libraries, and no jars of ours."""
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "KAFKAPY_SPARK_JARS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java17")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    install_pyspark(tmp_path / "site", "4.0.0", monkeypatch)


def install_pyspark(site: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = site / "pyspark"
    make_spark(package, version=version)
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f"__version__: str = '{version}'\n")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(site))
    return package


def failed(name: str, lake: str | None = None) -> tuple[str, str]:
    """What is wrong and its remedy, which `check_setup` tells too."""
    (check,) = [check for check in doctor(lake) if check.name == name]
    assert not check.ok
    with pytest.raises(SparkSetupError) as raised:
        check_setup(lake)
    assert str(raised.value) == f"{check.detail}: {check.remedy}"
    return check.detail, check.remedy


def detail(name: str, lake: str | None = None) -> str:
    (check,) = [check for check in doctor(lake) if check.name == name]
    assert check.ok
    return check.detail


def test_a_machine_that_has_everything_is_told_so() -> None:
    looked_at = doctor(["delta", "iceberg"])
    assert [check for check in looked_at if not check.ok] == []
    assert [check.name for check in looked_at] == [
        "Java",
        "pyspark",
        "workers' Python",
        "Python libraries",
        "Kafka connector",
        "delta",
        "iceberg",
        "memory",
    ]
    check_setup(["delta", "iceberg"])


def test_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    assert failed("Java") == ("Java is missing", NO_JAVA)


def test_java_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{make_java(tmp_path / 'java', '21.0.1') / 'bin'}:{os.environ['PATH']}")
    assert detail("Java") == f"21 ({tmp_path}/java/bin/java)"


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11), ("24", 24)])
def test_java_is_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    home = make_java(tmp_path / "java", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert failed("Java") == (f"{home}/bin/java is Java {major}", NO_JAVA)


def test_java_home_names_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert failed("Java") == (f"JAVA_HOME={tmp_path} has no bin/java", "correct it or unset it")


def test_java_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "java")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 3\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    problem, remedy = failed("Java")
    assert problem.startswith(f"{home}/bin/java does not run (")
    assert remedy == NO_JAVA


def test_pyspark_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert failed("pyspark") == ("pyspark is not installed", "pip install 'pyspark==4.0.0'")


@pytest.mark.parametrize("version", ["3.5.1", "4.1.0.dev1", "5.0.0"])
def test_pyspark_is_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    install_pyspark(tmp_path / "other", version, monkeypatch)
    assert failed("pyspark") == (f"pyspark {version} will not do", "pip install 'pyspark==4.0.0'")


def test_spark_home_is_of_another_version_than_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_spark(tmp_path / "spark", version="4.1.2")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert failed("pyspark") == (
        f"SPARK_HOME={tmp_path}/spark is Spark 4.1.2 and pyspark is 4.0.0",
        "unset SPARK_HOME, or pip install 'pyspark==4.1.2'",
    )


def test_spark_home_is_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert failed("pyspark") == (
        f"SPARK_HOME={tmp_path} is not a Spark installation",
        "correct it or unset it",
    )


def test_workers_would_run_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.9\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert failed("workers' Python") == (
        f"PYSPARK_PYTHON={other} is Python 3.9 and this is {own}",
        f"unset it, or name a Python {own}",
    )


def test_workers_would_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    assert failed("workers' Python") == (
        "PYSPARK_PYTHON=/nowhere/python does not run",
        "correct it or unset it",
    )


def test_libraries_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert failed("Python libraries") == (
        "pyarrow and confluent-kafka not installed",
        "pip install '.[spark]' in a checkout",
    )


def test_a_folder_of_jars_lacks_what_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_jars(tmp_path / "jars", [CONNECTOR, AVRO])
    monkeypatch.setenv("KAFKAPY_SPARK_JARS", str(folder))
    assert detail("Kafka connector").endswith(f" from {folder}")
    assert failed("delta", "delta") == (
        f"{folder} holds no delta-spark_4.0_2.13",
        f"`kafkapy spark jars --to {folder} --lake delta`",
    )
    make_jars(folder, [DELTA])
    assert detail("delta", "delta").endswith(f" from {folder}")


def test_a_folder_of_jars_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAPY_SPARK_JARS", str(tmp_path / "jars"))
    assert failed("Kafka connector") == (
        f"the folder of jars {tmp_path}/jars is not there",
        f"`kafkapy spark jars --to {tmp_path}/jars`",
    )


def test_a_lake_format_has_no_jars_for_this_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = install_pyspark(tmp_path / "other", "4.2.0", monkeypatch)
    assert failed("iceberg", "iceberg") == (
        "no jar of Iceberg is known for Spark 4.2",
        f"pip install 'pyspark==4.0.0', or put such a jar into {package}/jars",
    )


@pytest.mark.parametrize(("version", "told"), [("4.2.0", "iceberg"), ("4.9.0", "delta and iceberg")])
def test_a_pyspark_that_is_too_new_for_lake_formats_is_told_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, told: str
) -> None:
    package = install_pyspark(tmp_path / "other", version, monkeypatch)
    assert detail("pyspark") == f"{version} ({package}), too new for {told}"


def test_an_unknown_lake_format_is_refused() -> None:
    with pytest.raises(SparkSetupError, match="'hudi' is not a supported lake format: use delta or iceberg"):
        check_setup("hudi")


def test_the_command_prints_each_remedy_and_its_exit_status_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    good = CliRunner().invoke(command, ["doctor", "--lake", "delta"], standalone_mode=False)
    assert good.return_value == 0
    assert "BAD" not in good.output
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    bad = CliRunner().invoke(command, ["doctor"], standalone_mode=False)
    assert bad.return_value == 1
    lines = bad.output.splitlines()
    assert lines[0].split() == ["BAD", "Java", "JAVA_HOME=/nowhere", "has", "no", "bin/java"]
    assert lines[1].strip() == "remedy: correct it or unset it"


def test_jars_that_the_first_session_fetches_are_marked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KAFKAPY_SPARK_JARS", raising=False)
    run = CliRunner().invoke(command, ["doctor", "--lake", "delta"], standalone_mode=False)
    assert run.return_value == 0
    lines = run.output.splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[1] == "delta")
    assert lines[at].startswith("GET  delta")
    assert "not here: io.delta:" in lines[at]
    assert lines[at + 1].endswith("without a network: kafkapy spark jars --to DIR --lake delta")


def test_the_command_tells_that_a_broker_does_not_answer() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        run = CliRunner().invoke(command, ["doctor", "--bootstrap", address], standalone_mode=False)
    assert run.return_value == 1
    assert f"cannot reach a Kafka broker at {address}" in run.output.splitlines()[-1]


def test_a_check_is_what_the_command_shows() -> None:
    assert doctor()[0] == Check("Java", True, f"17 ({os.environ['JAVA_HOME']}/bin/java, from JAVA_HOME)")


def test_the_connector_of_a_store_is_looked_for_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (check,) = [check for check in doctor(stores=["s3a"]) if check.name == "s3a"]
    assert check.ok
    assert check.detail == "not here: org.apache.hadoop:hadoop-aws:3.4.1"
    assert check.remedy.endswith("kafkapy spark jars --to DIR --store s3a")
    folder = make_jars(tmp_path / "jars", [CONNECTOR, AVRO])
    monkeypatch.setenv("KAFKAPY_SPARK_JARS", str(folder))
    with pytest.raises(SparkSetupError, match="holds no hadoop-aws"):
        check_setup(store="s3a")
    check_setup(store="hdfs")
