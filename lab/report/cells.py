"""A table of a report: text in cells, some of which sort by a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    """What a table shows in one place, and the number to sort by where sorting by text would be wrong."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class SortableTable:
    """A header and rows of as many cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, header: Iterable[str], rows: Iterable[Iterable[Cell]]) -> SortableTable:
        return cls(tuple(header), tuple(tuple(row) for row in rows))

    @classmethod
    def of_columns(cls, columns: Iterable[tuple[str, Iterable[Cell]]]) -> SortableTable:
        """The table of (heading, cells from top to bottom) from left to right."""
        header, cells = zip(*columns, strict=True)
        return cls.of(header, zip(*cells, strict=True))
