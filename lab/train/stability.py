"""Spikes and divergence, each defined once.

A step is a spike of threshold k when its value lies at least k standard deviations above the mean of the `window` steps
before it, once warm-up and a first window are over; the spike score is the share of such steps (OLMo 2, OLMo team 2025,
arXiv:2501.00656, section 4.1, which uses k = 7 and a window of 1,000; shorter runs need a shorter window). Both signals,
training loss and gradient norm before clipping, follow this rule. A run has diverged when loss or gradient norm is not
finite, when its loss stays above `divergence_factor` times ln(vocab_size) for `divergence_patience` steps after warm-up, or
when it ends above the unigram entropy of the validation text.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median, pstdev
from typing import Any

from lab.config import RunConfig
from lab.train.schedule import warmup_steps

SIGNALS = ("train/loss", "grad/norm")
SCORED_THRESHOLDS = (4, 7)
LARGEST_SCORE = 1e6  # a jump from a flat signal has no finite one


def spike_score(history: Sequence[float], *, window: int, burn_in: int) -> float | None:
    """Standard deviations of the last value above the mean of the `window` before it; None inside the burn-in."""
    if len(history) <= burn_in + window:
        return None
    before = history[-window - 1 : -1]
    deviation = pstdev(before)
    rise = history[-1] - fmean(before)
    if deviation == 0:
        return LARGEST_SCORE if rise > 0 else 0.0
    return min(rise / deviation, LARGEST_SCORE)


def summarize(history: Sequence[float], *, window: int, burn_in: int, threshold: float) -> dict[str, Any]:
    """Spike events and scores of a whole run, with the scale-free ratio of the 99.9th percentile to the median."""
    ends = range(burn_in + window + 1, len(history) + 1)
    scores = [
        spike_score(history[max(0, end - window - 1) : end], window=window, burn_in=-1) or 0.0 for end in ends
    ]
    rank = min(len(history) - 1, math.ceil(0.999 * len(history)) - 1)
    return {
        "window": window,
        "threshold": threshold,
        "events": sum(score >= threshold for score in scores),
        **{
            f"score_k{k}": sum(s >= k for s in scores) / len(scores) if scores else None
            for k in SCORED_THRESHOLDS
        },
        "p999_over_median": sorted(history)[rank] / median(history) if history and median(history) else None,
    }


class Monitor:
    """Follows loss and gradient norm step by step; `history` comes from the store when a run resumes."""

    def __init__(self, config: RunConfig, history: dict[str, list[float]]):
        self.history = {signal: list(history.get(signal, [])) for signal in SIGNALS}
        self._rule = {
            "window": config.monitor.spike_window,
            "burn_in": warmup_steps(config.steps, config.schedule),
        }
        self._monitor = config.monitor
        self._ceiling = config.monitor.divergence_factor * math.log(config.shape.vocab_size)

    def observe(self, values: dict[str, float]) -> list[dict[str, Any]]:
        """Add one step's finite values; returns the spikes among them as {signal, value, score}."""
        spikes = []
        for signal in SIGNALS:
            self.history[signal].append(values[signal])
            score = spike_score(self.history[signal], **self._rule)
            if score is not None and score >= self._monitor.spike_threshold:
                spikes.append({"signal": signal, "value": values[signal], "score": score})
        return spikes

    def divergence(self) -> str | None:
        """Why the run has diverged by its finite losses so far, or None."""
        recent = self.history["train/loss"][self._rule["burn_in"] :][-self._monitor.divergence_patience :]
        if len(recent) == self._monitor.divergence_patience and min(recent) > self._ceiling:
            return f"training loss above {self._ceiling:.2f} for {len(recent)} steps"
        return None

    def summary(self) -> dict[str, Any]:
        threshold = self._monitor.spike_threshold
        return {
            signal: summarize(values, **self._rule, threshold=threshold)
            for signal, values in self.history.items()
        }
