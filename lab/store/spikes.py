"""A spike, defined once, and which layer moved first before one.

A step is a spike of threshold k when its value lies at least k standard deviations above the mean of the
`window` steps before it, once warm-up and a first window are over; the spike score is the share of such
steps (OLMo 2, OLMo team 2025, arXiv:2501.00656, section 4.1, which uses k = 7 and a window of 1,000;
shorter runs need a shorter window). Both signals, training loss and gradient norm before clipping, follow
this rule, and so does every statistic of a layer where all steps are diagnosed: the first mover of a spike
is the one whose own rise by that rule came first, in the LOOK_BACK steps up to it. With many statistics
some rise by chance, so the same search is made before quiet steps as well.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median, pstdev

from lab.store.run_record import Mover, Often, SpikeSummary

SIGNALS = ("train/loss", "grad/norm")
LARGEST_SCORE = 1e6  # a jump from a flat signal has no finite one
LOOK_BACK = 10
Series = dict[str, list[float | None]]  # statistic -> its value at steps 1, 2, ...; None where not finite


def spike_score(history: Sequence[float], *, window: int, burn_in: int) -> float | None:
    """Standard deviations of the last value above the mean of the `window` before it; None inside the
    burn-in.
    """
    if len(history) <= burn_in + window:
        return None
    before = history[-window - 1 : -1]
    deviation = pstdev(before)
    rise = history[-1] - fmean(before)
    if deviation == 0:
        return LARGEST_SCORE if rise > 0 else 0.0
    return min(rise / deviation, LARGEST_SCORE)


def summarize(history: Sequence[float], *, window: int, burn_in: int, threshold: float) -> SpikeSummary:
    """Spike events and scores of a whole run, with the scale-free ratio of the 99.9th percentile to the
    median.
    """
    ends = range(burn_in + window + 1, len(history) + 1)
    scores = [
        spike_score(history[max(0, end - window - 1) : end], window=window, burn_in=-1) or 0.0 for end in ends
    ]
    rank = min(len(history) - 1, math.ceil(0.999 * len(history)) - 1)

    def share(k: float) -> float | None:
        return sum(score >= k for score in scores) / len(scores) if scores else None

    return SpikeSummary(
        window=window,
        threshold=threshold,
        events=sum(score >= threshold for score in scores),
        score_k4=share(4),
        score_k7=share(7),
        p999_over_median=sorted(history)[rank] / median(history) if history and median(history) else None,
    )


def first_mover(series: Series, step: int, *, window: int, threshold: float) -> Mover | None:
    """What rose first in the LOOK_BACK steps up to `step` (counted from 1), that step included; None where
    nothing did.

    Of several at one step the one that rose furthest. Steps without a whole window before them are not
    looked at.
    """
    for at in range(max(step - LOOK_BACK, window + 1), step + 1):
        rises = [
            (_rise(values, at, window=window, threshold=threshold), name) for name, values in series.items()
        ]
        if moved := max((rise for rise in rises if rise[0] >= threshold), default=None):
            return Mover(step - at, moved[1])
    return None


def by_chance(
    series: Series, spikes: Iterable[int], *, steps: int, window: int, threshold: float
) -> tuple[Often, Often]:
    """How often something rose in the LOOK_BACK steps before a spike, and before a quiet step.

    Counted are spikes with none in the LOOK_BACK steps before them, and of the steps with none for
    LOOK_BACK steps either way one in LOOK_BACK + 1.
    """
    spiked = set(spikes)
    onsets = [step for step in sorted(spiked) if not spiked & set(range(step - LOOK_BACK, step))]
    quiet = [
        step
        for step in range(window + LOOK_BACK + 1, steps + 1, LOOK_BACK + 1)
        if not spiked & set(range(step - LOOK_BACK, step + LOOK_BACK + 1))
    ]

    def rose_before(step: int) -> bool:
        found = first_mover(series, step, window=window, threshold=threshold)
        return found is not None and found.before > 0

    before_spikes, before_quiet = (Often(sum(map(rose_before, of)), len(of)) for of in (onsets, quiet))
    return before_spikes, before_quiet


def _rise(values: Sequence[float | None], step: int, *, window: int, threshold: float) -> float:
    """The score of one statistic at a step; 0 where it is below the threshold or not all values are
    finite.
    """
    history = [value for value in values[step - window - 1 : step] if value is not None]
    if len(history) <= window:
        return 0.0
    before, mean = history[:-1], fmean(history[:-1])
    rough = math.dist(before, [mean] * window) / math.sqrt(window)
    if history[-1] - mean < 0.99 * threshold * rough:  # the exact deviation takes a hundred times as long
        return 0.0
    return spike_score(history, window=window, burn_in=-1) or 0.0
