"""What does a difference owe to the validation text that happened to be drawn, and to the chosen rate?

All seeds are scored on the same documents, so their spread can't tell. A run keeps the loss of groups of
its documents (lab/store/run_record.py, `group_bpb`); how far a difference varies from group to group says
how far it would vary from text to text.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from statistics import fmean

from lab.verdict.evidence import MeasuredArm
from lab.verdict.stats import Beyond


def beyond_seeds(plus: Sequence[MeasuredArm], minus: Sequence[MeasuredArm]) -> Beyond | None:
    """The variance of the mean over seeds of the sum of the logarithms of `plus` less that of `minus`, by
    validation documents and chosen rates; None where neither is known.
    """
    signed = [(1, arm) for arm in plus] + [(-1, arm) for arm in minus]
    found = [Beyond(sum(arm.choice_variance for _, arm in signed), math.inf)]
    seeds = sorted(set.intersection(*(set(arm.groups) for _, arm in signed)))
    counts = {len(arm.groups[seed]) for _, arm in signed for seed in seeds}
    if len(counts) == 1 and (count := counts.pop()) > 1:
        of_group = [
            fmean(
                math.fsum(sign * math.log(arm.groups[seed][group]) for sign, arm in signed) for seed in seeds
            )
            for group in range(count)
        ]
        found.append(Beyond(statistics.variance(of_group) / count, count - 1))
    whole = Beyond.sum(found)
    return whole if whole.variance > 0 else None
