"""The jars of a session: installed, in a folder, or fetched once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kafkapy.spark.cli import notes
from kafkapy.spark.installation import Spark
from kafkapy.spark.jars import fetch_to, find_jars
from kafkapy.spark.setup_error import SparkSetupError
from tests.spark.installations import AVRO, CONNECTOR, DELTA, make_jars, make_java, make_spark

# As Ivy does it: the jar that the module depends on and one that it needs in the cache, and their list.
FETCHES = """
name=$(sed -n 's/.* name="\\([^"]*\\)" rev="\\([^"]*\\)".*/\\1-\\2/p' "$module")
mkdir -p "$cache"
echo "$name" >> "$cache/fetched"
cp "$module" "$cache/$name.xml"
for jar in "$name" needed-1.0; do echo jar > "$cache/$jar.jar"; done
printf %s "$cache/$name.jar:$cache/needed-1.0.jar" > "$classpath"
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", ivy=FETCHES)))


@pytest.fixture
def bare(tmp_path: Path) -> Spark:
    return make_spark(tmp_path / "spark")


def names(jars: list[Path]) -> list[str]:
    return [jar.name for jar in jars]


def test_what_is_installed_is_not_asked_for(tmp_path: Path) -> None:
    spark = make_spark(tmp_path / "spark", CONNECTOR, AVRO, "delta-spark_2.13-4.0.0.jar")
    assert find_jars(spark, ["delta"], None, tmp_path / "cache") == []


def test_an_installed_connector_of_another_version_is_named(tmp_path: Path) -> None:
    spark = make_spark(tmp_path / "spark", "spark-sql-kafka-0-10_2.13-3.5.1.jar")
    with pytest.raises(SparkSetupError, match=r"3\.5\.1\.jar is not of Spark's version 4\.0\.0: remove it"):
        find_jars(spark, [], None, tmp_path / "cache")


def test_a_folder_gives_all_its_jars_and_nothing_is_fetched(bare: Spark, tmp_path: Path) -> None:
    folder = make_jars(tmp_path / "jars", [CONNECTOR, AVRO, "kafka-clients-3.9.0.jar"])
    assert names(find_jars(bare, [], folder, tmp_path / "cache")) == [
        "kafka-clients-3.9.0.jar",
        AVRO,
        CONNECTOR,
    ]


def test_a_folder_that_lacks_a_lake_format_is_named_with_the_command_that_fills_it(
    bare: Spark, tmp_path: Path
) -> None:
    folder = make_jars(tmp_path / "jars", [CONNECTOR, AVRO])
    with pytest.raises(SparkSetupError) as raised:
        find_jars(bare, ["delta"], folder, tmp_path / "cache")
    assert str(raised.value) == (
        f"{folder} holds no delta-spark_4.0_2.13: `kafkapy spark jars --to {folder} --lake delta`"
    )


