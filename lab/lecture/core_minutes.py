"""How many minutes of one core does it take to test a claim, at the pace of the published runs?"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from lab.config.schema import Size
from lab.config.strict import read
from lab.lecture.claim_test import ClaimTest
from lab.lecture.register import RegisteredClaim
from lab.store.run_record import RunRecord

SIZES = Path(__file__).resolve().parents[2] / "conf/size"


def seconds_per_flop(records: Iterable[RunRecord]) -> float | None:
    """The median pace of one core over finished CPU runs; None without any."""
    paces = []
    for record in records:
        if record.state == "finished" and record.provenance.device_kind == "cpu":
            seconds, tokens = record.ended.seconds, record.ended.tokens
            if seconds is not None and tokens is not None:
                paces.append(seconds / (record.counts.flops_per_token * tokens))
    return statistics.median(paces) if paces else None


@cache
def flops(size: str) -> float:
    """Training FLOPs of one run of the baseline at a size: 12 L d^2 body weights, the head, and scores."""
    import yaml

    path = SIZES / f"{size}.yaml"
    s = read(Size, yaml.safe_load(path.read_text()), source=f"conf/size/{path.name}")
    weights = 12 * s.num_layers * s.d_model**2 + s.vocab_size * s.d_model
    scores = 4 * s.context_length * s.d_model * s.num_layers
    return float(3 * (2 * weights + scores) * s.tokens)


def estimate(claim: RegisteredClaim, test: ClaimTest | None, pace: float | None) -> float | None:
    """Core-minutes that testing a trained claim takes at most; None for other kinds, or without a pace.

    As its ablation states them, or else from the number of runs; an ablation serves all its claims at once.
    """
    if claim.kind != "trained" or pace is None:
        return None
    if test is not None:
        if test.core_minutes is not None:
            return test.core_minutes
        size, runs = "nano", test.runs
    elif claim.plan is not None:
        size, runs = claim.plan.size, claim.plan.runs
    else:
        return None
    return float(f"{runs * flops(size) * pace / 60:.2g}")
