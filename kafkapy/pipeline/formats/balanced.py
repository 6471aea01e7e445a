"""Combines many columns of Spark's in an expression of little depth.

Spark walks through an expression many times, by recursion: a sum of hundreds of columns, one after another,
takes minutes or all of the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def balanced(combine: Callable[[Column, Column], Column], columns: Sequence[Column]) -> Column:
    """The columns, of which there is at least one, combined two by two."""
    if len(columns) == 1:
        return columns[0]
    middle = len(columns) // 2
    return combine(balanced(combine, columns[:middle]), balanced(combine, columns[middle:]))
