"""What lies where a table is to be, seen without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores import open_store
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.tables import check_location

FORMATS = ("delta", "iceberg", "parquet")
PLACES = {"delta": ["_delta_log"], "iceberg": ["metadata", "data"], "parquet": ["batch=00000000"]}


def check(kind: str, location: str) -> None:
    check_location(TableTarget(format=kind, location=location), open_store(location))


def make(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("names", [[], ["_kafkapy"], [".hidden", "_kafkapy"]])
def test_a_new_or_empty_folder_is_taken(tmp_path: Path, kind: str, names: list[str]) -> None:
    folder = make(tmp_path / "orders", names)
    check(kind, str(folder))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_of_the_format_is_taken(tmp_path: Path, kind: str) -> None:
    make(tmp_path, [*PLACES[kind], "_kafkapy"])
    check(kind, tmp_path.as_uri())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_of_another_format_is_refused_by_its_name(tmp_path: Path, kind: str) -> None:
    for other in set(FORMATS) - {kind}:
        folder = make(tmp_path / other, PLACES[other])
        with pytest.raises(PipelineError, match=f"there is a table of the format {other} already"):
            check(kind, str(folder))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_of_other_things_is_refused(tmp_path: Path, kind: str) -> None:
    make(tmp_path, ["batch=00000000", "holiday", "letters"])
    with pytest.raises(PipelineError) as refused:
        check(kind, str(tmp_path))
    assert "the folder is not empty" in str(refused.value)
    assert "letters" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "orders").write_text("")
    with pytest.raises(PipelineError, match="is a file; name a folder"):
        check(kind, str(tmp_path / "orders"))
