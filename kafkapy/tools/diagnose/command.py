"""`kafkapy diagnose`: one archive with what a maintainer asks for.

Exit status: 0 the archive is written; 1 it cannot be; 2 the usage is wrong.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkapy.errors import UserError
from kafkapy.terminal.os_failure import writing

if TYPE_CHECKING:
    from kafkapy.configs.config import BrokerConfig
    from kafkapy.tools.diagnose.redaction import Redaction
    from kafkapy.tools.diagnose.sources import Source

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option("--config", "config_path", type=_FILE, help="The broker's server.properties.")
@click.option("--data", "directories", type=_FOLDER, multiple=True, help="A data directory; else log.dirs.")
@click.option("--log", "log_paths", type=_FILE, multiple=True, help="A file with the broker's log lines.")
@click.option("--bootstrap-server", help="HOST:PORT of the running broker, or of its cluster.")
@click.option("--command-config", type=_FILE, help="Kafka's client properties, to log in there.")
@click.option("--metrics", "url", help="The URL of the metrics; else that of metrics.port.")
@click.option("--output", type=click.Path(path_type=Path), help="The archive; else kafkapy-TIME.tar.gz.")
@click.option("--dry-run", is_flag=True, help="Only say what the archive would contain.")
def diagnose(
    config_path: Path | None,
    directories: tuple[Path, ...],
    log_paths: tuple[Path, ...],
    bootstrap_server: str | None,
    command_config: Path | None,
    url: str | None,
    output: Path | None,
    dry_run: bool,
) -> None:
    """Collect what a maintainer asks for: no records, and no secrets.

    The broker may run or not. First it says what the archive contains: look into it before you send it,
    since names of topics, groups and hosts are in it.
    """
    from kafkapy.configs.config import BrokerConfig
    from kafkapy.configs.keys import ConfigError
    from kafkapy.configs.properties import read_properties
    from kafkapy.tools.diagnose.redaction import Redaction

    try:
        settings = {} if config_path is None else read_properties(config_path)
    except ValueError as error:
        raise UserError(f"cannot read {config_path}: {error}") from None
    # A client has names of the broker's settings with other secrets.
    redaction = Redaction(settings, None if command_config is None else read_properties(command_config))
    try:
        config = None if config_path is None else BrokerConfig.from_properties(config_path)
    except ConfigError as error:
        click.echo(f"The broker would not start with {config_path}: {redaction.text(str(error))}")
        config = None
    if not directories and config is not None:
        directories = tuple(each for each in config.log_dirs if each.is_dir())
    sources = [
        *_of_the_machine(directories, log_paths),
        *_of_the_broker(config, bootstrap_server, command_config, url),
    ]
    if config_path is not None:
        sources.insert(0, _settings(redaction, config_path))
    path = output or Path(time.strftime("kafkapy-%Y%m%d-%H%M%S.tar.gz"))
    click.echo(f"{path} {'would contain' if dry_run else 'will contain'}:")
    for source in sources:
        click.echo(f"  {source.name:<34} {source.holds}")
    if not dry_run:
        _write(path, sources, redaction.text)
        click.echo(f"Written: {path}. Look into it before you send it.")


def _settings(redaction: Redaction, path: Path) -> Source:
    from kafkapy.tools.diagnose.sources import Source

    return Source("settings.properties", f"{path}, without secrets and unknown settings", redaction.settings)


def _of_the_machine(directories: tuple[Path, ...], log_paths: tuple[Path, ...]) -> Iterator[Source]:
    from kafkapy.tools.diagnose import sources
    from kafkapy.tools.diagnose.sources import Source

    told = "versions of kafkapy, Python and packages, the machine, the file systems"
    yield Source("versions.txt", told, partial(sources.versions, directories))
    for number, directory in enumerate(directories):
        told = f"names, sizes and times of the files in {directory}, and its checkpoints"
        yield Source(f"data-{number}.txt", told, partial(sources.files_of, directory))
    for number, path in enumerate(log_paths):
        told = f"the last {sources.LINES} lines of {path}"
        yield Source(f"log-{number}.txt", told, partial(sources.last_lines, path))


def _of_the_broker(
    config: BrokerConfig | None, bootstrap_server: str | None, command_config: Path | None, url: str | None
) -> Iterator[Source]:
    from kafkapy.tools.diagnose import sources
    from kafkapy.tools.diagnose.sources import Source

    if url is None and config is not None and config["metrics.port"]:
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(config["metrics.host"], config["metrics.host"])
        url = f"http://{host}:{config['metrics.port']}/metrics"
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise UserError(f"--metrics is no URL: {url}")
        yield Source("metrics.txt", f"the metrics at {url}", partial(sources.page, url))
    if bootstrap_server is None:
        return
    options = ["--bootstrap-server", bootstrap_server]
    if command_config is not None:
        options += ["--command-config", str(command_config)]
    for words in sources.ASKED:
        name = "-".join(words)
        told = f"what `kafkapy {' '.join(words)}` shows of {bootstrap_server}"
        yield Source(f"cluster-{name}.txt", told, partial(sources.asked, words, options))


def _write(path: Path, sources: list[Source], redact: Callable[[str], str]) -> None:
    """Write the archive, which only its owner may read; a part of one does not stay."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UserError(f"{path} is there already: choose another --output") from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    try:
        with (
            writing(path),
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for source in sources:
                try:
                    text = source.make()
                except Exception as error:
                    text = f"This cannot be told: {error!r}\n"
                data = redact(text).encode("utf-8", "replace")
                entry = tarfile.TarInfo(f"kafkapy/{source.name}")
                entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(data))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
