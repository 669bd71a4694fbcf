"""What is one check of a computed claim, and when does it hold?

A check states something that ought to be true; `holds` says whether it came out so. Some are about what
the lecture notes print: `notes` is then "holds" or "fails", the answer that the check gives when it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

FLOAT64 = 1e-10  # largest absolute error of an identity in float64
DIGITS = 6  # of a measured number in the record, fewer than differ between machines


@dataclass(frozen=True)
class Check:
    """One line of results/exact.jsonl, less the claim's id."""

    check: str
    expected: Any
    measured: Any
    holds: bool
    note: str = ""
    notes: str | None = None

    def record(self, claim: str) -> dict[str, Any]:
        return {"claim": claim, **asdict(self)}


Checks = Callable[[], list[Check]]


def same(
    check: str, a: Tensor, b: Tensor, *, tolerance: float = FLOAT64, note: str = "", notes: str | None = None
) -> Check:
    """The two tensors agree to within `tolerance`, absolutely. Rounding below it differs between machines,
    so it is not recorded.
    """
    error = (
        float((a.detach().double() - b.detach().double()).abs().max()) if a.shape == b.shape else float("inf")
    )
    holds = error <= tolerance
    bound = f"error <= {tolerance:g}"
    return Check(check, bound, bound if holds else f"error {error:.1e}", holds, note, notes)


def differ(
    check: str, a: Tensor, b: Tensor, *, least: float, note: str = "", notes: str | None = None
) -> Check:
    """The two tensors differ somewhere by `least` or more."""
    error = float((a.detach().double() - b.detach().double()).abs().max())
    return Check(check, f"difference >= {least:g}", rounded(error, 3), error >= least, note, notes)


def equal(check: str, expected: Any, measured: Any, *, note: str = "", notes: str | None = None) -> Check:
    """The two values are the same: whole numbers, texts, or lists of them."""
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
    """`measured` is `expected` to within a relative error."""
    holds = abs(measured - expected) <= within * max(abs(expected), 1e-300)
    return Check(check, rounded(expected), rounded(measured), holds, note, notes)


def at_most(check: str, limit: float, measured: float, *, note: str = "", notes: str | None = None) -> Check:
    return Check(check, f"<= {rounded(limit)}", rounded(measured), measured <= limit, note, notes)


def at_least(check: str, limit: float, measured: float, *, note: str = "", notes: str | None = None) -> Check:
    return Check(check, f">= {rounded(limit)}", rounded(measured), measured >= limit, note, notes)


def rounded(value: float, digits: int = DIGITS) -> float:
    """`value` to so many significant digits."""
    return float(f"{value:.{digits}g}")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in float64, the same on every machine."""
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def flops(compute: Callable[[], Any]) -> int:
    """FLOPs of the matrix products that `compute` runs, as torch counts them: 2 per multiply-add."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        compute()
    return int(counter.get_total_flops())
