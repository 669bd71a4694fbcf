"""Which skill does a design buy, and when is it learnt? The excess over the known floor, split by what a
word tests.

Only runs on generated stories know it. Units: bits a word of the skill; a perfect model has an excess of
0.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.report.canvas import COLOURS, DASHED, GREY, Look, arm_line, subplots, tokens_text
from lab.store.run_record import RunRecord, SkillSummary, Summary
from lab.verdict import stats
from lab.verdict.evidence import Evidence, MeasuredArm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_WORDS = 20  # fewer say nothing
Skills = Mapping[str, SkillSummary]  # by the name of the skill


def known(summary: Summary | None) -> Skills:
    """What a finished run learnt of each skill; empty where the corpus has no floor."""
    return summary.skills if summary else {}


def of_arms(evidence: Evidence, looks: dict[str, Look]) -> Figure | None:
    """Excess of each skill, its paired difference to the baseline, and forced-choice accuracy; None
    without skills.

    A row a skill, a marker an arm: the mean over seeds, of differences with its 95 % interval.
    """
    tables = {arm.name: of for arm in evidence.arms if (of := _tables(arm)) and all(of.values())}
    if not tables:
        return None
    every = [table for found in tables.values() for table in found.values()]
    names = [n for n in _hardest_first(every) if all(table[n].words >= FEWEST_WORDS for table in every)]
    asked = any(table[name].accuracy is not None for table in every for name in names)
    panels = 2 + asked
    figure, grid = subplots(1, panels, size=(4.2 * panels, 0.9 + 0.42 * len(names)), sharey=True)
    excess, difference, accuracy = grid[0], grid[1], grid[-1]
    base = tables.get(evidence.baseline.name, {})
    for number, (arm, found) in enumerate(tables.items()):
        look, label = looks[arm], evidence.arm(arm).label
        for i, name in enumerate(names):
            row = i + 0.5 * ((number + 0.5) / len(tables) - 0.5)
            of_seed = {seed: table[name] for seed, table in found.items()}
            _dot(excess, statistics.fmean(of.excess for of in of_seed.values()), row, look, label)
            right = [of.accuracy for of in of_seed.values() if of.accuracy is not None]
            if len(right) == len(of_seed):
                _dot(accuracy, statistics.fmean(right), row, look, label)
            if found is not base:
                of_base = {seed: table[name] for seed, table in base.items()}
                _difference(difference, of_seed, of_base, row, look, label)
    excess.set(title="Excess over the floor (0 is perfect)", xlabel="bits a word of the skill")
    excess.set_yticks(range(len(names)), names)
    excess.invert_yaxis()
    excess.set_xlim(left=0)
    difference.axvline(0, color=GREY, linewidth=1)
    difference.set(title="Excess against the baseline's (left is better)", xlabel="%, mean and 95 % interval")
    if asked:
        accuracy.axvline(0.5, color=GREY, linewidth=1)
        accuracy.set(title="Forced choice (line: chance)", xlabel="share right")
    handles = {str(handle.get_label()): handle for handle in excess.lines}
    accuracy.legend(
        list(handles.values()),
        list(handles),
        fontsize=8,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
    )
    return figure


def over_horizons(evidence: Evidence, looks: dict[str, Look]) -> Figure | None:
    """Excess of each skill at the horizons, a panel a skill, a line an arm: means over seeds. None where no
    horizon knows skills.
    """
    horizons = evidence.plan.horizons
    known_at = [_means(evidence.at_horizon(number)) for number in range(len(horizons))]
    tables = [of for at in known_at for of in at.values()]
    if not tables:
        return None
    names = sorted(set.intersection(*map(set, tables)), key=lambda name: (-tables[0][name], name))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, panels = subplots(rows, columns, size=(10, 2.5 * rows), sharex=True)
    for name, axes in zip(names, panels, strict=False):
        for arm in evidence.arms:
            at_each = zip(horizons, known_at, strict=True)
            points = [(at, of[arm.name][name]) for at, of in at_each if arm.name in of]
            if points:
                x, y = zip(*points, strict=True)
                arm_line(axes, looks[arm.name], x, y, label=arm.label)
        axes.set_title(name)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        axes.set_xticks(list(horizons), [tokens_text(at, 0) for at in horizons])
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    panels[0].legend(fontsize=8, frameon=False)
    figure.supxlabel("tokens", fontsize=9)
    figure.supylabel("excess, bits a word", fontsize=9)
    return figure


def _means(evidence: Evidence) -> dict[str, dict[str, float]]:
    """By arm the mean excess over seeds of each skill that all its finished runs know enough words of."""
    found = {}
    for arm in evidence.arms:
        of = list(_tables(arm).values())
        if of and all(of):
            shared = set.intersection(*map(set, of))
            enough = [name for name in shared if all(table[name].words >= FEWEST_WORDS for table in of)]
            found[arm.name] = {name: statistics.fmean(table[name].excess for table in of) for name in enough}
    return {name: of for name, of in found.items() if of}


def learning(runs: Mapping[str, RunRecord], lines: Mapping[str, Mapping[str, float]]) -> Figure:
    """Excess of each skill on tokens, a panel a skill, a line a run.

    runs: records by label. lines: by label and skill, bits a word, drawn dashed. Raises ValueError for a run
    without skills.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    for label, record in runs.items():
        if not known(record.summary):
            raise ValueError(f"{label}: has no skills")
    names = _hardest_first([known(record.summary) for record in runs.values()])
    figure, panels = subplots(3, -(-len(names) // 3), size=(9.5, 7.2), sharex=True)
    for name, axes in zip(names, panels, strict=False):
        for number, (label, record) in enumerate(runs.items()):
            points = _learning(record, name)
            if points:
                columns = zip(*points, strict=True)
                axes.plot(*columns, color=COLOURS[number % len(COLOURS)], marker=".", label=label)
        for label, of_skill in lines.items():
            axes.axhline(of_skill[name], color=GREY, linestyle=DASHED, linewidth=1, label=label)
        axes.set_title(name)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(tokens_text)
        axes.xaxis.set_minor_locator(NullLocator())
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    panels[0].legend(fontsize=8, frameon=False)
    figure.supxlabel("tokens", fontsize=9)
    figure.supylabel("excess over the floor, bits a word of the skill", fontsize=9)
    return figure


def _tables(arm: MeasuredArm) -> dict[int, Skills]:
    """What each finished seed of an arm learnt."""
    return {seed: known(arm.records[seed].summary) for seed in arm.values}


def _dot(axes: Axes, x: float, row: float, look: Look, label: str) -> None:
    axes.plot(x, row, color=look.colour, marker=look.marker, linestyle="", markersize=4.5, label=label)


def _difference(
    axes: Axes,
    found: Mapping[int, SkillSummary],
    base: Mapping[int, SkillSummary],
    row: float,
    look: Look,
    label: str,
) -> None:
    """The excess of one skill less the baseline's of the same seed, over the latter, with its interval."""
    paired = [
        found[seed].excess / base[seed].excess - 1
        for seed in found.keys() & base.keys()
        if base[seed].excess > 0
    ]
    if not paired:
        return
    estimate = stats.estimate(paired).times(100)
    _dot(axes, estimate.mean, row, look, label)
    if estimate.low is not None and estimate.high is not None:
        axes.hlines(row, estimate.low, estimate.high, color=look.colour, linewidth=1.4)


def _learning(record: RunRecord, skill: str) -> list[tuple[int, float]]:
    """(tokens, excess in bits a word) of a run's evaluations; none where the skill has too few words."""
    words, scored = known(record.summary)[skill].words, record.ended.measured.get("val/exact_bytes")
    if words < FEWEST_WORDS or scored is None:
        return []
    curve = record.curves.excess[skill]
    return [(point.tokens, point.excess * (scored / words)) for point in curve if point.excess is not None]


def _hardest_first(tables: Sequence[Skills]) -> list[str]:
    """The skills that every table has, by their mean excess."""
    shared = set.intersection(*(set(table) for table in tables))
    return sorted(shared, key=lambda name: (-statistics.fmean(t[name].excess for t in tables), name))
