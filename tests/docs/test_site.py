"""The site of the documents is built without a warning, and a broken link is an error."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def built(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(root / "scripts" / "site")], capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of which only the documents are there."""
    for folder, pattern in (("docs", "*"), ("scripts", "*"), (".", "*.md"), (".", "zensical.toml")):
        (tmp_path / folder).mkdir(exist_ok=True)
        for path in (_ROOT / folder).glob(pattern):
            if path.is_file():
                shutil.copy(path, tmp_path / folder)
    for linked in (
        "examples",
        "interop",
        "kafkapy",
        "protocol",
        "storage",
        "scripts",
        "tests",
        "docs/results",
        "LICENSE",
    ):
        if not (tmp_path / linked).exists():
            (tmp_path / linked).symlink_to(_ROOT / linked)
    return tmp_path


def test_the_site_is_built(checkout: Path) -> None:
    ended = built(checkout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    page = (checkout / ".cache" / "site" / "site" / "learn" / "index.html").read_text()
    assert "Learn kafkapy in five minutes" in page
    assert 'href="../testing/' in page


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[gone](gone.md)", "docs/learn.md: there is no gone.md"),
        ("[gone](testing.md#gone)", "anchor does not exist"),
    ],
)
def test_a_broken_link_is_an_error(checkout: Path, line: str, message: str) -> None:
    with (checkout / "docs" / "learn.md").open("a") as page:
        page.write(f"\n{line}\n")
    ended = built(checkout)
    assert ended.returncode != 0
    assert message in ended.stdout + ended.stderr


def test_a_page_without_a_place_in_the_navigation_is_an_error(checkout: Path) -> None:
    (checkout / "docs" / "lost.md").write_text("# Lost\n")
    ended = built(checkout)
    assert ended.returncode == 1
    assert "nav and docs/ differ in lost.md" in ended.stderr
