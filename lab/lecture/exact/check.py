"""What is one check of a computed claim, and when does it hold?

One function for each way in which something may come out as it ought to. Each takes a `note`, a sentence for
the reader, and, where the check is about what the lecture notes print, `notes`: "holds" or "fails", the
answer that the check gives about them when it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab.store.exact_check import ExactCheck

FLOAT64 = 1e-10  # largest absolute error of an identity in float64
DIGITS = 6  # of a measured number in the record, fewer than differ between machines


@dataclass(frozen=True)
class Check:
    """Something that ought to be true, and whether it came out so."""

    check: str
    expected: Any
    measured: Any
    holds: bool
    note: str = ""
    notes: str | None = None

    def of(self, claim: str) -> ExactCheck:
        """The line of results/exact.jsonl that it is for a claim."""
        return ExactCheck(claim=claim, **vars(self))


Checks = Callable[[], list[Check]]


def same(
    check: str, a: Tensor, b: Tensor, *, tolerance: float = FLOAT64, note: str = "", notes: str | None = None
) -> Check:
    """The two tensors agree to within `tolerance`, absolutely; two of different shapes do not.

    Rounding errors below the tolerance differ between machines, so they are not recorded.
    """
    error = _largest_difference(a, b) if a.shape == b.shape else float("inf")
    holds = error <= tolerance
    bound = f"error <= {tolerance:g}"
    return Check(check, bound, bound if holds else f"error {error:.1e}", holds, note, notes)


def differ(
    check: str, a: Tensor, b: Tensor, *, least: float, note: str = "", notes: str | None = None
) -> Check:
    """The two tensors differ somewhere by `least` or more."""
    error = _largest_difference(a, b)
    return Check(check, f"difference >= {least:g}", rounded(error, 3), error >= least, note, notes)


def equal(check: str, expected: Any, measured: Any, *, note: str = "", notes: str | None = None) -> Check:
    """The two values are the same: whole numbers, texts, or lists and groups of them."""
    return Check(check, expected, measured, expected == measured, note, notes)


def close(
    check: str,
    expected: float,
    measured: float,
    *,
    within: float = 1e-9,
    note: str = "",
    notes: str | None = None,
) -> Check:
    """`measured` is `expected` to within a relative error of `within`."""
    holds = abs(measured - expected) <= within * max(abs(expected), 1e-300)
    return Check(check, rounded(expected), rounded(measured), holds, note, notes)


def at_most(check: str, limit: float, measured: float, *, note: str = "", notes: str | None = None) -> Check:
    """`measured` is no larger than `limit`."""
    return Check(check, f"<= {rounded(limit)}", rounded(measured), measured <= limit, note, notes)


def at_least(check: str, limit: float, measured: float, *, note: str = "", notes: str | None = None) -> Check:
    """`measured` is no smaller than `limit`."""
    return Check(check, f">= {rounded(limit)}", rounded(measured), measured >= limit, note, notes)


def rounded(value: float, digits: int = DIGITS) -> float:
    """`value` to so many significant digits, the form in which numbers are recorded."""
    return float(f"{value:.{digits}g}")


def generator(seed: int = 0) -> torch.Generator:
    """A source of random numbers on the CPU that gives the same ones on every machine."""
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers of the given shape in float64, the same on every machine."""
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def flops(compute: Callable[[], object]) -> int:
    """FLOPs of the matrix products that `compute` runs, as torch counts them: 2 per multiply-add."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        compute()
    return int(counter.get_total_flops())


def _largest_difference(a: Tensor, b: Tensor) -> float:
    return float((a.detach().double() - b.detach().double()).abs().max())
