"""How does the code of lab/ read? Counts what a reader stumbles over, and holds each count to its bound.

    python -m tests.bench.style            a table; exit status 1 where a count is above its bound

A bound only falls: whoever gets a count further down lowers it here.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

WIDTH = 110


@dataclass(frozen=True)
class Source:
    """One file of lab/."""

    path: Path
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> "Source":
        text = path.read_text()
        return cls(path, text, ast.parse(text))


@dataclass(frozen=True)
class Measure:
    """A count over all sources, and the most that it may be; by the thousand lines where `a_thousand`."""

    name: str
    count: Callable[[list[Source]], int]
    bound: float
    a_thousand: bool = False


def subscripts(sources: list[Source]) -> int:
    """x["key"], read or written."""
    return sum(
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        for node in _nodes(sources)
    )


def anything(sources: list[Source]) -> int:
    """The name `Any`, where it is used and where it is imported."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.alias) and node.name == "Any")
        for node in _nodes(sources)
    )


def unlaid(sources: list[Source]) -> int:
    """Places that the formatter is kept from."""
    return sum(len(re.findall(r"#\s*fmt:\s*(?:skip|off)", source.text)) for source in sources)


def wide(sources: list[Source]) -> int:
    """Lines over the set width."""
    return sum(len(line) > WIDTH for source in sources for line in source.text.splitlines())


def open_parameters(sources: list[Source]) -> int:
    """Parameters whose type is dict[str, Any], alone or inside another."""
    return sum(
        isinstance(node, ast.arg)
        and node.annotation is not None
        and "dict[str, Any]" in ast.unparse(node.annotation)
        for node in _nodes(sources)
    )


def names(sources: list[Source]) -> int:
    """Files and folders right below lab/."""
    return len({source.path.relative_to(ROOT / "lab").parts[0] for source in sources})


def stems_twice(sources: list[Source]) -> int:
    return _twice(source.path.stem for source in sources if source.path.stem != "__init__")


def classes_twice(sources: list[Source]) -> int:
    return _twice(
        node.name
        for source in sources
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


MEASURES = (
    Measure('subscripts by a string, x["key"]', subscripts, 15, a_thousand=True),
    Measure("Any", anything, 8, a_thousand=True),
    Measure("places the formatter is kept from", unlaid, 0),
    Measure(f"lines over {WIDTH} columns", wide, 0),
    Measure("parameters of type dict[str, Any]", open_parameters, 20),
    Measure("names right below lab/", names, 16),
    Measure("file stems that occur twice", stems_twice, 0),
    Measure("public class names that occur twice", classes_twice, 0),
)


def main() -> int:
    sources = [Source.read(path) for path in sorted((ROOT / "lab").rglob("*.py"))]
    lines = sum(source.text.count("\n") for source in sources)
    print(f"{len(sources)} files, {lines:,} lines")
    above = 0
    for measure in MEASURES:
        found: float = measure.count(sources)
        if measure.a_thousand:
            found = round(1000 * found / lines, 1)
        name = measure.name + (" per 1,000 lines" if measure.a_thousand else "")
        print(f"{name:60} {found:8g}   at most {measure.bound:g}")
        above += found > measure.bound
    if above:
        print(f"error: {above} of {len(MEASURES)} above their bound", file=sys.stderr)
    return int(above > 0)


def _nodes(sources: list[Source]) -> Iterator[ast.AST]:
    for source in sources:
        yield from ast.walk(source.tree)


def _twice(found: Iterator[str]) -> int:
    return sum(count > 1 for count in Counter(found).values())


if __name__ == "__main__":
    raise SystemExit(main())
