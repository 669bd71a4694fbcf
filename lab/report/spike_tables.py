"""Does one recipe spike where another runs smoothly, and which layer moved first? For plans with
`side_by_side`.

The picture is OLMo 2's (OLMo team 2025, arXiv:2501.00656): training loss on the left, gradient norm on the
right, the old recipe in blue and the new one in orange. Runs that ended by themselves count, diverged ones
too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from lab.report.canvas import COLOURS, subplots, tokens_text
from lab.verdict.evidence import Arm, Evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = tuple[str, int, str]  # signal, its place in the points of a curve, marker of its spikes
LOSS, NORM = (
    ("train/loss", 2, "x"),
    ("grad/norm", 3, "v"),
)
# Where axes end, times the first loss and times the median norm: a run that diverges would flatten the other.
TOP_LOSS, TOP_NORM = 1.25, 1e4
LARGEST = 40  # spikes listed one by one
Record = dict[str, Any]
Cell = tuple[str, float | None]  # what a table shows, and the number to sort by


def of_pairs(plan: dict[str, Any], evidence: Evidence) -> Figure | None:
    """A row a pair, a line a seed, spikes marked; None where nothing ran."""
    from matplotlib.ticker import LogLocator, NullLocator

    rows = _pairs(plan, evidence)
    if not rows:
        return None
    figure, grid = subplots(len(rows), 2, size=(10, 2.4 * len(rows) + 0.3), sharex=True)
    panels = list(zip(grid.flat[::2], grid.flat[1::2], strict=True))
    for pair, (left, right) in zip(rows, panels, strict=True):
        for (label, arm), colour in zip(pair.items(), COLOURS, strict=False):
            _draw(left, arm, LOSS, label, colour)
            _draw(right, arm, NORM, label, colour)
        arms = pair.values()
        left.set_ylim(
            top=min(left.get_ylim()[1], TOP_LOSS * min(_typical(arm, LOSS, first=True) for arm in arms))
        )
        right.set_yscale("log")
        right.set_ylim(top=min(right.get_ylim()[1], TOP_NORM * max(_typical(arm, NORM) for arm in arms)))
        right.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        right.yaxis.set_minor_locator(NullLocator())
        for axes, (signal, _, _) in ((left, LOSS), (right, NORM)):
            axes.set_ylabel(signal)
            axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.97), borderpad=0)
            axes.xaxis.set_major_formatter(tokens_text)
    panels[-1][0].set_xlabel("tokens (cross: spike of the loss)")
    panels[-1][1].set_xlabel("tokens (triangle: spike of the gradient norm)")
    return figure


def of_arms(evidence: Evidence) -> tuple[list[str], list[list[Cell]]]:
    """Header and a row an arm: how often it spiked, and what moved first."""
    header = [
        "arm",
        "runs",
        "spikes of the gradient norm",
        "score k=4",
        "score k=7",
        "p99.9 / median",
        "spikes of the loss",
        "score k=4 (loss)",
        "something rose before a spike",
        "before a quiet step",
        "most frequent first mover",
    ]
    rows = []
    for arm in evidence.arms:
        records = _ended(arm)
        states = Counter(record["state"] for record in records)
        rows.append(
            [
                (arm.label, None),
                (", ".join(f"{count} {state}" for state, count in sorted(states.items())), None),
                (str(count := _events(records, "grad/norm")), count),
                *(
                    _mean(records, "grad/norm", score)
                    for score in ("score_k4", "score_k7", "p999_over_median")
                ),
                (str(count := _events(records, "train/loss")), count),
                _mean(records, "train/loss", "score_k4"),
                *(_rose(records, before) for before in ("spikes", "quiet")),
                (_most_frequent(records), None),
            ]
        )
    return header, rows


def one_by_one(evidence: Evidence) -> tuple[list[str], list[list[Cell]]]:
    """Header and a row a spike, the LARGEST by score, with what moved first before each."""
    found: list[list[Cell]] = []
    for arm in evidence.arms:
        for seed, record in arm.records.items():
            for (step, signal, value, score), mover in zip(
                record["curves"]["spikes"], _movers(record), strict=True
            ):
                found.append(
                    [
                        (arm.label, None),
                        (str(seed), seed),
                        (str(step), step),
                        (signal, None),
                        (f"{value:.4g}", value),
                        (f"{score:.1f}", score),
                        (mover, None),
                    ]
                )
    found.sort(key=lambda cells: -(cells[5][1] or 0.0))
    return ["arm", "seed", "step", "signal", "value", "score in sd", "first mover"], found[:LARGEST]


def _pairs(plan: dict[str, Any], evidence: Evidence) -> list[dict[str, Arm]]:
    """The plan's pairs of which both arms ran, each once, as label -> arm."""
    found: dict[tuple[str, ...], dict[str, Arm]] = {}
    for names in plan["side_by_side"]:
        pair = {label: arm for name in names for label, arm in _chosen(name, evidence).items()}
        if len(pair) == 2:
            found.setdefault(tuple(arm.name for arm in pair.values()), pair)
    return list(found.values())


