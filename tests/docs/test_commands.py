"""Each command that a document shows is one of kafkapy's, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kafkapy.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])

_BLOCK = re.compile(r"^```(?:console|sh|bash|ini|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ENDS = ("|", "||", "&&", ";", "&", ">", ">>", "<")
_PLACEHOLDERS = {"PORT": "9092", "HOST:PORT": "localhost:9092"}


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `kafkapy …` in the blocks of a document."""
    for block in _BLOCK.findall(text):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            if "kafkapy " not in line:
                continue
            try:
                words = _words(line.removeprefix("$ "))
            except ValueError:
                continue  # a line of output, with an apostrophe
            yield from _of(words)


def _words(line: str) -> list[str]:
    """The words and the operators of a line of a shell; raises ValueError."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def _of(words: list[str]) -> Iterator[list[str]]:
    found: list[str] | None = None
    # At the beginning of a line, after a separator, or after what sets a variable.
    may_begin = True
    for word in words:
        if word in _ENDS:
            if found:
                yield found
            found, may_begin = None, True
        elif found is not None:
            found.append(_PLACEHOLDERS.get(word, word))
        elif may_begin and (word == "kafkapy" or word.endswith("/bin/kafkapy")):
            found = []
        elif not re.fullmatch(r"\w+=\S*|\*|[\d*/]+", word):
            may_begin = False
    if found:
        yield found


def parse(command: click.Command, name: str, arguments: list[str]) -> None:
    """Read arguments as the command does, without doing it; raises ClickException."""
    try:
        context = command.make_context(name, list(arguments))
    except click.BadParameter as error:
        if isinstance(error.param.type if error.param else None, click.Path):
            return  # the file of an example is not here
        raise
    with context:
        if isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
            found, own, left = command.resolve_command(context, rest)
            assert found is not None
            assert own is not None
            parse(own, found, left)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_documents_exist_with_their_options(document: Path) -> None:
    for arguments in commands(document.read_text()):
        try:
            parse(main, "kafkapy", arguments)
        except click.ClickException as error:
            pytest.fail(f"kafkapy {' '.join(arguments)}: {error.format_message()}")


def test_commands_are_found() -> None:
    found = [arguments for document in DOCUMENTS for arguments in commands(document.read_text())]
    assert len(found) > 90
    assert ["page", "--bootstrap-server", "127.0.0.1:9092"] in found
