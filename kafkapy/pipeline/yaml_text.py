"""YAML to mappings and back.

PyYAML belongs to an extra. Only what reads or writes YAML imports this module, so that help needs no extra.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from kafkapy.pipeline.pipeline_error import PipelineError


def load(text: str, source: str) -> object:
    """Parse YAML text; messages call it `source`.

    Raises:
        PipelineError: it is not YAML, or gives a key twice.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}" if mark else source
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        if re.search(r"\b(alias|tag)\b", problem):  # PyYAML's message quotes the value: perhaps a password
            problem = "a value that begins with '*', '&' or '!' must be quoted"
        raise PipelineError(f"{where}: not YAML: {problem}") from None


def dump(mapping: Mapping[str, Any]) -> str:
    """A mapping as YAML text, in its order."""
    return yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """Refuses a duplicate key.

    PyYAML would take the last one.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"'{key.value}' is given twice; keep one"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return super().construct_mapping(node, deep)
