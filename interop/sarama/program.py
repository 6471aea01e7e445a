"""Builds sarama's own functional tests, from the module that Go's proxy has of it.

They expect five brokers after a proxy that breaks connections. A copy of the module is changed, so that the
tests use one broker, without the proxy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

from interop.support.locked import locked
from interop.support.maven import CACHE

RELEASE: Final = "v1.61.1"

_MODULE: Final = f"github.com/IBM/sarama@{RELEASE}"
_SUM: Final = "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg="
_CHANGES: Final = {
    # The address is that of the broker itself.
    """\
	if err := setupToxiProxies(env, toxiproxyURL.String()); err != nil {
		return false, fmt.Errorf("failed to setup toxiproxies: %w", err)
	}
""": "\tenv.KafkaBrokerAddrs = []string{toxiproxyURL.Host}\n",
    # There is no proxy whose state could be reset.
    """\
	if err := FunctionalTestEnv.ToxiproxyClient.ResetState(); err != nil {
""": """\
	if FunctionalTestEnv.ToxiproxyClient == nil {
		return
	}
	if err := FunctionalTestEnv.ToxiproxyClient.ResetState(); err != nil {
""",
    # The broker's default, as there are no three brokers.
    "ReplicationFactor: 3,": "ReplicationFactor: -1,",
}
"""In functional_test.go, which all tests share."""


def built_tests() -> Path:
    """The path of a program with sarama's functional tests.

    Skips the test if it is not to be had.
    """
    program = CACHE / "sarama" / RELEASE / "functional.test"
    with locked(program):
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    if not shutil.which("go"):
        pytest.skip("sarama's own tests were not run: go is not on the PATH (Go 1.26 is needed)")
    with tempfile.TemporaryDirectory(dir=program.parent) as name:
        source = Path(name, "sarama")
        shutil.copytree(_fetched(Path(name)), source, copy_function=shutil.copyfile)
        for folder in (source, *(path for path in source.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        _change(source / "functional_test.go")
        made = _go(source, "test", "-tags", "functional", "-c", "-o", str(source / program.name), ".")
        assert made.returncode == 0, made.stderr
        (source / program.name).rename(program)


def _fetched(folder: Path) -> Path:
    fetched = _go(folder, "mod", "download", "-json", _MODULE)
    if fetched.returncode:
        last = (fetched.stderr.splitlines() or ["no message"])[-1]
        pytest.skip(f"sarama's own tests were not run: go could not fetch sarama: {last}")
    module = json.loads(fetched.stdout)
    assert module["Sum"] == _SUM, f"{_MODULE} has another checksum: {module['Sum']}"
    return Path(module["Dir"])


def _change(path: Path) -> None:
    text = path.read_text()
    for before, after in _CHANGES.items():
        assert before in text, f"{path.name} has no {before!r}"
        text = text.replace(before, after)
    path.write_text(text)


def _go(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
