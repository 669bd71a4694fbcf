"""Spikes as they come, and divergence, defined once.

Both signals, training loss and gradient norm before clipping, follow the rule of lab/store/spikes.py. A
run has diverged when loss or gradient norm is not finite, when its loss stays above `divergence_factor`
times ln(vocab_size) for `divergence_patience` steps after warm-up, or when it ends above the unigram
entropy of the validation text.
"""

import math
from typing import Any

from lab.config.schema import RunConfig
from lab.store.spikes import spike_score, summarize
from lab.train.schedule import warmup_steps

SIGNALS = ("train/loss", "grad/norm")


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
