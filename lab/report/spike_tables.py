"""How often did each arm spike, and which layer moved first? Tables for plans that lay arms side by side.

Runs that ended by themselves count, diverged ones too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from lab.report.cells import Cell, SortableTable
from lab.store.run_record import FirstMovers, Mover, Often, RunRecord, SpikeSummary
from lab.store.states import RESULT_STATES
from lab.verdict.evidence import Evidence, MeasuredArm

LARGEST = 40  # spikes listed one by one


def by_arm(evidence: Evidence) -> SortableTable:
    """A row an arm: how often it spiked, and what moved first."""
    arms = [(arm.label, ended(arm)) for arm in evidence.arms]
    listed = [records for _, records in arms]
    return SortableTable.of_columns(
        [
            ("arm", [Cell(label) for label, _ in arms]),
            ("runs", [_states(records) for records in listed]),
            ("spikes of the gradient norm", [_events(records, "grad/norm") for records in listed]),
            ("score k=4", [_share(records, "grad/norm", lambda of: of.score_k4) for records in listed]),
            ("score k=7", [_share(records, "grad/norm", lambda of: of.score_k7) for records in listed]),
            ("p99.9 / median", [_tail(records) for records in listed]),
            ("spikes of the loss", [_events(records, "train/loss") for records in listed]),
            (
                "score k=4 (loss)",
                [_share(records, "train/loss", lambda of: of.score_k4) for records in listed],
            ),
            ("something rose before a spike", [_rose(records, lambda of: of.spikes) for records in listed]),
            ("before a quiet step", [_rose(records, lambda of: of.quiet) for records in listed]),
            ("most frequent first mover", [Cell(_most_frequent(records)) for records in listed]),
        ]
    )


def one_by_one(evidence: Evidence) -> SortableTable:
    """A row a spike, the LARGEST by score, with what moved first before each."""
    found = [
        (arm.label, seed, spike, mover)
        for arm in evidence.arms
        for seed, record in arm.records.items()
        for spike, mover in zip(record.curves.spikes, _movers(record), strict=True)
    ]
    found.sort(key=lambda one: -one[2].score)
    header = ["arm", "seed", "step", "signal", "value", "score in sd", "first mover"]
    rows = [
        [
            Cell(label),
            Cell(str(seed), seed),
            Cell(str(spike.step), spike.step),
            Cell(spike.signal),
            Cell("" if spike.value is None else f"{spike.value:.4g}", spike.value),
            Cell(f"{spike.score:.1f}", spike.score),
            Cell(mover),
        ]
        for label, seed, spike, mover in found[:LARGEST]
    ]
    return SortableTable.of(header, rows)


def ended(arm: MeasuredArm) -> list[RunRecord]:
    """The records of runs that ended by themselves after a step or more."""
    return [
        record for record in arm.records.values() if record.state in RESULT_STATES and record.curves.train
    ]


def events(records: Sequence[RunRecord], signal: str) -> int:
    """How many steps of all runs spiked, the ones that a record leaves out among them."""
    return sum(record.ended.spikes[signal].events for record in records)


def _states(records: Sequence[RunRecord]) -> Cell:
    states = Counter(record.state for record in records)
    return Cell(", ".join(f"{count} {state}" for state, count in sorted(states.items())))


def _events(records: Sequence[RunRecord], signal: str) -> Cell:
    count = events(records, signal)
    return Cell(str(count), count)


def _share(records: Sequence[RunRecord], signal: str, score: Callable[[SpikeSummary], float | None]) -> Cell:
    """The share of steps that spike, as the mean over the runs with a step that counts."""
    mean = _mean(records, signal, score)
    return Cell("" if mean is None else f"{100 * mean:.2f} %", mean)


def _tail(records: Sequence[RunRecord]) -> Cell:
    """How far the largest gradient norms lie above the median, as the mean over runs."""
    mean = _mean(records, "grad/norm", lambda of: of.p999_over_median)
    return Cell("" if mean is None else f"{mean:.1f}", mean)


def _mean(
    records: Sequence[RunRecord], signal: str, score: Callable[[SpikeSummary], float | None]
) -> float | None:
    known = [value for record in records if (value := score(record.ended.spikes[signal])) is not None]
    return fmean(known) if known else None


def _rose(records: Sequence[RunRecord], before: Callable[[FirstMovers], Often]) -> Cell:
    """Before how many of the spikes, or of the quiet steps, some statistic rose."""
    counts = [before(movers) for record in records if (movers := record.curves.first_movers)]
    often, of = sum(count.often for count in counts), sum(count.of for count in counts)
    return Cell(f"{often} of {of}", often / of) if of else Cell("")


def _most_frequent(records: Sequence[RunRecord]) -> str:
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


def _movers(record: RunRecord) -> list[str]:
    """What moved first before each of the record's spikes, in words."""
    movers = record.curves.first_movers
    if movers is None:
        return ["not measured"] * len(record.curves.spikes)
    return [_words(mover) for mover in movers.of]


def _words(mover: Mover | None) -> str:
    if mover is None:
        return "none"
    before, name = mover
    layer, part = re.fullmatch(r"(.+)/(?:block_)?(\d+)", name), re.fullmatch(r"(grad/norm)/(\w+)", name)
    what = f"{layer[1]} of layer {layer[2]}" if layer else f"{part[1]} of {part[2]}" if part else name
    return f"{what}, {before} step{'s' * (before != 1)} before it" if before else f"{what}, with it"