def _chosen(name: str, evidence: Evidence) -> dict[str, Arm]:
    """The arm of that name, or of that family the one with the lowest mean; empty where it never ran."""
    arms = [arm for arm in evidence.arms if arm.name == name]
    if arms:
        return {arm.label: arm for arm in arms if _ended(arm)}
    ran = [arm for arm in evidence.family(name) if _ended(arm) and arm.scores]
    best = min(ran, key=lambda arm: fmean(arm.scores.values()), default=None)
    if best is None:
        return {}
    learnt = len(best.diverged) < len(best.states)
    return {f"{best.label} ({'best of ' + name if learnt else 'all of ' + name + ' diverged'})": best}


def _ended(arm: Arm) -> list[Record]:
    """The records of runs that ended by themselves after a step or more."""
    return [
        r for r in arm.records.values() if r["state"] in ("finished", "diverged") and r["curves"]["train"]
    ]


def _draw(axes: Axes, arm: Arm, panel: Panel, label: str, colour: str) -> None:
    signal, _, marker = panel
    records = _ended(arm)
    count = _events(records, signal)
    label += f": {count} spike{'s' * (count != 1)} in {len(records)} run{'s' * (len(records) != 1)}"
    if arm.diverged:
        label += f", {len(arm.diverged)} of {len(arm.states)} diverged"
    for number, record in enumerate(records):
        points = _points(record, panel)
        axes.plot(
            [tokens for _, tokens, _ in points],
            [value for _, _, value in points],
            color=colour,
            linewidth=0.8,
            alpha=0.7,
            label=None if number else label,
        )
        spiked = {step for step, of, *_ in record["curves"]["spikes"] if of == signal}
        marked = [point for point in points if point[0] in spiked]
        axes.plot(
            [tokens for _, tokens, _ in marked],
            [value for _, _, value in marked],
            color=colour,
            linestyle="",
            marker=marker,
            markersize=5,
            zorder=3,
            markeredgecolor=colour if marker == "x" else "black",
        )


def _typical(arm: Arm, panel: Panel, *, first: bool = False) -> float:
    """The median of all that is drawn of an arm, or of its first points; infinite where nothing is."""
    curves = [_points(record, panel)[: 1 if first else None] for record in _ended(arm)]
    return median([value for points in curves for _, _, value in points] or [float("inf")])


def _points(record: Record, panel: Panel) -> list[tuple[int, float, float]]:
    """(step, tokens, value) where the value has a place on a logarithmic axis."""
    return [(point[0], point[1], point[panel[1]]) for point in record["curves"]["train"] if point[panel[1]]]


def _events(records: Sequence[Record], signal: str) -> int:
    """How many steps of all runs spiked, the ones that a record leaves out among them."""
    return sum(record["summary"]["spikes"][signal]["events"] for record in records)


def _mean(records: Sequence[Record], signal: str, score: str) -> Cell:
    """The mean over the runs that have the score: those with a step that counts."""
    values = [v for record in records if (v := record["summary"]["spikes"][signal][score]) is not None]
    if not values:
        return "", None
    mean = fmean(values)
    return f"{mean:.1f}" if score == "p999_over_median" else f"{100 * mean:.2f} %", mean


def _rose(records: Sequence[Record], before: str) -> Cell:
    """Before how many of the spikes, or of the quiet steps, some statistic rose."""
    counts = [movers[before] for record in records if (movers := record["curves"].get("first_movers"))]
    often, of = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return (f"{often} of {of}", often / of) if of else ("", None)


def _most_frequent(records: Sequence[Record]) -> str:
    """The first mover of most spikes that records keep, by whether it rose before them or with them, and
    its share.
    """
    found = Counter(
        re.sub(r"\d+ steps? before it", "before it", mover) for record in records for mover in _movers(record)
    )
    if not found:
        return ""
    mover, count = min(found.items(), key=lambda item: (-item[1], item[0]))
    return f"{mover}: {count} of {found.total()}"


def _movers(record: Record) -> list[str]:
    """What moved first before each of the record's spikes, in words."""
    movers = record["curves"].get("first_movers")
    return (
        [_words(mover) for mover in movers["of"]]
        if movers
        else ["not measured"] * len(record["curves"]["spikes"])
    )


def _words(mover: Sequence[Any] | None) -> str:
    if mover is None:
        return "none"
    before, name = mover
    layer, part = re.fullmatch(r"(.+)/(?:block_)?(\d+)", name), re.fullmatch(r"(grad/norm)/(\w+)", name)
    what = f"{layer[1]} of layer {layer[2]}" if layer else f"{part[1]} of {part[2]}" if part else name
    return f"{what}, {before} step{'s' * (before != 1)} before it" if before else f"{what}, with it"
