"""The pictures of a sweep: where the arms end, how they got there, how steadily, and by which skills.

`draw` returns matplotlib figures by file name. An arm has one colour in every figure, a family one line
style and marker.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.report import other_metrics as metrics
from lab.report import rates
from lab.report import skill_figures as skills
from lab.report import spike_tables as spikes
from lab.report.canvas import COLOURS, GREY, settled, styled, subplots, tokens_text
from lab.verdict import stats
from lab.verdict.evidence import Arm, Evidence, gather, is_searched, relative_differences
from lab.verdict.metric import SIGNALS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES, MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")
SMALL: dict[str, Any] = {"textcoords": "offset points", "color": GREY, "fontsize": 8}
ALONG, UP = ("axes fraction", "data"), ("data", "axes fraction")
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # under a text that lines would cross
Point = tuple[float, float]


def draw(plan: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, Figure]:
    """The figures of a sweep by file name, in the order a report shows them."""
    evidence = gather(plan, records)
    with styled():
        looks = {arm.name: _look(arm, evidence) for arm in evidence.arms}
        figures = {
            "final": final(plan, evidence),
            "curves": curves(evidence),
            "gradients": gradients(evidence),
        }
        others = [gather(plan, records, metric=name) for name in metrics.of_claims(plan)]
        if by_metric := metrics.of_arms(others, looks):
            figures["metrics"] = by_metric
        if plan.get("side_by_side") and (pairs := spikes.of_pairs(plan, evidence)):
            figures["side_by_side"] = pairs
        if is_searched(plan):
            figures["rates"] = rates.of_arms(plan, looks)
        by_skill = skills.of_arms(evidence, {arm.label: _look(arm, evidence) for arm in evidence.arms})
        if by_skill:
            figures["skills"] = by_skill
        return {name: settled(figure) for name, figure in figures.items()}


def final(plan: dict[str, Any], evidence: Evidence) -> Figure:
    """Final bits per byte against x, and below it the paired difference to the baseline with 95 % intervals."""
    figure, (level, difference) = subplots(2, 1, size=(8, 6.4), sharex=True, height_ratios=(1, 1.25))
    numeric = all(arm.x is not None for arm in evidence.arms)
    crowded = len(evidence.arms) > 6
    where = {arm.name: float(number) if arm.x is None else arm.x for number, arm in enumerate(evidence.arms)}
    for number, family in enumerate(sorted({arm.family for arm in evidence.arms})):
        arms = [arm for arm in evidence.family(family) if arm.values]
        nudge = 1.015**number if numeric else 1.0  # keeps intervals of two families at one x apart
        style: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
        }
        line = style | {"markersize": 5, "linestyle": STYLES[number % len(STYLES)] if numeric else ""}
        points, means = [], []
        for arm in arms:
            x, values = where[arm.name] * nudge, list(arm.values.values())
            means.append((x, statistics.fmean(values)))
            level.plot([x] * len(values), values, linestyle="", alpha=0.35, markersize=3, **style)
            paired = relative_differences(arm, evidence.baseline)
            if paired:
                estimate = stats.estimate(paired).times(100)
                points.append((x, estimate.mean))
                if estimate.low is not None and estimate.high is not None and not arm.baseline:
                    difference.vlines(x, estimate.low, estimate.high, color=style["color"], linewidth=1.4)
        level.plot(*_columns(means), **line)
        difference.plot(*_columns(points), **line)
        if means and numeric:
            level.annotate(
                family, means[-1], (7, 0), textcoords="offset points", color=style["color"], va="center"
            )
    for arm in evidence.arms:
        if arm.diverged and not numeric:
            text = f"{len(arm.diverged)} of {len(arm.states)} diverged"
            turned = {"ha": "center", "va": "top", "rotation": 90 if crowded else 0, "bbox": PAPER}
            level.annotate(text, (where[arm.name], 0.97), (0, 0), xycoords=UP, **turned, **SMALL)
    for name, bpb in _reference_lines(evidence).items():
        level.axhline(bpb, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        level.annotate(f"{name} {bpb:.2f}", (0.005, bpb), (0, 2), xycoords=ALONG, **SMALL)
    difference.axhline(0, color=GREY, linewidth=1)
    name = f"baseline: {evidence.baseline.label}"
    difference.annotate(name, (0.995, 0), (0, 2), xycoords=ALONG, horizontalalignment="right", **SMALL)
    level.set(title="Final bits per byte (line: mean, dots: seeds)", ylabel="val/bpb")
    title = "Difference to the baseline, paired by seed (mean and 95 % interval; below 0 is better)"
    difference.set(title=title, ylabel="%", xlabel=plan["x"]["label"])
    ticks = {where[arm.name]: f"{arm.x:.3g}" if numeric else arm.label for arm in evidence.arms}
    if numeric:
        difference.set_xscale("log", base=2)
        difference.minorticks_off()
    else:
        difference.set_xlim(-0.5, len(ticks) - 0.5)
    difference.set_xticks(list(ticks), list(ticks.values()), rotation=30 if crowded else 0)
    return figure


def curves(evidence: Evidence) -> Figure:
    """Validation bits per byte on tokens, and the relative gap to the baseline, with the range over seeds
    as a band.
    """
    figure, (level, gap) = subplots(1, 2, size=(10, 4.2))
    base = {seed: _validation(record) for seed, record in evidence.baseline.records.items()}
    ends = []
    for arm in evidence.arms:
        runs = {seed: curve for seed, record in arm.records.items() if (curve := _validation(record))}
        _band(level, arm, evidence, runs)
        shared = {
            seed: {
                tokens: 100 * (bpb / base[seed][tokens] - 1)
                for tokens, bpb in run.items()
                if tokens in base[seed]
            }
            for seed, run in runs.items()
            if seed in base
        }
        end = _band(gap, arm, evidence, shared)
        ends += [(end, arm)] if end is not None else []
    _label_ends(gap, ends, evidence)
    level.set(title="Validation loss (mean; band: lowest to highest seed)", ylabel="val/bpb", xlabel="tokens")
    gap.set(title="Gap to the baseline, paired by seed (same band)", ylabel="%", xlabel="tokens")
    for axes in (level, gap):
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(tokens_text)
    return figure


def gradients(evidence: Evidence) -> Figure:
    """Gradient norm before clipping on tokens, one panel an arm, spikes marked; grey: the other arms."""
    from matplotlib.ticker import LogLocator, NullLocator

    columns = 3
    rows = -(-len(evidence.arms) // columns)
    figure, grid = subplots(rows, columns, size=(10, 2.5 * rows + 0.4), sharex=True, sharey=True)
    panels = list(grid.flat)
    lines = {arm.name: [_gradient(record) for record in arm.records.values()] for arm in evidence.arms}
    for arm, axes in zip(evidence.arms, panels, strict=False):
        for other in evidence.arms:
            for points in lines[other.name]:
                axes.plot(*_columns(points), color="#DDDDDD", linewidth=0.5, zorder=1)
        for points, record in zip(lines[arm.name], arm.records.values(), strict=True):
            axes.plot(*_columns(points), color=_look(arm, evidence)["color"], linewidth=0.8, alpha=0.8)
            _mark_spikes(axes, points, record)
        signals = [signal for record in arm.records.values() for _, signal, *_ in record["curves"]["spikes"]]
        of_norm, of_loss = (signals.count(signal) for signal in SIGNALS)
        more = f" and {of_loss} of the loss" if of_loss else ""
        axes.set_title(f"{arm.label}: {of_norm} spike{'' if of_norm == 1 else 's'}{more}", fontsize=9)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(tokens_text)
    norms = [norm for of_arm in lines.values() for points in of_arm for _, norm in points]
    if norms and max(norms) > (top := spikes.TOP_NORM * statistics.median(norms)):
        panels[0].set_ylim(top=top)
    for axes in panels[len(evidence.arms) :]:
        axes.set_visible(False)
    figure.supxlabel("tokens (triangle: spike of the gradient norm, cross: spike of the loss)", fontsize=9)
    figure.supylabel("grad/norm before clipping", fontsize=9)
    return figure


def _look(arm: Arm, evidence: Evidence) -> dict[str, Any]:
    """Colour by rank of (family, x), line style and marker by family."""
    families = sorted({other.family for other in evidence.arms})
    ranked = [other.name for family in families for other in evidence.family(family)]
    number = families.index(arm.family)
    return {
        "color": COLOURS[ranked.index(arm.name) % len(COLOURS)],
        "linestyle": STYLES[number % len(STYLES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def _band(axes: Axes, arm: Arm, evidence: Evidence, runs: dict[int, dict[float, float]]) -> Point | None:
    """Draw mean and range over seeds where every seed has a point; returns the last point of the mean."""
    positions = sorted(set.intersection(*map(set, runs.values()))) if runs else []
    if not positions:
        return None
    seeds = [[run[position] for run in runs.values()] for position in positions]
    look = _look(arm, evidence)
    axes.fill_between(
        positions, list(map(min, seeds)), list(map(max, seeds)), color=look["color"], alpha=0.15, linewidth=0
    )
    means = list(map(statistics.fmean, seeds))
    axes.plot(positions, means, linewidth=1.5, markersize=3.5, **look)
    return positions[-1], means[-1]


def _label_ends(axes: Axes, ends: list[tuple[Point, Arm]], evidence: Evidence) -> None:
    """Name each line right of its end, pushed apart where lines end close together."""
    low, high = axes.get_ylim()
    gap, floor = (high - low) / 18, -float("inf")
    for (x, y), arm in sorted(ends, key=lambda end: (end[0][1], end[1].name)):
        floor = max(y, floor + gap)
        colour = _look(arm, evidence)["color"]
        arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.5}
        axes.annotate(
            arm.label,
            (x, y),
            (1.04, floor),
            textcoords=axes.get_yaxis_transform(),
            color=colour,
            va="center",
            arrowprops=arrow,
        )


def _mark_spikes(axes: Axes, points: list[Point], record: dict[str, Any]) -> None:
    """Triangles on the gradient norm where it spiked, crosses on it where the loss did."""
    tokens_per_step = record["curves"]["train"][0][1] / record["curves"]["train"][0][0] if points else 0
    norms = dict(points)
    for step, signal, value, _ in record["curves"]["spikes"]:
        tokens = step * tokens_per_step
        height = value if signal == "grad/norm" else norms.get(tokens)
        if height is not None:
            axes.plot(
                tokens,
                height,
                color="#B00020",
                marker="v" if signal == "grad/norm" else "x",
                markersize=5,
                zorder=3,
            )


def _validation(record: dict[str, Any]) -> dict[float, float]:
    """Tokens -> bits per byte."""
    return {tokens: bpb for _, tokens, _, bpb in record["curves"]["validation"] if bpb is not None}


def _gradient(record: dict[str, Any]) -> list[Point]:
    """(tokens, gradient norm); a norm of 0 or one that is not finite has no place on a log axis."""
    return [(tokens, norm) for _, tokens, _, norm in record["curves"]["train"] if norm]


def _reference_lines(evidence: Evidence) -> dict[str, float]:
    """The plan's lines, and the corpus's exact entropy where all runs know it of the same text."""
    floors = [arm.records[seed]["summary"]["val/floor_bpb"] for arm in evidence.arms for seed in arm.values]
    if not floors or None in floors or max(floors) - min(floors) > 1e-6:
        return evidence.lines
    return {**evidence.lines, "entropy of the corpus": statistics.fmean(floors)}


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
