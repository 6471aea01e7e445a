"""Long lists in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list; `number` counts from 1."""

    items: Sequence[T]
    number: int
    last: int
    total: int


def paged(items: Sequence[T], number: int, size: int) -> Page[T]:
    """A page of a list; the last one if there are not so many."""
    last = max((len(items) + size - 1) // size, 1)
    number = min(max(number, 1), last)
    return Page(items[(number - 1) * size : number * size], number, last, len(items))
