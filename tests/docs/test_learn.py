"""The page to learn from: what it shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = (_ROOT / "docs" / "learn.md").read_text()
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(_ROOT),
    "KAFKAPY_CONTEXT": "",
}


def printed(command: list[str], folder: Path) -> str:
    """What a command prints, which must succeed.

    librdkafka's log is not on the page.
    """
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**_ENVIRONMENT, "XDG_CONFIG_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_session_prints_what_the_page_shows(tmp_path: Path) -> None:
    start, session, _ = _CONSOLE.findall(_PAGE)
    lines = session.splitlines()
    script = "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    shell = start.removeprefix("$ ").split()
    assert shell[-2:] == ["--", "bash"]
    shown = [line for line in lines if not line.startswith("$ ")]
    assert printed([*shell, "-c", f"exec 2>&1\n{script}"], tmp_path).splitlines() == shown


def test_the_program_prints_what_the_page_shows(tmp_path: Path) -> None:
    *_, shown = _CONSOLE.findall(_PAGE)
    command, output = shown.removeprefix("$ ").split("\n", 1)
    (tmp_path / "program.py").write_text(dict(_FILE.findall(_PAGE))["program.py"])
    assert printed(command.split(), tmp_path) == output


def test_the_test_passes(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(dict(_FILE.findall(_PAGE))["test_shop.py"])
    assert "1 passed" in printed(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"], tmp_path
    )
