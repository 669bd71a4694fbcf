"""Does one recipe spike where another runs smoothly? Pairs of arms that a plan names, drawn over each other.

The picture is OLMo 2's (OLMo team 2025, arXiv:2501.00656): training loss on the left, gradient norm on the
right, the old recipe in blue and the new one in orange. Runs that ended by themselves count, diverged ones
too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from lab.report.canvas import COLOURS, logarithmic, subplots, tokens_text
from lab.report.spike_tables import ended, events
from lab.store.run_record import RunRecord, TrainPoint
from lab.verdict.evidence import Evidence, MeasuredArm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Where axes end, times the first loss and times the median norm: a run that diverges would flatten the other.
TOP_LOSS, TOP_NORM = 1.25, 1e4


@dataclass(frozen=True)
class Drawn:
    """A signal that has a panel: where it stands in a point of a curve, and the marker of its spikes."""

    signal: str
    value: Callable[[TrainPoint], float | None]
    marker: str


LOSS = Drawn("train/loss", lambda point: point.loss, "x")
NORM = Drawn("grad/norm", lambda point: point.grad_norm, "v")


def of_pairs(evidence: Evidence) -> Figure | None:
    """A row a pair, a line a seed, spikes marked; None where the plan names no pair or none of them ran."""
    rows = _pairs(evidence)
    if not rows:
        return None
    figure, panels = subplots(len(rows), 2, size=(10, 2.4 * len(rows) + 0.3), sharex=True)
    for pair, left, right in zip(rows, panels[::2], panels[1::2], strict=True):
        for (label, arm), colour in zip(pair.items(), COLOURS, strict=False):
            _draw(left, arm, LOSS, label, colour)
            _draw(right, arm, NORM, label, colour)
        arms = pair.values()
        lowest_first = min(_typical(arm, LOSS, first=True) for arm in arms)
        left.set_ylim(top=min(left.get_ylim()[1], TOP_LOSS * lowest_first))
        right.set_yscale("log")
        right.set_ylim(top=min(right.get_ylim()[1], TOP_NORM * max(_typical(arm, NORM) for arm in arms)))
        logarithmic(right)
        for axes, drawn in ((left, LOSS), (right, NORM)):
            axes.set_ylabel(drawn.signal)
            axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.97), borderpad=0)
            axes.xaxis.set_major_formatter(tokens_text)
    panels[-2].set_xlabel("tokens (cross: spike of the loss)")
    panels[-1].set_xlabel("tokens (triangle: spike of the gradient norm)")
    return figure


def _pairs(evidence: Evidence) -> list[dict[str, MeasuredArm]]:
    """The plan's pairs of which both arms ran, each once, as label -> arm."""
    found: dict[tuple[str, ...], dict[str, MeasuredArm]] = {}
    for names in evidence.plan.side_by_side:
        pair = {label: arm for name in names for label, arm in _chosen(name, evidence).items()}
        if len(pair) == 2:
            found.setdefault(tuple(arm.name for arm in pair.values()), pair)
    return list(found.values())


def _chosen(name: str, evidence: Evidence) -> dict[str, MeasuredArm]:
    """The arm of that name, or of that family the one with the lowest mean; empty where it never ran."""
    arms = [arm for arm in evidence.arms if arm.name == name]
    if arms:
        return {arm.label: arm for arm in arms if ended(arm)}
    ran = [arm for arm in evidence.family(name) if ended(arm) and arm.scores]
    best = min(ran, key=lambda arm: fmean(arm.scores.values()), default=None)
    if best is None:
        return {}
    learnt = len(best.diverged) < len(best.states)
    return {f"{best.label} ({'best of ' + name if learnt else 'all of ' + name + ' diverged'})": best}


def _draw(axes: Axes, arm: MeasuredArm, drawn: Drawn, label: str, colour: str) -> None:
    records = ended(arm)
    count = events(records, drawn.signal)
    label += f": {count} spike{'s' * (count != 1)} in {len(records)} run{'s' * (len(records) != 1)}"
    if arm.diverged:
        label += f", {len(arm.diverged)} of {len(arm.states)} diverged"
    for number, record in enumerate(records):
        points = _points(record, drawn)
        axes.plot(
            [tokens for _, tokens, _ in points],
            [value for _, _, value in points],
            color=colour,
            linewidth=0.8,
            alpha=0.7,
            label=None if number else label,
        )
        spiked = {spike.step for spike in record.curves.spikes if spike.signal == drawn.signal}
        marked = [point for point in points if point[0] in spiked]
        axes.plot(
            [tokens for _, tokens, _ in marked],
            [value for _, _, value in marked],
            color=colour,
            linestyle="",
            marker=drawn.marker,
            markersize=5,
            zorder=3,
            markeredgecolor=colour if drawn.marker == "x" else "black",
        )


def _typical(arm: MeasuredArm, drawn: Drawn, *, first: bool = False) -> float:
    """The median of all that is drawn of an arm, or of its first points; infinite where nothing is."""
    curves = [_points(record, drawn)[: 1 if first else None] for record in ended(arm)]
    return median([value for points in curves for _, _, value in points] or [float("inf")])


def _points(record: RunRecord, drawn: Drawn) -> list[tuple[int, int, float]]:
    """(step, tokens, value) where the value has a place on a logarithmic axis."""
    return [
        (point.step, point.tokens, value)
        for point in record.curves.train
        if (value := drawn.value(point)) is not None and value != 0
    ]
