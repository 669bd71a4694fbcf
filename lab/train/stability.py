"""Spikes as they come, and divergence, defined once.

Both signals, training loss and gradient norm before clipping, follow the rule of lab/store/spikes.py. A
run has diverged when loss or gradient norm is not finite, when its loss stays above `divergence_factor`
times ln(vocab_size) for `divergence_patience` steps after warm-up, or when the mean loss of its last
`divergence_patience` steps is above `divergence_factor` times the lowest mean of as many steps that it had.
A run that has merely learnt nothing has finished.
"""

import math
from statistics import fmean
from typing import NamedTuple

from lab.config.schema import RunConfig
from lab.store.run_record import SpikeSummary
from lab.store.spikes import SIGNALS, spike_score, summarize
from lab.train.schedule import warmup_steps


class Spike(NamedTuple):
    """A step whose signal lies so many standard deviations above the mean of those before it."""

    signal: str
    value: float
    score: float


class StabilityMonitor:
    """Follows loss and gradient norm step by step; `history` comes from the store when a run resumes."""

    def __init__(self, config: RunConfig, history: dict[str, list[float]]):
        self.history = {signal: list(history.get(signal, [])) for signal in SIGNALS}
        self._window = config.monitor.spike_window
        self._burn_in = warmup_steps(config.steps, config.schedule)
        self._monitor = config.monitor
        self._ceiling = config.monitor.divergence_factor * math.log(config.shape.vocab_size)

    def observe(self, values: dict[str, float]) -> list[Spike]:
        """Add one step's finite values; returns the spikes among them."""
        spikes = []
        for signal in SIGNALS:
            self.history[signal].append(values[signal])
            score = spike_score(self.history[signal], window=self._window, burn_in=self._burn_in)
            if score is not None and score >= self._monitor.spike_threshold:
                spikes.append(Spike(signal, values[signal], score))
        return spikes

    def divergence(self) -> str | None:
        """Why the run has diverged by its finite losses so far, or None."""
        recent = self.history["train/loss"][self._burn_in :][-self._monitor.divergence_patience :]
        if len(recent) == self._monitor.divergence_patience and min(recent) > self._ceiling:
            return f"training loss above {self._ceiling:.2f} for {len(recent)} steps"
        return None

    def divergence_at_end(self) -> str | None:
        """Why a run that took all its steps has diverged, or None: did its loss rise again and stay up?"""
        losses, window = self.history["train/loss"], self._monitor.divergence_patience
        smoothed = [fmean(losses[end - window : end]) for end in range(window, len(losses) + 1)]
        if not smoothed or smoothed[-1] <= self._monitor.divergence_factor * min(smoothed):
            return None
        return (
            f"training loss of the last {window} steps is {smoothed[-1]:.2f}, above "
            f"{self._monitor.divergence_factor:g} times its lowest of {min(smoothed):.2f}"
        )

    def summary(self) -> dict[str, SpikeSummary]:
        threshold = self._monitor.spike_threshold
        return {
            signal: summarize(values, window=self._window, burn_in=self._burn_in, threshold=threshold)
            for signal, values in self.history.items()
        }
