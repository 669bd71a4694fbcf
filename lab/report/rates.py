"""How does the loss of each arm move with the learning rate? The curve of a search (lab/sweep/search.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from lab.report.canvas import DASHED, GREY, Look, arm_line, subplots
from lab.store.plan_record import PlanRecord, SearchRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = (0.97, 1.3)  # times the lowest mean of all arms
Losses = Mapping[float, Sequence[float | None]]  # by learning rate, a value a seed, None where it diverged


def of_arms(plan: PlanRecord, search: SearchRecord, looks: dict[str, Look]) -> Figure:
    """Mean over tuning seeds on rates, with its seeds, whole and near the lowest.

    looks: how each arm looks, by its name.
    """
    figure, panels = subplots(1, 2, size=(11, 4.4))
    lowest = []
    for arm in plan.arms:
        name, look = arm.name, looks[arm.name]
        losses, means = dict(search.losses[name]), dict(search.means[name])
        if tried := (search.between or {}).get(name):
            losses[tried.lr], means[tried.lr] = tried.losses, tried.mean
        lowest.append(min(means.values()))
        for axes in panels:
            _curve(axes, arm.label, losses, means, start=search.at_init[name], look=look)
            best = search.best[name]
            axes.plot(best, means[best], "o", markersize=13, markerfacecolor="none", color=look.colour)
    for axes in panels:
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(search.values, [f"{rate:.3g}" for rate in search.values])
        axes.axvline(search.common, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xlabel="learning rate", ylabel=search.metric)
    whole, near = panels
    whole.axhline(fmean(search.at_init.values()), color=GREY, linewidth=1, linestyle=DASHED)
    near.set_ylim(NEAR[0] * min(lowest), max(NEAR[1] * min(lowest), 1.02 * max(lowest)))
    whole.set_title("Final loss (dashed: before training; dotted: the common rate)", fontsize=9)
    near.set_title("The same near the lowest", fontsize=9)
    near.legend(fontsize=8, frameon=False, title=plan.x.label, title_fontsize=8)
    return figure


def _curve(
    axes: Axes, label: str, losses: Losses, means: Mapping[float, float], *, start: float, look: Look
) -> None:
    """The means of one arm by rate and its seeds, hollow at `start` where a run diverged."""
    rates = sorted(losses)
    arm_line(axes, look, rates, [means[rate] for rate in rates], label=label)
    for rate in rates:
        for loss in losses[rate]:
            diverged = loss is None
            axes.plot(
                rate,
                start if loss is None else min(loss, start),
                color=look.colour,
                marker=look.marker,
                linestyle="",
                zorder=3,
                markersize=8 if diverged else 3,
                alpha=None if diverged else 0.4,
                markerfacecolor="none" if diverged else look.colour,
            )
