"""Do the computed claims hold? Runs every check and writes results/exact.jsonl, one line a check.

    lab verify-exact          all of them
    lab verify-exact CLAIM    some of them, printed and not written

The same code gives the same bytes: seeds are fixed, and rounding errors below their tolerance are not
recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError, closest
from lab.store.files import dumps, write_atomic

SECTIONS = (
    "norms",
    "feed_forward",
    "blocks",
    "positions",
    "heads_and_patterns",
    "softmax",
    "inference",
    "experts",
    "speculation",
    "parallelism",
    "survey",
)


def claims() -> dict[str, Any]:
    """Claim id -> the function that returns its checks, in the order of the lecture."""
    from importlib import import_module

    found: dict[str, Any] = {}
    for section in SECTIONS:
        found |= import_module(f"lab.lecture.exact.{section}").CLAIMS
    return found


def verify(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The checks of the named claims, or of all. Raises ConfigError on an unknown name."""
    import torch

    known = claims()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"{name}: no computed claim.{closest(name, known)} Known: {', '.join(known)}." for name in unknown
        )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order, and no slower at these sizes
    try:
        return [check.record(name) for name in names or known for check in known[name]()]
    finally:
        torch.set_num_threads(threads)


def write(records: Sequence[dict[str, Any]], results: Path) -> Path:
    path = results / "exact.jsonl"
    results.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path