@pytest.mark.usefixtures("java")
def test_jars_are_fetched_once(bare: Spark, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = find_jars(bare, ["delta"], None, cache)
    assert names(first) == [CONNECTOR, "needed-1.0.jar", AVRO, DELTA]
    assert find_jars(bare, ["delta"], None, cache) == first
    assert len((cache / "cache" / "fetched").read_text().splitlines()) == 3


@pytest.mark.usefixtures("java")
def test_a_jar_that_is_gone_from_the_cache_is_fetched_again(bare: Spark, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    lost = find_jars(bare, [], None, cache)[0]
    lost.unlink()
    assert lost in find_jars(bare, [], None, cache)
    assert lost.exists()


@pytest.mark.usefixtures("java")
def test_what_spark_ships_is_left_out(bare: Spark, tmp_path: Path) -> None:
    find_jars(bare, [], None, tmp_path / "cache")
    module = (tmp_path / "cache" / "cache" / CONNECTOR).with_suffix(".xml").read_text()
    assert '<exclude module="hadoop-client-api"/>' in module


@pytest.mark.usefixtures("java")
def test_two_that_fetch_at_once_fetch_once(bare: Spark, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    threads = [threading.Thread(target=find_jars, args=(bare, [], None, cache)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((cache / "cache" / "fetched").read_text().splitlines()) == 2


@pytest.mark.usefixtures("java")
def test_a_folder_is_filled_and_then_serves(bare: Spark, tmp_path: Path) -> None:
    folder = tmp_path / "usb" / "jars"
    fetch_to(folder, bare, [], tmp_path / "cache")
    fetch_to(folder, bare, ["delta"], tmp_path / "cache")
    assert sorted(path.name for path in folder.iterdir()) == [DELTA, "needed-1.0.jar", AVRO, CONNECTOR]
    assert len(find_jars(bare, ["delta"], folder, tmp_path / "none")) == 4


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("UNRESOLVED: java.net.UnknownHostException: repo", "Maven Central does not answer: where there is"),
        (":: module not found: x", r"is not in Maven Central: pip install 'pyspark==4.0.0'"),
        ("java.lang.OutOfMemoryError", r"cannot be fetched \(java.lang.OutOfMemoryError\): where there is"),
    ],
)
def test_a_failed_fetch_is_one_line_and_leaves_nothing(
    bare: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, message: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", ivy=f"echo '{told}'; exit 1")))
    with pytest.raises(SparkSetupError, match=message) as raised:
        find_jars(bare, [], None, tmp_path / "cache")
    assert "\n" not in str(raised.value)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_is_named(bare: Spark, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SparkSetupError, match="XDG_CACHE_HOME"):
        find_jars(bare, [], None, tmp_path / "file" / "cache")


@pytest.mark.parametrize(("lake", "minor"), [("delta", "4.9"), ("iceberg", "4.2")])
def test_a_lake_format_without_jars_for_this_spark_says_which_pyspark_has_them(
    tmp_path: Path, lake: str, minor: str
) -> None:
    with pytest.raises(
        SparkSetupError, match=r"no jar of \w+ is known for Spark 4\.\d: pip install 'pyspark==4"
    ):
        Spark(f"{minor}.0", tmp_path).packages([lake])


@pytest.mark.usefixtures("java")
def test_what_is_fetched_is_told_once(
    bare: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with notes("kafkapy.spark"):
            find_jars(bare, [], None, tmp_path / "cache")
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[:2] for line in told] == [["Fetching", str(p)] for p in bare.packages([])]
    find_jars(bare, [], None, tmp_path / "another")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("java")
def test_the_connector_of_a_store_has_the_version_of_sparks_hadoop(bare: Spark, tmp_path: Path) -> None:
    found = names(find_jars(bare, [], None, tmp_path / "cache", stores=["s3a"]))
    assert "hadoop-aws-3.4.1.jar" in found
    folder = tmp_path / "jars"
    fetch_to(folder, bare, [], tmp_path / "cache")
    with pytest.raises(SparkSetupError, match=r"holds no hadoop-aws: `kafkapy .* --store s3a`"):
        find_jars(bare, [], folder, tmp_path / "none", stores=["s3a"])
    fetch_to(folder, bare, [], tmp_path / "cache", ["s3a"])
    assert folder / "hadoop-aws-3.4.1.jar" in find_jars(bare, [], folder, tmp_path / "none", stores=["s3a"])


@pytest.mark.usefixtures("java")
def test_the_connector_of_googles_store_is_the_jar_with_all_that_it_needs(
    bare: Spark, tmp_path: Path
) -> None:
    folder = tmp_path / "jars"
    fetch_to(folder, bare, [], tmp_path / "cache")
    with pytest.raises(SparkSetupError, match=r"holds no gcs-connector: `kafkapy .* --store gs`"):
        find_jars(bare, [], folder, tmp_path / "none", stores=["gs"])
    fetch_to(folder, bare, [], tmp_path / "cache", ["gs"])
    assert "gcs-connector-4.0.4.jar" in names(find_jars(bare, [], folder, tmp_path / "none", stores=["gs"]))
    module = (tmp_path / "cache" / "cache" / "gcs-connector-4.0.4.xml").read_text()
    assert 'transitive="false"><artifact name="gcs-connector" type="jar" m:classifier="shaded"/>' in module


def test_an_installed_connector_of_another_hadoop_is_named(tmp_path: Path) -> None:
    spark = make_spark(tmp_path / "spark", CONNECTOR, AVRO, "hadoop-aws-3.3.6.jar")
    assert find_jars(spark, [], None, tmp_path / "cache") == []
    with pytest.raises(SparkSetupError, match=r"hadoop-aws-3\.3\.6\.jar is not of its Hadoop's version"):
        find_jars(spark, [], None, tmp_path / "cache", stores=["s3a"])
    (tmp_path / "spark/jars/hadoop-client-api-3.4.1.jar").unlink()
    with pytest.raises(SparkSetupError, match=r"jars has no Hadoop: install a Spark with Hadoop"):
        find_jars(spark, [], None, tmp_path / "cache", stores=["s3a"])
