"""Do the computed claims hold? Runs every check, in the order of the lecture.

    lab verify-exact          all of them, and writes results/exact.jsonl, one line a check
    lab verify-exact CLAIM    some of them, printed and not written

The same code gives the same bytes: seeds are fixed, and rounding errors below their tolerance are not
recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from lab.config.strict import ConfigError, closest
from lab.lecture.exact.check import Checks
from lab.store.exact_check import ExactCheck

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


def claims() -> dict[str, Checks]:
    """Claim id -> the function that returns its checks, in the order of the lecture."""
    found: dict[str, Checks] = {}
    for section in SECTIONS:
        found |= import_module(f"lab.lecture.exact.{section}").CLAIMS
    return found


def verify(names: Sequence[str] = ()) -> list[ExactCheck]:
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
        return [check.of(name) for name in names or known for check in known[name]()]
    finally:
        torch.set_num_threads(threads)
