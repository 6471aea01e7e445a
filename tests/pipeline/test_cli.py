"""The command line of pipelines.

Commands are found, and imported only when they are asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kafkapy.pipeline.commands.cli import pipeline

COMMANDS = [
    "audit",
    "create",
    "dlq",
    "export",
    "lineage",
    "maintain",
    "replay",
    "report",
    "reset",
    "run",
    "status",
]


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafkapy", "pipeline", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        check=False,
    )


def test_every_command_is_listed_and_is_there() -> None:
    context = click.Context(pipeline)
    assert pipeline.list_commands(context) == COMMANDS
    for name in COMMANDS:
        command = pipeline.get_command(context, name)
        assert command is not None
        assert command.name == name


def test_asking_for_help_imports_neither_spark_nor_arrow() -> None:
    program = (
        "import sys; from click.testing import CliRunner\n"
        "from kafkapy.pipeline.commands.cli import pipeline\n"
        "for name in sys.argv[1:]:\n"
        "    result = CliRunner().invoke(pipeline, [name, '--help']); assert not result.exception, name\n"
        "print(CliRunner().invoke(pipeline, ['--help']).output.count('\\n'))\n"
        "print({'pyspark', 'pyarrow'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *COMMANDS], capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[1:] == ["set()"], done.stderr


def test_the_help_needs_no_extra() -> None:
    program = (
        "import sys; sys.modules |= dict.fromkeys(sys.argv.pop(1).split(','))\n"
        "from kafkapy.cli import main; main()"
    )
    extras = "yaml,numpy,pyspark,pyarrow,confluent_kafka,google.protobuf"
    for name in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-c", program, extras, "pipeline", name, "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.parametrize("module", ["yaml", "confluent_kafka"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(module: str, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text("topic: orders\ntable: delta:x\n")
    program = "import sys; sys.modules[sys.argv.pop(1)] = None\nfrom kafkapy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, module, "pipeline", "status", "orders.yaml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stderr == f"kafkapy: {module} is not installed: pip install '.[spark]' in a checkout\n"
    assert done.returncode == 1


def test_an_error_is_one_line_and_the_exit_status_one(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text("topic: orders\ntabel: delta:x\n")
    done = run("status", "orders.yaml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kafkapy: orders.yaml: unknown key 'tabel' (did you mean 'table'?)\n"


def test_wrong_usage_is_one_line_and_the_exit_status_two(tmp_path: Path) -> None:
    done = run("stauts", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No such command 'stauts'".lower() in done.stderr.lower()
    done = run("create", "orders", folder=tmp_path)
    assert done.returncode == 2
    assert "missing option '--to'" in done.stderr
