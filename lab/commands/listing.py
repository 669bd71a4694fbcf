"""What commands print: tables for people, JSON for machines. Every record of a run has `id` and `state`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

Printed = Mapping[str, object]  # a record as it is printed: names of columns, and plain values


def show(rows: Sequence[Printed], *, as_json: bool, columns: Sequence[str]) -> None:
    """Print records: all of each as JSON, or some of it as a table."""
    if as_json:
        print(json.dumps(rows, indent=1, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def shown(path: Path) -> Path:
    """The path as a user would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
