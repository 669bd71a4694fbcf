"""Where the arms end by the other metrics that claims are about. What rests on a search or counts spikes
has pictures of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.report.canvas import GREY, subplots
from lab.verdict import stats
from lab.verdict.evidence import METRIC, Evidence
from lab.verdict.metric import SEARCHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ELSEWHERE = (SEARCHED, "spikes/grad/norm/score")


def of_claims(plan: dict[str, Any]) -> list[str]:
    """The metrics of the plan's claims that no other figure or column shows."""
    names = dict.fromkeys(claim["metric"] for claim in plan["claims"])
    return [name for name in names if name != METRIC and not name.startswith(ELSEWHERE)]


def of_arms(listed: Sequence[Evidence], looks: dict[str, dict[str, Any]]) -> Figure | None:
    """A row a metric, a line an arm: its seeds and their mean, and the paired difference to the baseline
    with its 95 % interval.

    `listed`: the evidence by each metric; `looks` is the style of each arm. None where no run knows any of
    them.
    """
    listed = [evidence for evidence in listed if any(arm.values for arm in evidence.arms)]
    if not listed:
        return None
    arms = len(listed[0].arms)
    figure, grid = subplots(len(listed), 2, size=(10, len(listed) * (1.0 + 0.28 * arms)))
    for evidence, (level, difference) in zip(listed, grid.reshape(-1, 2), strict=True):
        metric, base = evidence.metric, evidence.baseline
        for row, arm in enumerate(evidence.arms):
            style = {**looks[arm.name], "linestyle": ""}
            values = list(arm.values.values())
            if values:
                level.plot(values, [row] * len(values), **style, markersize=3, alpha=0.4)
                level.plot(statistics.fmean(values), row, **style, markersize=7)
            if lost := len(arm.states) - len(values):
                text = f"{lost} of {len(arm.states)} without"
                level.annotate(
                    text,
                    (0.99, row),
                    xycoords=("axes fraction", "data"),
                    ha="right",
                    va="center",
                    fontsize=8,
                    color=GREY,
                )
            paired = [
                value / base.values[seed] - 1 if metric.relative else value - base.values[seed]
                for seed, value in arm.values.items()
                if seed in base.values
            ]
            if paired and not arm.baseline:
                estimate = stats.estimate(paired).times(100 if metric.relative else 1)
                difference.plot(estimate.mean, row, **style, markersize=7)
                if estimate.low is not None and estimate.high is not None:
                    difference.hlines(row, estimate.low, estimate.high, color=style["color"], linewidth=1.4)
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
