"""The page about running a broker: systemd accepts its unit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "running.md").read_text()
_UNIT = re.compile(r"^```\n(\[Unit\]\n.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    (unit,) = _UNIT.findall(_PAGE)
    path = tmp_path / "kafkapy.service"
    # It wants the program to exist.
    path.write_text(unit.replace("/opt/kafkapy/bin/kafkapy", sys.executable))
    ended = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
