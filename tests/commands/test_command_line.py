"""Commands for any cluster start quickly, and fail with one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kafkapy.cli import _CLUSTER_COMMANDS, main
from tests.commands.conftest import Run, invoke


def _python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )


def test_no_help_imports_a_client_library_or_the_broker() -> None:
    program = (
        "import sys\nfrom kafkapy.cli import main\n"
        "for name in sys.argv[1:]:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit as end: assert not end.code\n"
        "print(sorted({'kafka', 'uvloop', 'rich', 'kafkapy.broker'} & set(sys.modules)))"
    )
    done = _python(program, *_CLUSTER_COMMANDS)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert done.stdout.count("Usage: ") == len(_CLUSTER_COMMANDS)


@pytest.mark.parametrize("module", ["kafka", "yaml"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(module: str) -> None:
    program = "import sys; sys.modules[sys.argv.pop(1)] = None\nfrom kafkapy.cli import main; main()"
    done = _python(program, module, "topics", "list")
    assert done.returncode == 1
    assert done.stderr == f"kafkapy: {module} is not installed: pip install '.[tools]' in a checkout\n"


@pytest.mark.parametrize("module", ["kafka", "yaml"])
def test_a_cluster_can_be_run_without_the_packages_of_the_tools(module: str) -> None:
    program = "import sys; sys.modules[sys.argv.pop(1)] = None\nfrom kafkapy.cli import main; main()"
    done = _python(program, module, "cluster", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--brokers" in done.stdout
    done = _python(program, module, "cluster", "describe")
    assert done.returncode == 1
    assert done.stderr == f"kafkapy: {module} is not installed: pip install '.[tools]' in a checkout\n"


def test_all_commands_are_in_the_help_and_have_one() -> None:
    shown = invoke("--help").stdout
    for name, line in _CLUSTER_COMMANDS.items():
        assert f"  {name} " in shown
        assert line in " ".join(shown.split())
        assert invoke(name, "--help").exit_code == 0


def test_what_asks_before_it_destroys_has_a_dry_run() -> None:
    def commands(group: click.Group, path: str) -> Iterator[tuple[str, set[str]]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")
            else:
                options = {option for parameter in command.params for option in parameter.opts}
                yield f"{path} {name}", options

    found = dict(commands(main, "kafkapy"))
    asking = [
        path for path, options in found.items() if "--yes" in options and path.split()[1] in _CLUSTER_COMMANDS
    ]
    assert len(asking) > 10
    assert [path for path in asking if "--dry-run" not in found[path]] == []


def test_wrong_usage_is_one_line_and_exits_with_2(kafkapy: Run) -> None:
    result = kafkapy("topics", "create")
    assert result.exit_code == 2
    assert result.stderr == "kafkapy: missing argument 'TOPIC...'. See kafkapy topics create --help.\n"


def test_a_cluster_that_is_not_there_is_named() -> None:
    result = invoke("topics", "list", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafkapy: no broker answers at 127.0.0.1:1 (")
    assert len(result.stderr.splitlines()) == 1


def completed(words: str, **environment: str) -> list[str]:
    """What bash is told to complete the last of `words` to."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'kafkapy'\nfrom kafkapy.cli import main; main()"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            **environment,
            "_KAFKAPY_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_shells_complete_commands() -> None:
    assert completed("kafkapy topi") == ["plain,topics"]
    assert "plain,describe" in completed("kafkapy cluster d")
    assert "_KAFKAPY_COMPLETE=bash_complete" in invoke("completion", "bash").stdout


def test_shells_complete_the_names_of_contexts(tmp_path: Path) -> None:
    folder = {"XDG_CONFIG_HOME": str(tmp_path)}
    for name in ("prod", "preview", "here"):
        assert invoke("context", "set", name, "--bootstrap-server", "localhost:1", env=folder).exit_code == 0
    for words in ("kafkapy context use pr", "kafkapy topics list --context pr"):
        assert completed(words, **folder) == ["plain,preview", "plain,prod"]
    (tmp_path / "kafkapy" / "contexts.yaml").write_text("{")  # it is named when a command reads it
    assert completed("kafkapy context use pr", **folder) == []
