"""Where the arms end by the other metrics that claims are about. What rests on a search or counts spikes
has pictures of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.report.canvas import ALONG, GREY, Look, remark, subplots
from lab.store.metric import SEARCHED
from lab.store.plan_record import PlanRecord
from lab.verdict import stats
from lab.verdict.evidence import METRIC, Evidence, MeasuredArm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ELSEWHERE = (SEARCHED, "spikes/grad/norm/score")


def of_claims(plan: PlanRecord) -> list[str]:
    """The metrics of the plan's claims that no other figure or column shows."""
    names = dict.fromkeys(claim.metric for claim in plan.claims)
    return [name for name in names if name != METRIC and not name.startswith(ELSEWHERE)]


def of_arms(listed: Sequence[Evidence], looks: dict[str, Look]) -> Figure | None:
    """A row a metric, a line an arm: its seeds and their mean, and the paired difference to the baseline
    with its 95 % interval.

    `listed`: the evidence by each metric; `looks`: how each arm looks. None where no run knows any of them.
    """
    listed = [evidence for evidence in listed if any(arm.values for arm in evidence.arms)]
    if not listed:
        return None
    arms = len(listed[0].arms)
    figure, panels = subplots(len(listed), 2, size=(10, len(listed) * (1.0 + 0.28 * arms)))
    for evidence, level, difference in zip(listed, panels[::2], panels[1::2], strict=True):
        metric, base = evidence.metric, evidence.baseline
        for row, arm in enumerate(evidence.arms):
            _levels(level, row, arm, looks[arm.name])
            if not arm.baseline:
                _difference(difference, row, arm, evidence, looks[arm.name])
        level.set_yticks(range(arms), [arm.label for arm in evidence.arms])
        difference.set_yticks(range(arms), [""] * arms)
        for axes in (level, difference):
            axes.set_ylim(arms - 0.4, -0.6)
            axes.locator_params(axis="x", nbins=7)
        difference.axvline(0, color=GREY, linewidth=1)
        level.set(title=metric.name, xlabel=metric.unit)
        unit = "%" if metric.relative else metric.unit
        difference.set(title=f"Difference to {base.label}, paired by seed", xlabel=unit)
    return figure


def _levels(axes: Axes, row: int, arm: MeasuredArm, look: Look) -> None:
    """The seeds of an arm and their mean; how many runs know no value."""
    values = list(arm.values.values())
    if values:
        _dots(axes, values, row, look, markersize=3, alpha=0.4)
        _dots(axes, [statistics.fmean(values)], row, look, markersize=7)
    if lost := len(arm.states) - len(values):
        text = f"{lost} of {len(arm.states)} without"
        remark(axes, text, (0.99, row), ALONG, ha="right", va="center")


def _difference(axes: Axes, row: int, arm: MeasuredArm, evidence: Evidence, look: Look) -> None:
    """The mean difference to the baseline and its interval, over the seeds that both know."""
    base, relative = evidence.baseline.values, evidence.metric.relative
    paired = [
        value / base[seed] - 1 if relative else value - base[seed]
        for seed, value in arm.values.items()
        if seed in base
    ]
    if not paired:
        return
    estimate = stats.estimate(paired).times(100 if relative else 1)
    _dots(axes, [estimate.mean], row, look, markersize=7)
    if estimate.low is not None and estimate.high is not None:
        axes.hlines(row, estimate.low, estimate.high, color=look.colour, linewidth=1.4)


def _dots(
    axes: Axes,
    values: Sequence[float],
    row: int,
    look: Look,
    *,
    markersize: float,
    alpha: float | None = None,
) -> None:
    axes.plot(
        values,
        [row] * len(values),
        color=look.colour,
        marker=look.marker,
        linestyle="",
        markersize=markersize,
        alpha=alpha,
    )
