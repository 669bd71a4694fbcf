"""Which skill does a design buy, and when is it learnt? The excess over the known floor, split by what a
word tests.

Only runs on generated stories know it. Units: bits a word of the skill; a perfect model has an excess of
0.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.report.canvas import COLOURS, GREY, subplots, tokens_text
from lab.verdict import stats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lab.verdict.evidence import Evidence

Look = dict[str, Any]
FEWEST_WORDS = 20  # fewer say nothing


def known(summary: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Skill -> {words, floor, excess, accuracy} of a finished run; empty where the corpus has no floor."""
    return dict((summary or {}).get("skills") or {})


def of_arms(evidence: Evidence, looks: dict[str, Look]) -> Figure | None:
    """Excess of each skill, its paired difference to the baseline, and forced-choice accuracy; None
    without skills.

    A row a skill, a marker an arm: the mean over seeds, of differences with its 95 % interval.
    """
    tables = {
        arm.label: {seed: known(arm.records[seed]["summary"]) for seed in arm.values} for arm in evidence.arms
    }
    tables = {label: found for label, found in tables.items() if found and all(found.values())}
    if not tables:
        return None
    every = [table for found in tables.values() for table in found.values()]
    names = [n for n in _hardest_first(every) if all(table[n]["words"] >= FEWEST_WORDS for table in every)]
    asked = any(table[name]["accuracy"] is not None for table in every for name in names)
    panels = 2 + asked
    figure, grid = subplots(1, panels, size=(4.2 * panels, 0.9 + 0.42 * len(names)), sharey=True)
    (excess, difference), accuracy = grid.flat[:2], grid.flat[-1]
    base = tables.get(evidence.baseline.label, {})
    for number, (label, found) in enumerate(tables.items()):
        look = {**looks[label], "linestyle": "", "markersize": 4.5, "label": label}
        for i, name in enumerate(names):
            row = i + 0.5 * ((number + 0.5) / len(tables) - 0.5)
            excess.plot(statistics.fmean(table[name]["excess"] for table in found.values()), row, **look)
            if None not in (right := [table[name]["accuracy"] for table in found.values()]):
                accuracy.plot(statistics.fmean(right), row, **look)
            paired = [
                found[s][name]["excess"] / base[s][name]["excess"] - 1
                for s in found.keys() & base.keys()
                if base[s][name]["excess"] > 0
            ]
            if paired and found is not base:
                estimate = stats.estimate(paired).times(100)
                difference.plot(estimate.mean, row, **look)
                if estimate.low is not None and estimate.high is not None:
                    difference.hlines(row, estimate.low, estimate.high, color=look["color"], linewidth=1.4)
    excess.set(title="Excess over the floor (0 is perfect)", xlabel="bits a word of the skill")
    excess.set_yticks(range(len(names)), names)
    excess.invert_yaxis()
    excess.set_xlim(left=0)
    difference.axvline(0, color=GREY, linewidth=1)
    difference.set(title="Excess against the baseline's (left is better)", xlabel="%, mean and 95 % interval")
    if asked:
        accuracy.axvline(0.5, color=GREY, linewidth=1)
        accuracy.set(title="Forced choice (line: chance)", xlabel="share right")
    handles = {handle.get_label(): handle for handle in excess.lines}
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
    accuracy.legend(handles.values(), handles.keys(), fontsize=8, frameon=False, **where)
    return figure


def learning(runs: dict[str, dict[str, Any]], lines: dict[str, dict[str, float]]) -> Figure:
    """Excess of each skill on tokens, a panel a skill, a line a run; `lines`: label -> skill -> bits a
    word, drawn dashed.

    runs: label -> record. Raises ValueError for a run without skills.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    for label, record in runs.items():
        if not known(record["summary"]):
            raise ValueError(f"{label}: has no skills")
    names = _hardest_first([known(record["summary"]) for record in runs.values()])
    figure, grid = subplots(3, -(-len(names) // 3), size=(9.5, 7.2), sharex=True)
    panels = iter(grid.flat)
    for name, axes in zip(names, panels, strict=False):
        for number, (label, record) in enumerate(runs.items()):
            summary = record["summary"]
            words = summary["skills"][name]["words"]
            if words < FEWEST_WORDS:
                continue
            scale = summary["val/exact_bytes"] / words
            points = [(t, v * scale) for t, v in record["curves"]["excess"][name] if v is not None]
            axes.plot(
                *zip(*points, strict=True), color=COLOURS[number % len(COLOURS)], marker=".", label=label
            )
        for label, of_skill in lines.items():
            axes.axhline(of_skill[name], color=GREY, linestyle=(0, (4, 3)), linewidth=1, label=label)
        axes.set_title(name)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(tokens_text)
        axes.xaxis.set_minor_locator(NullLocator())
    for axes in panels:
        axes.set_visible(False)
    figure.axes[0].legend(fontsize=8, frameon=False)
    figure.supxlabel("tokens", fontsize=9)
    figure.supylabel("excess over the floor, bits a word of the skill", fontsize=9)
    return figure


def _hardest_first(tables: Sequence[dict[str, dict[str, Any]]]) -> list[str]:
    """The skills that every table has, by their mean excess."""
    shared = set.intersection(*(set(table) for table in tables))
    return sorted(shared, key=lambda name: (-statistics.fmean(t[name]["excess"] for t in tables), name))
