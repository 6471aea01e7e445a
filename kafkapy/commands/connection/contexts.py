"""Contexts: named clusters, in a file of the user.

`$XDG_CONFIG_HOME/kafkapy/contexts.yaml`, or `~/.config/kafkapy/contexts.yaml`:

    current: prod
    contexts:
      prod:
        bootstrap.servers: kafka.example:9093
        security.protocol: SASL_SSL
        sasl.mechanism: SCRAM-SHA-512
        sasl.username: alice
        sasl.password: ${file:/home/alice/.kafka-password}

The properties of a context are Kafka's client properties, with `sasl.username` and `sasl.password` for a
JAAS line, and `command.config` for a file with more of them. Only its owner may read the file (mode 0600). It
is replaced by a rename, so that a crash leaves the old one or the new one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kafkapy.errors import UserError
from kafkapy.terminal.os_failure import writing

COMMAND_CONFIG = "command.config"


class Contexts:
    """The file of contexts; what is changed is written by `save`."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self.current: str | None = None
        self.contexts: dict[str, dict[str, str]] = {}
        self._load()

    def get(self, name: str) -> dict[str, str]:
        """The properties of a context; raises UserError if there is none of that name."""
        try:
            return self.contexts[name]
        except KeyError:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise UserError(
                f"there is no context {name} (there are: {known}); kafkapy context set {name} makes it"
            ) from None

    def save(self) -> None:
        """Write the file, readable for its owner only."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = yaml.safe_dump({"current": self.current, "contexts": self.contexts}, sort_keys=False)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=".contexts")  # has mode 0600
        try:
            with writing(self.path), os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _load(self) -> None:
        try:
            content: Any = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            line = str(error).splitlines()[0]
            raise UserError(f"{self.path} is no YAML ({line}); mend or delete it") from None
        if content is None:
            return
        contexts = content.get("contexts") if isinstance(content, Mapping) else None
        if not isinstance(contexts, Mapping) or not all(
            isinstance(properties, Mapping) for properties in contexts.values()
        ):
            raise UserError(f"{self.path}: expected `contexts:` with properties by name; mend or delete it")
        self.contexts = {
            str(name): {str(key): str(value) for key, value in properties.items()}
            for name, properties in contexts.items()
        }
        current = content.get("current")
        self.current = None if current is None else str(current)


def default_path() -> Path:
    """Where the file of contexts is."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "kafkapy" / "contexts.yaml"
