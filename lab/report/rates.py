"""How does the loss of each arm move with the learning rate? The curve of a search (lab/sweep/search.py)."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from lab.report.canvas import GREY, subplots
from lab.sweep.search import written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = (0.97, 1.3)  # times the lowest mean of all arms


def of_arms(plan: dict[str, Any], looks: dict[str, dict[str, Any]]) -> Figure:
    """Mean over tuning seeds on rates, with its seeds, whole and near the lowest; `looks` is the style of
    each arm.
    """
    search = plan["search"]
    figure, panels = subplots(1, 2, size=(11, 4.4))
    lowest = []
    for arm in plan["arms"]:
        name, look = arm["name"], looks[arm["name"]]
        losses, means = dict(search["losses"][name]), dict(search["means"][name])
        if tried := search.get("between", {}).get(name):
            rate = written(tried["lr"])
            losses[rate], means[rate] = tried["losses"], tried["mean"]
        lowest.append(min(means.values()))
        for axes in panels:
            _curve(axes, arm["label"], losses, means, start=search["at_init"][name], look=look)
            best = search["best"][name]
            ring = {"markersize": 13, "markerfacecolor": "none", "color": look["color"]}
            axes.plot(best, means[written(best)], "o", **ring)
    for axes in panels:
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(search["values"], map(written, search["values"]))
        axes.axvline(search["common"], color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xlabel="learning rate", ylabel=search["metric"])
    whole, near = panels
    whole.axhline(fmean(search["at_init"].values()), color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    near.set_ylim(NEAR[0] * min(lowest), max(NEAR[1] * min(lowest), 1.02 * max(lowest)))
    whole.set_title("Final loss (dashed: before training; dotted: the common rate)", fontsize=9)
    near.set_title("The same near the lowest", fontsize=9)
    near.legend(fontsize=8, frameon=False, title=plan["x"]["label"], title_fontsize=8)
    return figure


def _curve(
    axes: Axes,
    label: str,
    losses: dict[str, list[float | None]],
    means: dict[str, float],
    *,
    start: float,
    look: dict[str, Any],
) -> None:
    """The means of one arm by rate and its seeds, hollow at `start` where a run diverged."""
    rates = sorted(losses, key=float)
    style = {"linewidth": 1.5, "markersize": 4} | look
    axes.plot([float(rate) for rate in rates], [means[rate] for rate in rates], label=label, **style)
    point: dict[str, Any] = {"color": look["color"], "marker": look["marker"], "linestyle": "", "zorder": 3}
    full, hollow = {"markersize": 3, "alpha": 0.4}, {"markersize": 8, "markerfacecolor": "none"}
    for rate in rates:
        for loss in losses[rate]:
            at = start if loss is None else min(loss, start)
            axes.plot(float(rate), at, **point, **(hollow if loss is None else full))
