"""The error that pipelines raise, and the suggestion for a misspelt word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

from kafkapy.errors import UserError


class PipelineError(UserError):
    """A pipeline cannot do what was asked for: one line with the mistake and the remedy."""


class LimitError(PipelineError):
    """A limit of the definition has ended the run."""

    exit_status: ClassVar[int] = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The text ` (did you mean 'orders'?)` with the nearest of `known`.

    Empty when none is near.
    """
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
