"""What a sweep says first, in the terminal and at the top of its report: its arms, what was learnt of them,
and what became of each claim, on one screen.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.report.cells import Cell, SortableTable
from lab.store.plan_record import tokens_text
from lab.verdict import wording
from lab.verdict.direction import BUDGET_BOUND, REVERSING
from lab.verdict.evidence import Evidence
from lab.verdict.outcomes import INCONCLUSIVE
from lab.verdict.standing import BEST, DIVERGED, NOT_FOUND, ONE_SEED, UNKNOWN, WORSE, Standing, standings
from lab.verdict.stats import Estimate
from lab.verdict.verdict_record import ArmVerdict, ClaimVerdict, Verdict

WIDTH = 100
ARM, BAR, HORIZONS_SHOWN = 20, 7, 4
MOST_ARMS, MOST_NAMED = 12, 4
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class ArmAnswer:
    """One row: losses in bits a byte at the last horizon, the paired difference to the baseline in percent at
    each horizon shown, the last one with its interval; None of the baseline itself and where it isn't known.
    """

    label: str
    baseline: bool
    bpb: float | None
    differences: tuple[Estimate | None, ...]
    standing: str


@dataclass(frozen=True)
class ClaimAnswer:
    """A claim with its outcome and direction in words, why, what an open one would need, and what published
    sweeps of the same question came to; the last two may be empty.
    """

    id: str
    outcome: str
    why: str
    needs: str
    published: str


@dataclass(frozen=True)
class Answer:
    """The answer of a sweep. tokens: the horizons that the differences stand at."""

    question: str
    setting: str
    tokens: tuple[int, ...]
    arms: tuple[ArmAnswer, ...]
    learnt: str
    claims: tuple[ClaimAnswer, ...]


def answer(evidence: Evidence, verdict: Verdict, published: Mapping[str, str] = NOTHING) -> Answer:
    """The answer that evidence and the verdict on it give. published: by claim, what was found before."""
    found = standings(evidence)
    shown = _shown(verdict.horizons)
    return Answer(
        verdict.question,
        f"{verdict.setting}, {len(verdict.seeds)} seeds an arm",
        tuple(verdict.horizons[number] for number in shown),
        tuple(_arm(arm, shown, found[arm.name]) for arm in verdict.arms),
        learnt(verdict, found),
        tuple(_claim(claim, published.get(claim.id, "")) for claim in verdict.claims),
    )


def learnt(verdict: Verdict, found: dict[str, Standing]) -> str:
    """What was learnt of the arms, in two or three sentences."""
    labels = {arm.name: arm.label for arm in verdict.arms}
    named = {
        word: [name for name, one in found.items() if one.word == word]
        for word in (BEST, WORSE, NOT_FOUND, DIVERGED, UNKNOWN, ONE_SEED)
    }
    at = f"At {tokens_text(verdict.horizons[-1])} tokens" if verdict.horizons else "At the end"
    said = []
    if best := named[BEST]:
        said.append(f"{at} {labels[best[0]]} is best.")
        behind = sorted(named[WORSE], key=lambda name: -_mean(found[name]))
        told = [f"{labels[name]} by {wording.percent(found[name].behind)}" for name in behind]
        said += [f"Clearly worse: {listed(told)}."] if told else []
        equal = [labels[name] for name in named[NOT_FOUND]]
        said += [f"No difference was found between it and {listed(equal)}."] if equal else []
    elif named[NOT_FOUND]:
        largest = max(named[NOT_FOUND], key=lambda name: _mean(found[name]))
        equal = [labels[name] for name in named[NOT_FOUND]]
        text = f"{at} no difference was found between {listed(equal)}"
        which = "the largest" if len(equal) > 2 else "it"
        gap = f"; {which} is {wording.percent(found[largest].behind)}" if found[largest].behind else ""
        said.append(f"{text}{gap}.")
    if named[ONE_SEED]:
        said.append("One seed an arm can't tell an effect from chance.")
    for word, what in ((DIVERGED, "diverged"), (UNKNOWN, "has no finished run")):
        said += [f"{labels[name]} {what}." for name in named[word]]
    return " ".join(said)


def table(of: Answer) -> SortableTable:
    """The arms of an answer as a report shows them."""
    early = [
        (f"at {tokens_text(at)}", [_difference(arm, number) for arm in of.arms])
        for number, at in enumerate(of.tokens[:-1])
    ]
    last = f"difference at {tokens_text(of.tokens[-1])}" if of.tokens else "difference"
    columns = [
        ("arm", [Cell(arm.label) for arm in of.arms]),
        ("bits a byte", [Cell("" if arm.bpb is None else f"{arm.bpb:.4f}", arm.bpb) for arm in of.arms]),
        *early,
        (last, [_difference(arm, -1) for arm in of.arms]),
        ("standing", [Cell(arm.standing) for arm in of.arms]),
    ]
    return SortableTable.of_columns(columns)


def _difference(arm: ArmAnswer, number: int) -> Cell:
    """With its interval at the last horizon alone, as in the terminal."""
    found = arm.differences[number] if arm.differences else None
    if arm.baseline or found is None:
        return Cell("baseline" if arm.baseline and number == -1 else "")
    interval = wording.interval(found) if number == -1 else ""
    return Cell(f"{found.mean:+.1f} %{interval}", found.mean)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`, of many the first few."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def lines(of: Answer) -> list[str]:
    """The answer as plain text, at most WIDTH characters wide."""
    told = [*textwrap.wrap(f"{of.question} ({of.setting})", WIDTH), *_table(of)]
    told += textwrap.wrap(of.learnt, WIDTH)
    for claim in of.claims:
        told += _of_claim(claim)
    return told


def _of_claim(claim: ClaimAnswer) -> list[str]:
    before = f" (published: {claim.published})" if claim.published else ""
    text = f"{claim.id}: {claim.outcome}{before}. {_figures_first(claim.why.replace('95 % interval ', ''))}"
    told = textwrap.wrap(text, WIDTH, max_lines=2, placeholder=" ...", subsequent_indent="  ")
    return [*told, *([f"  needs {claim.needs}"] if claim.needs else [])]


def _figures_first(why: str) -> str:
    """The pair of arms that decides and its difference before the statement, which may be cut off."""
    found = re.search(r" \((?:decided by )?([^()]+ against [^()]+: [^()]+\([^()]+\))\)", why)
    return f"{found[1]}; {why[: found.start()]}{why[found.end() :]}" if found else why


def _shown(horizons: Sequence[int]) -> list[int]:
    """Numbers of the horizons that the table has room for: the first and the last ones."""
    numbers = list(range(len(horizons)))
    return numbers if len(numbers) <= HORIZONS_SHOWN else [0, *numbers[1 - HORIZONS_SHOWN :]]


def _arm(arm: ArmVerdict, shown: Sequence[int], found: Standing) -> ArmAnswer:
    path = [arm.path[number].difference_percent for number in shown] if arm.path else []
    differences = (*path[:-1], arm.difference_percent)
    return ArmAnswer(arm.label, arm.baseline, arm.bpb.mean if arm.bpb else None, differences, found.word)


def _claim(claim: ClaimVerdict, published: str) -> ClaimAnswer:
    way = claim.direction.name if claim.direction else None
    outcome = f"{claim.outcome}, {way}" if way and way != "open" else claim.outcome
    needs = _needs(claim) if claim.outcome == INCONCLUSIVE else ""
    return ClaimAnswer(claim.id, outcome, claim.why, needs, published)


def _needs(claim: ClaimVerdict) -> str:
    """What would decide an inconclusive claim, as far as its tests say."""
    if claim.direction and claim.direction.name in (BUDGET_BOUND, REVERSING):
        return "longer runs: the effect changes its sign with the tokens trained, so more seeds don't help"
    if claim.seeds == 1:
        return "more seeds: one has no interval"
    found, levels = claim.p_values, claim.levels
    if not found or not levels:
        return ""
    asked = [("yes", found.true, levels.true), ("no", found.false, levels.false)]
    closest, value, level = min(asked, key=lambda one: one[1] / one[2] if one[2] else math.inf)
    more = f"; {claim.seeds} seeds find {claim.detectable}" if claim.detectable_percent is not None else ""
    return f"p = {level:.2g} or less to say {closest}, and has {value:.2g}{more}"


def _mean(found: Standing) -> float:
    return found.behind.mean if found.behind else 0.0


def _table(of: Answer) -> list[str]:
    early = [f"{tokens_text(at):>7}" for at in of.tokens[:-1]]
    last = f"at {tokens_text(of.tokens[-1])}" if of.tokens else "difference"
    head = f"{'arm':<{ARM}} {'bits/byte':>9}{''.join(early)}  {f'{last}, % of baseline':<24} {'':{BAR}} "
    largest = max((abs(arm.differences[-1].mean) for arm in of.arms if arm.differences[-1]), default=0.0)
    rows = [_row(arm, largest) for arm in of.arms[:MOST_ARMS]]
    hidden = len(of.arms) - len(rows)
    return [head.rstrip(), *rows, *([f"and {hidden} more in the report"] if hidden else [])]


def _row(arm: ArmAnswer, largest: float) -> str:
    label = textwrap.shorten(arm.label, ARM, placeholder="…") if len(arm.label) > ARM else arm.label
    early = "".join(f"{_signed(one):>7}" for one in arm.differences[:-1])
    last = arm.differences[-1]
    bar = "█" * max(1, round(BAR * abs(last.mean) / largest)) if last and largest else ""
    level = "" if arm.bpb is None else f"{arm.bpb:.4f}"
    difference = "baseline" if arm.baseline else f"{_signed(last)}{wording.interval(last) if last else ''}"
    return f"{label:<{ARM}} {level:>9}{early}  {difference:<24} {bar:<{BAR}} {arm.standing}".rstrip()


def _signed(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.mean:+.1f}"
