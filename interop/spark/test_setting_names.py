"""The settings of YARN and Kubernetes that the documents name are ones that Spark reads."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from kafkapy.spark.installation import find_spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"


@pytest.mark.parametrize("cluster", ["yarn", "kubernetes"])
def test_spark_has_each_setting_of_a_cluster(cluster: str) -> None:
    named = set(re.findall(rf"spark\.{cluster}\.[\w.]+\w", PAGE.read_text()))
    assert named
    (jar,) = [jar for jar in find_spark().jars() if jar.name.startswith(f"spark-{cluster}_")]
    with zipfile.ZipFile(jar) as archive:
        code = b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".class"))
    # That of a variable of the environment ends with the variable's name.
    absent = {name for name in named if re.sub(r"(?<=Env)\.\w+$", "", name).encode() not in code}
    assert absent == set()
