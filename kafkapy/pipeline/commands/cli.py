"""`kafkapy pipeline`: one module per command, imported when the command is used."""

from __future__ import annotations

import importlib
from typing import Any

import click

from kafkapy.pipeline.pipeline_error import PipelineError

# name -> its line in the help; NAME.py contains the command
_COMMANDS = {
    "audit": "Compare a table with its topic, offset by offset.",
    "create": "Write the YAML file of a pipeline.",
    "dlq": "List, show and replay dead letters.",
    "export": "Write a topic's segment files as Parquet, without Spark.",
    "lineage": "Say where a row came from, or why a record is no row.",
    "maintain": "Compact a table's small files and clean up.",
    "replay": "Write a table's rows back into a topic.",
    "report": "Write a page with pictures: lag, speed, dead letters, offsets.",
    "reset": "Continue at other offsets, earlier or later.",
    "run": "Write a topic into its table.",
    "status": "Show lag, speed and dead letters.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"kafkapy.pipeline.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("kafkapy"):
                raise
            raise PipelineError(
                f"{error.name} is not installed: pip install '.[spark]' in a checkout"
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands)
def pipeline() -> None:
    """Turn topics into tables on Spark, exactly once, and back.

    PIPELINE is the YAML file that `create` writes, or the table that the pipeline has written: its path, or
    catalog.schema.table. Spark is started to ask the catalog, with the settings in spark-defaults.conf.
    """
