"""Differences of a metric in the words that verdicts and reports use."""

from __future__ import annotations

from lab.store.metric import Metric
from lab.verdict.stats import Estimate, in_percent


def amount(metric: Metric, size: float) -> str:
    """The size of a difference."""
    return in_percent(size) if metric.relative else f"{size:.3g} {metric.unit}".rstrip()


def shown(metric: Metric, worse: Estimate) -> Estimate:
    """An estimate of "worse by" as the difference a reader sees: in percent where relative, up where the
    value is.
    """
    return worse.times((100 if metric.relative else 1) * (-1 if metric.higher_is_better else 1))


def text(metric: Metric, worse: Estimate) -> str:
    """An estimate of "worse by" with its interval."""
    seen = shown(metric, worse)
    return seen.text("%", ".2f") if metric.relative else seen.text(metric.unit)


def beats(metric: Metric, better: str, worse: str) -> str:
    """That one arm's metric is on the better side of another's: "better" for losses alone, other metrics
    are only high or low.
    """
    if metric.is_loss:
        return f"{better} is better than {worse}"
    return (
        f"{metric.name} of {better} is {'higher' if metric.higher_is_better else 'lower'} than that of "
        f"{worse}"
    )


def entered(metric: Metric) -> str:
    """What a diverged run enters with."""
    return "with the steps they had" if metric.of_own_steps else "as before training"


def percent(fraction: Estimate | None) -> str:
    """A relative difference as its size, `34.0 % (22.9 to 44.6)`; "an unknown amount" without one."""
    return (
        "an unknown amount"
        if fraction is None
        else f"{100 * fraction.mean:.1f} %{interval(fraction.times(100))}"
    )


def interval(of: Estimate) -> str:
    """` (22.9 to 44.6)`; empty without one."""
    return "" if of.low is None or of.high is None else f" ({of.low:.1f} to {of.high:.1f})"
