"""How do arms and effects move as horizons double? Two pictures of a plan with horizons."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.report.canvas import ALONG, COLOURS, DASHED, GREY, Look, arm_line, remark, subplots, tokens_text
from lab.store.claim import Claim
from lab.store.predicate_forms import margin_of
from lab.verdict.comparison import compare
from lab.verdict.course import direction_of
from lab.verdict.direction import BUDGET_BOUND, FADING, OPEN, PERSISTS, REVERSING, Direction
from lab.verdict.evidence import Evidence, MeasuredArm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
SHOWN_FIRST = (PERSISTS, FADING, REVERSING, BUDGET_BOUND, OPEN)


@dataclass(frozen=True)
class EffectPanel:
    """A claim as a panel: what is said of it above the curve, the difference that it is about, and the
    margins it asks, as fractions.
    """

    id: str
    said: str
    direction: Direction
    margins: tuple[float, ...]


def of_arms(evidence: Evidence, looks: dict[str, Look], lines: dict[str, float]) -> Figure:
    """Bits per byte of every arm at each horizon, and the paired difference to the baseline.

    looks: how each arm looks, by its name. lines: references in bits a byte, the exact floor among them.
    """
    figure, (level, gap) = subplots(1, 2, size=(10, 4.2))
    for arm in evidence.arms:
        look, at = looks[arm.name], [point for point in arm.path if point.scores]
        means = [statistics.fmean(point.scores.values()) for point in at]
        arm_line(level, look, [point.tokens for point in at], means, label=arm.label)
        low = [min(point.scores.values()) for point in at]
        high = [max(point.scores.values()) for point in at]
        level.fill_between([p.tokens for p in at], low, high, color=look.colour, alpha=0.15, linewidth=0)
        if not arm.baseline:
            _differences(gap, arm, evidence, look)
    for name, bpb in lines.items():
        level.axhline(bpb, color=GREY, linewidth=1, linestyle=DASHED)
        remark(level, f"{name} {bpb:.2f}", (0.005, bpb), ALONG, above=2)
    gap.axhline(0, color=GREY, linewidth=1)
    remark(gap, f"baseline: {evidence.baseline.label}", (0.995, 0), ALONG, above=2, ha="right")
    for axes in (level, gap):
        _horizons(axes, evidence.plan.horizons)
    level.set(title="Loss at each horizon (mean; band: lowest to highest seed)", ylabel="val/bpb")
    gap.set(title="Difference to the baseline (mean, 95 % interval)", ylabel="%")
    level.legend(fontsize=8, frameon=False)
    return figure


def of_claims(evidence: Evidence) -> Figure | None:
    """A panel a claim whose effect has a direction: the difference it is about at each horizon, and hollow
    where its line leads. None without any.
    """
    found = [(claim, direction_of(claim, evidence.by(claim.metric))) for claim in evidence.plan.claims]
    known = [(claim, direction) for claim, direction in found if direction]
    if not known:
        return None
    return _panels([_course(claim, direction) for claim, direction in known])


def of_ledger(courses: Sequence[EffectPanel]) -> Figure | None:
    """One picture for many claims, a small panel each, by direction; None without any."""
    ordered = sorted(courses, key=lambda one: (SHOWN_FIRST.index(one.direction.name), one.id))
    return _panels(ordered, columns=4, height=2.5) if ordered else None


def _course(claim: Claim, direction: Direction) -> EffectPanel:
    asked = [margin_of(part) for part in claim.predicate.parts]
    numbers = {margin.number for margin in asked if margin and margin.number}
    return EffectPanel(claim.id, direction.name, direction, tuple(sorted(numbers)))


def _panels(courses: Sequence[EffectPanel], *, columns: int = COLUMNS, height: float = 3.1) -> Figure:
    rows = -(-len(courses) // columns)
    figure, panels = subplots(rows, columns, size=(10, height * rows))
    for course, axes in zip(courses, panels, strict=False):
        _effect(axes, course)
    for axes in panels[len(courses) :]:
        axes.set_visible(False)
    return figure


def _effect(axes: Axes, course: EffectPanel) -> None:
    found = course.direction
    tokens = [point.tokens for point in found.points]
    means = [100 * point.effect.mean for point in found.points]
    ends = [(point.effect.low, point.effect.high) for point in found.points]
    known = [(low, high) for low, high in ends if low is not None and high is not None]
    if len(known) == len(tokens):
        low, high = ([100 * end for end in side] for side in zip(*known, strict=True))
        axes.fill_between(tokens, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
    axes.plot(tokens, means, color=COLOURS[0], marker="o", markersize=4, linewidth=1.5)
    later = found.later.times(100)
    followed = [*(100 * one.mean for one in found.followed), later.mean]
    axes.plot(
        [*tokens[-len(found.followed) :], found.later_tokens],
        followed,
        color=COLOURS[1],
        marker="o",
        markersize=5,
        markerfacecolor="none",
        linewidth=0.8,
        linestyle=":",
    )
    if later.low is not None and later.high is not None:
        axes.vlines(found.later_tokens, later.low, later.high, color=COLOURS[1], linewidth=1)
    axes.axhline(0, color=GREY, linewidth=1)
    for margin in course.margins:
        for side in (-1, 1):
            axes.axhline(side * 100 * margin, color=GREY, linewidth=0.8, linestyle=DASHED)
    _horizons(axes, (*tokens[:-1:2], tokens[-1], found.later_tokens))
    between = ": " if course.said == found.name else "\n"
    axes.set_title(f"{course.id}{between}{course.said}", fontsize=9)
    sides = "\n".join(textwrap.wrap(f"{found.arm} against {found.against}, %", 34)[:3])
    axes.set_ylabel(sides, fontsize=7)


def _differences(axes: Axes, arm: MeasuredArm, evidence: Evidence, look: Look) -> None:
    tokens, estimates = [], []
    for number, point in enumerate(arm.path):
        mine, theirs = (one.at_horizon(number) for one in (arm, evidence.baseline))
        against = compare(mine, theirs, evidence.metric)
        if against.sample:
            tokens.append(point.tokens)
            estimates.append(against.estimate.times(100))
    arm_line(axes, look, tokens, [one.mean for one in estimates], label=arm.label)
    for at, one in zip(tokens, estimates, strict=True):
        if one.low is not None and one.high is not None:
            axes.vlines(at, one.low, one.high, color=look.colour, linewidth=1.2)


def _horizons(axes: Axes, tokens: Sequence[int]) -> None:
    """An axis of tokens with a tick at each horizon, evenly apart."""
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    axes.set_xticks(list(tokens), [tokens_text(at, 0) for at in tokens])
    axes.set_xlabel("tokens")
