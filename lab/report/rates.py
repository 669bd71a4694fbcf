"""How does the loss of each arm move with the learning rate? The curve of a search (lab/search.py)."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from lab.report.canvas import GREY, subplots
from lab.search import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def of_arms(plan: dict[str, Any], looks: dict[str, dict[str, Any]]) -> Figure:
    """Mean over tuning seeds on rates, with its seeds; `looks` has colour, line style and marker of each arm."""
    search = plan["search"]
    figure, axes = subplots(1, 1, size=(8, 4.4))
    for arm in plan["arms"]:
        name, look = arm["name"], looks[arm["name"]]
        losses, start = search["losses"][name], search["at_init"][name]
        rates = sorted(losses, key=float)
        means = [search["means"][name][rate] for rate in rates]
        axes.plot(
            [float(rate) for rate in rates], means, linewidth=1.5, markersize=4, label=arm["label"], **look
        )
        for rate in rates:
            for loss in losses[rate]:
                point: dict[str, Any] = {
                    "color": look["color"],
                    "marker": look["marker"],
                    "linestyle": "",
                    "zorder": 3,
                }
                hollow: dict[str, Any] = (
                    {"markerfacecolor": "none", "markersize": 8}
                    if loss is None
                    else {"markersize": 3, "alpha": 0.4}
                )
                axes.plot(float(rate), start if loss is None else min(loss, start), **point, **hollow)
        best = search["best"][name]
        at = min(rates, key=lambda rate: abs(float(rate) - best))
        axes.plot(
            best, search["means"][name][at], "o", markersize=13, markerfacecolor="none", color=look["color"]
        )
    axes.axhline(fmean(search["at_init"].values()), color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(search["values"], map(written, search["values"]))
    axes.axvline(search["common"], color=GREY, linewidth=0.8, linestyle=":")
    axes.set(
        title="Final loss on the learning rate (dashed: before training; dotted: the common rate)",
        xlabel="learning rate", ylabel=search["metric"],
    )  # fmt: skip
    axes.legend(fontsize=8, frameon=False)
    return figure
