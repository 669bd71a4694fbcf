"""The pictures of a sweep: where the arms end, how they got there, how steadily, and by which skills.

`draw` returns matplotlib figures by file name. An arm has one colour in every figure, a family one line
style and marker.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.report import horizon_figures, other_metrics, rates, side_by_side, skill_figures
from lab.report.canvas import (
    ALONG,
    COLOURS,
    DASHED,
    GREY,
    LINES,
    MARKERS,
    UP,
    Look,
    arm_line,
    logarithmic,
    remark,
    settled,
    styled,
    subplots,
    tokens_text,
)
from lab.store.run_record import RunRecord
from lab.verdict import stats
from lab.verdict.evidence import Evidence, MeasuredArm, is_searched, relative_differences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]


def draw(evidence: Evidence) -> dict[str, Figure]:
    """The figures of a sweep by file name, in the order a report shows them."""
    plan = evidence.plan
    with styled():
        looks = looks_of(evidence)
        figures: dict[str, Figure] = {}
        if plan.horizons:
            if by_claim := horizon_figures.of_claims(evidence):
                figures["effects"] = by_claim
            figures["horizons"] = horizon_figures.of_arms(evidence, looks, _reference_lines(evidence))
            if by_skill := skill_figures.over_horizons(evidence, looks):
                figures["learning"] = by_skill
        figures |= {
            "final": final(evidence),
            "curves": curves(evidence, looks),
            "gradients": gradients(evidence, looks),
        }
        others = [evidence.by(name) for name in other_metrics.of_claims(plan)]
        if by_metric := other_metrics.of_arms(others, looks):
            figures["metrics"] = by_metric
        if pairs := side_by_side.of_pairs(evidence):
            figures["side_by_side"] = pairs
        if plan.search and is_searched(plan):
            figures["rates"] = rates.of_arms(plan, plan.search, looks)
        if by_skill := skill_figures.of_arms(evidence, looks):
            figures["skills"] = by_skill
        return {name: settled(figure) for name, figure in figures.items()}


def looks_of(evidence: Evidence) -> dict[str, Look]:
    """How each arm looks, by its name: colour by rank of (family, x), line style and marker by family."""
    families = sorted({arm.family for arm in evidence.arms})
    ranked = [arm.name for family in families for arm in evidence.family(family)]
    looks = {}
    for arm in evidence.arms:
        family, rank = families.index(arm.family), ranked.index(arm.name)
        looks[arm.name] = Look(
            COLOURS[rank % len(COLOURS)], LINES[family % len(LINES)], MARKERS[family % len(MARKERS)]
        )
    return looks


def final(evidence: Evidence) -> Figure:
    """Final bits per byte against x, and below it the paired difference to the baseline with its interval."""
    figure, (level, difference) = subplots(2, 1, size=(8, 6.4), sharex=True, height_ratios=(1, 1.25))
    numeric = all(arm.x is not None for arm in evidence.arms)
    crowded = len(evidence.arms) > 6
    where = {arm.name: float(number) if arm.x is None else arm.x for number, arm in enumerate(evidence.arms)}
    for number, family in enumerate(sorted({arm.family for arm in evidence.arms})):
        arms = [arm for arm in evidence.family(family) if arm.values]
        nudge = 1.015**number if numeric else 1.0  # keeps intervals of two families at one x apart
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        line = LINES[number % len(LINES)] if numeric else ""
        points, means = [], []
        for arm in arms:
            x, values = where[arm.name] * nudge, list(arm.values.values())
            means.append((x, statistics.fmean(values)))
            level.plot(
                [x] * len(values), values, linestyle="", alpha=0.35, markersize=3, color=colour, marker=marker
            )
            paired = relative_differences(arm, evidence.baseline)
            if paired:
                estimate = stats.estimate(paired).times(100)
                points.append((x, estimate.mean))
                if estimate.low is not None and estimate.high is not None and not arm.baseline:
                    difference.vlines(x, estimate.low, estimate.high, color=colour, linewidth=1.4)
        level.plot(*_columns(means), color=colour, marker=marker, markersize=5, linestyle=line)
        difference.plot(*_columns(points), color=colour, marker=marker, markersize=5, linestyle=line)
        if means and numeric:
            level.annotate(family, means[-1], (7, 0), textcoords="offset points", color=colour, va="center")
    for arm in evidence.arms:
        if arm.diverged and not numeric:
            text = f"{len(arm.diverged)} of {len(arm.states)} diverged"
            turned = 90 if crowded else 0
            at = (where[arm.name], 0.97)
            remark(level, text, at, UP, ha="center", va="top", rotation=turned, on_paper=True)
    for name, bpb in _reference_lines(evidence).items():
        level.axhline(bpb, color=GREY, linewidth=1, linestyle=DASHED)
        remark(level, f"{name} {bpb:.2f}", (0.005, bpb), ALONG, above=2)
    difference.axhline(0, color=GREY, linewidth=1)
    remark(difference, f"baseline: {evidence.baseline.label}", (0.995, 0), ALONG, above=2, ha="right")
    level.set(title="Final bits per byte (line: mean, dots: seeds)", ylabel="val/bpb")
    title = "Difference to the baseline, paired by seed (mean and 95 % interval; below 0 is better)"
    difference.set(title=title, ylabel="%", xlabel=evidence.plan.x.label)
    ticks = {where[arm.name]: f"{arm.x:.3g}" if numeric else arm.label for arm in evidence.arms}
    if numeric:
        difference.set_xscale("log", base=2)
        difference.minorticks_off()
    else:
        difference.set_xlim(-0.5, len(ticks) - 0.5)
    difference.set_xticks(list(ticks), list(ticks.values()), rotation=30 if crowded else 0)
    return figure


def curves(evidence: Evidence, looks: dict[str, Look]) -> Figure:
    """Validation bits per byte on tokens, and the relative gap to the baseline, with the range over seeds
    as a band.
    """
    figure, (level, gap) = subplots(1, 2, size=(10, 4.2))
    base = {seed: _validation(record) for seed, record in _followed(evidence.baseline, evidence).items()}
    ends = []
    for arm in evidence.arms:
        followed = _followed(arm, evidence)
        runs = {seed: curve for seed, record in followed.items() if (curve := _validation(record))}
        _band(level, looks[arm.name], runs)
        shared = {
            seed: {
                tokens: 100 * (bpb / base[seed][tokens] - 1)
                for tokens, bpb in run.items()
                if tokens in base[seed]
            }
            for seed, run in runs.items()
            if seed in base
        }
        end = _band(gap, looks[arm.name], shared)
        ends += [(end, arm)] if end is not None else []
    _label_ends(gap, ends, looks)
    level.set(title="Validation loss (mean; band: lowest to highest seed)", ylabel="val/bpb", xlabel="tokens")
    gap.set(title="Gap to the baseline, paired by seed (same band)", ylabel="%", xlabel="tokens")
    for axes in (level, gap):
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(tokens_text)
    return figure


def gradients(evidence: Evidence, looks: dict[str, Look]) -> Figure:
    """Gradient norm before clipping on tokens, one panel an arm, spikes marked; grey: the other arms."""
    columns = 3
    rows = -(-len(evidence.arms) // columns)
    figure, panels = subplots(rows, columns, size=(10, 2.5 * rows + 0.4), sharex=True, sharey=True)
    followed = {arm.name: list(_followed(arm, evidence).values()) for arm in evidence.arms}
    lines = {name: [_gradient(record) for record in of_arm] for name, of_arm in followed.items()}
    for arm, axes in zip(evidence.arms, panels, strict=False):
        for other in evidence.arms:
            for points in lines[other.name]:
                axes.plot(*_columns(points), color="#DDDDDD", linewidth=0.5, zorder=1)
        for points, record in zip(lines[arm.name], followed[arm.name], strict=True):
            axes.plot(*_columns(points), color=looks[arm.name].colour, linewidth=0.8, alpha=0.8)
            _mark_spikes(axes, points, record)
        signals = [spike.signal for record in followed[arm.name] for spike in record.curves.spikes]
        of_norm, of_loss = signals.count("grad/norm"), signals.count("train/loss")
        more = f" and {of_loss} of the loss" if of_loss else ""
        axes.set_title(f"{arm.label}: {of_norm} spike{'' if of_norm == 1 else 's'}{more}", fontsize=9)
        logarithmic(axes)
        axes.xaxis.set_major_formatter(tokens_text)
    norms = [norm for of_arm in lines.values() for points in of_arm for _, norm in points]
    if norms and max(norms) > (top := side_by_side.TOP_NORM * statistics.median(norms)):
        panels[0].set_ylim(top=top)
    for axes in panels[len(evidence.arms) :]:
        axes.set_visible(False)
    figure.supxlabel("tokens (triangle: spike of the gradient norm, cross: spike of the loss)", fontsize=9)
    figure.supylabel("grad/norm before clipping", fontsize=9)
    return figure


def _followed(arm: MeasuredArm, evidence: Evidence) -> dict[int, RunRecord]:
    """The records whose curves show how the arm got there, by seed: of a plan with horizons its trunks."""
    trunks = evidence.plan.arm(arm.name).trunks
    if not trunks:
        return arm.records
    known = evidence.run_records
    return {seed: known[run] for seed, run in trunks.items() if run in known and seed in arm.states}


def _band(axes: Axes, look: Look, runs: dict[int, dict[int, float]]) -> Point | None:
    """Draw mean and range over seeds where every seed has a point; returns the last point of the mean."""
    positions = sorted(set.intersection(*map(set, runs.values()))) if runs else []
    if not positions:
        return None
    seeds = [[run[position] for run in runs.values()] for position in positions]
    lowest, highest = list(map(min, seeds)), list(map(max, seeds))
    axes.fill_between(positions, lowest, highest, color=look.colour, alpha=0.15, linewidth=0)
    means = list(map(statistics.fmean, seeds))
    arm_line(axes, look, positions, means, markersize=3.5)
    return positions[-1], means[-1]


def _label_ends(axes: Axes, ends: list[tuple[Point, MeasuredArm]], looks: dict[str, Look]) -> None:
    """Name each line right of its end, pushed apart where lines end close together."""
    low, high = axes.get_ylim()
    gap, floor = (high - low) / 18, -float("inf")
    for (x, y), arm in sorted(ends, key=lambda end: (end[0][1], end[1].name)):
        floor = max(y, floor + gap)
        colour = looks[arm.name].colour
        axes.annotate(
            arm.label,
            (x, y),
            (1.04, floor),
            textcoords=axes.get_yaxis_transform(),
            color=colour,
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5},
        )


def _mark_spikes(axes: Axes, points: list[Point], record: RunRecord) -> None:
    """Triangles on the gradient norm where it spiked, crosses on it where the loss did."""
    if not points:
        return
    first, norms = record.curves.train[0], dict(points)
    for spike in record.curves.spikes:
        of_norm, tokens = spike.signal == "grad/norm", spike.step * (first.tokens / first.step)
        height = spike.value if of_norm else norms.get(tokens)
        if height is not None:
            marker = "v" if of_norm else "x"
            axes.plot(tokens, height, color="#B00020", marker=marker, markersize=5, zorder=3)


def _validation(record: RunRecord) -> dict[int, float]:
    """Tokens -> bits per byte."""
    return {point.tokens: point.bpb for point in record.curves.validation if point.bpb is not None}


def _gradient(record: RunRecord) -> list[Point]:
    """(tokens, gradient norm); a norm of 0 or one that is not finite has no place on a log axis."""
    return [(point.tokens, point.grad_norm) for point in record.curves.train if point.grad_norm]


def _reference_lines(evidence: Evidence) -> dict[str, float]:
    """The plan's lines, and the corpus's exact entropy where all runs know it of the same text."""
    summaries = [arm.records[seed].ended for arm in evidence.arms for seed in arm.values]
    floors = [summary.measured.get("val/floor_bpb") for summary in summaries]
    known = [floor for floor in floors if floor is not None]
    if not floors or len(known) < len(floors) or max(known) - min(known) > 1e-6:
        return evidence.lines
    return {**evidence.lines, "entropy of the corpus": statistics.fmean(known)}


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
