"""How often is each predicate wrong when its claim is just false, and how often right when it is true?

    python -m lab.verdict.simulation [--experiments N]       prints the table of docs/method.md

Experiments are made up at the boundary of each claim, where a false verdict is likeliest, and judged by
the very code that judges runs. Losses lie near 1; seeds share 2 % between arms, which pairing removes, and
each run has 0.5 % of its own, so a paired difference has a standard deviation of 0.71 % ("sd" below).
Wrong means: for a difference that is zero, any verdict of a direction; else the verdict that the boundary
forbids.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.store.claim import Claim
from lab.store.metric import named
from lab.store.plan_record import AxisRecord, MatchRecord, PlanRecord, ReferenceLine, SearchRecord
from lab.store.predicate_forms import Predicate
from lab.verdict import direction_simulation
from lab.verdict.evidence import METRIC, Evidence, MeasuredArm
from lab.verdict.judgement import Judgement, judge
from lab.verdict.outcomes import CONTRADICTED, REPRODUCED, SMALL

SHARED, OWN = 0.02, 0.005
SD = 2**0.5 * OWN  # of a paired difference
Made = Callable[[random.Random, int], Evidence]
PlainPredicate = Mapping[str, object]  # as YAML has it


@dataclass(frozen=True)
class Case:
    """A predicate with a law at its boundary and one where the `right` verdict is so by the `effect`
    named.
    """

    name: str
    predicate: PlainPredicate
    looks: tuple[int, ...]
    boundary: Made
    wrong: tuple[str, ...]
    effect: str
    alternative: Made
    right: str = REPRODUCED

    @property
    def seeds(self) -> str:
        return " then ".join(map(str, self.looks))


@dataclass(frozen=True)
class Rates:
    """One line of the table; rates are shares of experiments. `mean_seeds` is under the alternative."""

    case: Case
    wrong: float
    power: float
    mean_seeds: float


def cases() -> list[Case]:
    """Every predicate at the numbers of seeds that ablations use."""
    pair = {"better": "a", "worse": "b", "margin": 1e-9}
    close = {"among": {"arms": ["a", "b"]}, "margin": 3 * SD}
    either = (REPRODUCED, CONTRADICTED)
    found = []
    for looks in ((3,), (4,), (5,), (6,), (8,), (4, 8)):
        apart = 4 if looks == (3,) else 2
        found.append(
            Case("SUP", {"superior": pair}, looks, arms(a=0, b=0), either, f"{apart} sd", arms(a=0, b=apart))
        )
    wide = {"superior": pair | {"margin": 3 * SD}}
    found.append(
        Case(
            "SUP, too small",
            wide,
            (4, 8),
            arms(a=0, b=3),
            (SMALL,),
            "equal, margin 3 sd",
            arms(a=0, b=0),
            SMALL,
        )
    )
    for looks in ((3,), (4,), (5,), (8,), (4, 8)):
        found.append(
            Case(
                "EQ",
                {"equivalent": close},
                looks,
                arms(a=3, b=0),
                (REPRODUCED,),
                "equal, margin 3 sd",
                arms(a=0, b=0),
            )
        )
    for looks in ((3,), (8,)):
        within = {"arm": "b", "against": {"arm": "a"}, "margin": 3 * SD}
        found.append(
            Case(
                "NI",
                {"non_inferior": within},
                looks,
                arms(a=0, b=3),
                (REPRODUCED,),
                "equal, margin 3 sd",
                arms(a=0, b=0),
            )
        )
    basin = {"family": "f", "inside": [1, 3], "margin": 4 * SD}
    for looks in ((3,), (8,)):
        found.append(
            Case(
                "BASIN",
                {"basin": basin},
                looks,
                arms(a=0, b=4, c=2, d=20),
                (REPRODUCED,),
                "margin 4 sd, 3 arms inside equal, 1 outside 12 sd worse",
                arms(a=0, b=0, c=0, d=12),
            )
        )
    for test, looks in (("page", (3,)), ("page", (8,)), ("kendall", (3,))):
        along = {"along": {"arms": ["a", "b", "c", "d"]}, "direction": "rises", "margin": 1e-9, "test": test}
        name = f"TREND, {'Page' if test == 'page' else 'Kendall'}"
        found.append(
            Case(
                name,
                {"trend": along},
                looks,
                arms(a=0, b=0, c=0, d=0),
                (REPRODUCED,),
                "4 arms, 1 sd a step",
                arms(a=0, b=1, c=2, d=3),
            )
        )
    twice = {"larger": {"arm": "b", "against": "a"}, "smaller": {"arm": "d", "against": "c"}, "margin": 1e-9}
    for looks in ((4,), (8,)):
        found.append(
            Case(
                "DID",
                {"did": twice},
                looks,
                arms(a=0, b=3, c=0, d=3),
                either,
                "4 sd against 1",
                arms(a=0, b=4, c=0, d=1),
            )
        )
    wider = {"wider": "a", "narrower": "b", "measure": "max_stable", "tolerance": 0.2}
    for seeds in (3, 4, 5):
        found.append(
            Case(
                "LRRANGE",
                {"lr_range": wider},
                (seeds,),
                rates(apart=0),
                either,
                "3 half decades",
                rates(apart=3),
            )
        )
    for end in (2.5, 5.5):  # of the narrower arm; the grid ends at 6
        where = "within the grid" if end < 4 else "at its top"
        found.append(
            Case(
                f"LRRANGE, too small {where}",
                {"lr_range": wider | {"half_decades": 2}},
                (5,),
                rates(apart=2, end=end),
                (SMALL,),
                "equal",
                rates(apart=0),
                SMALL,
            )
        )
    found.append(
        Case(
            "below a line",
            {"below_line": {"arm": "a", "line": "line"}},
            (3,),
            arms(a=0, line=0),
            (REPRODUCED,),
            "20 sd below",
            arms(a=0, line=20),
        )
    )
    return found


def run(case: Case, *, experiments: int, seed: int, powered: int | None = None) -> Rates:
    """The rates of one case over so many made-up experiments (of the alternative: `powered`)."""
    chance = random.Random(f"{seed} {case.name} {case.looks}")
    claim = _claim(case.name, case.predicate)

    def judged(made: Made, times: int) -> list[Judgement]:
        return [judge([claim], {METRIC: made(chance, case.looks[-1])}, case.looks)[0] for _ in range(times)]

    false = judged(case.boundary, experiments)
    true = judged(case.alternative, powered or experiments)
    right = [j for j in true if j.outcome == case.right]
    return Rates(
        case,
        sum(j.outcome in case.wrong for j in false) / len(false),
        len(right) / len(true),
        sum(j.seeds for j in true) / len(true),
    )


def families(*, experiments: int, seed: int, claims: int = 4, seeds: int = 5) -> float:
    """How often any of so many better-than claims of one family is wrongly called reproduced, all arms
    being equal.
    """
    chance, wrong = random.Random(seed), 0
    names = [chr(ord("a") + i) for i in range(2 * claims)]
    listed = [
        _claim(a, {"superior": {"better": a, "worse": b, "margin": 1e-9}})
        for a, b in zip(names[::2], names[1::2], strict=True)
    ]
    made = arms(**dict.fromkeys(names, 0))
    for _ in range(experiments):
        found = judge(listed, {METRIC: made(chance, seeds)}, (seeds,))
        wrong += any(j.outcome == REPRODUCED for j in found)
    return wrong / experiments


def arms(**shifts: float) -> Made:
    """Arms `shifts` sd worse than 1 (relative); `line` is a reference line and no arm."""

    def made(chance: random.Random, seeds: int) -> Evidence:
        common = [1 + chance.gauss(0, SHARED) for _ in range(seeds)]
        listed = [
            _arm(
                name,
                number,
                {s: common[s] * (1 + shift * SD) * (1 + chance.gauss(0, OWN)) for s in range(seeds)},
            )
            for number, (name, shift) in enumerate((n, s) for n, s in shifts.items() if n != "line")
        ]
        lines = (ReferenceLine("line", 1 + shifts["line"] * SD),) if "line" in shifts else ()
        return Evidence(_plan(seeds, lines=lines), {}, tuple(listed), named(METRIC), tuple(range(seeds)))

    return made


def rates(*, apart: float, end: float = 2.5) -> Made:
    """Arms a and b searched over 7 rates in half decades, 0 to 6; runs of b stop being stable at `end`,
    those of a further by `apart`, with an sd of 0.7 half decades.
    """
    grid = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)

    def made(chance: random.Random, seeds: int) -> Evidence:
        losses = {}
        for name, mean in (("a", end + apart), ("b", end)):
            ends = [mean + chance.gauss(0, 0.7) for _ in range(seeds)]
            losses[name] = {
                rate: tuple(1 + 0.01 * (step - 2) ** 2 if step <= last or step < 1 else None for last in ends)
                for step, rate in enumerate(grid)
            }
        search = SearchRecord(
            "optimizer.lr",
            METRIC,
            grid[3],
            grid,
            tuple(range(seeds)),
            arms={},
            losses=losses,
            at_init={"a": 8.0, "b": 8.0},
            means={},
            best={},
            interior={},
            sensitivity={},
            extended=0,
        )
        listed = tuple(_arm(name, i, {s: 1.0 for s in range(seeds)}) for i, name in enumerate("ab"))
        return Evidence(_plan(seeds, search=search), {}, listed, named(METRIC), tuple(range(seeds)))

    return made


def _plan(
    seeds: int, *, lines: tuple[ReferenceLine, ...] = (), search: SearchRecord | None = None
) -> PlanRecord:
    """The plan of a made-up experiment."""
    return PlanRecord(
        ablation="simulation",
        title="",
        question="",
        source="",
        setting="",
        size="",
        data="",
        device_kind="cpu",
        overrides=(),
        flags=(),
        seeds=tuple(range(seeds)),
        match=MatchRecord("none", "none", 0.0),
        x=AxisRecord("x", "x", numeric=True),
        arms=(),
        claims=(),
        notes=(),
        reference_lines=lines,
        search=search,
    )


def _claim(name: str, predicate: PlainPredicate) -> Claim:
    asked = Predicate.from_plain(predicate, where=name, problems=[])
    assert asked is not None, predicate
    return Claim(name, "", "", "", METRIC, (), asked)


def _arm(name: str, number: int, values: dict[int, float]) -> MeasuredArm:
    """Arms a, b, c, ... lie at x = 1, 2, 3, ... of one family."""
    states = dict.fromkeys(values, "finished")
    return MeasuredArm(name, "f", name, number + 1.0, number == 0, states, {}, values)


def table(rows: Sequence[Rates], *, experiments: int, family: float) -> str:
    """Markdown."""
    head = "| predicate | seeds | wrong at its boundary | if the truth is | found |"
    lines = [head, "| --- | ---: | ---: | --- | ---: |"]
    for row in rows:
        saved = f" (mean of {row.mean_seeds:.1f} seeds)" if len(row.case.looks) > 1 else ""
        lines.append(
            f"| {row.case.name} | {row.case.seeds} | {100 * row.wrong:.1f} % | {row.case.effect} "
            f"| {100 * row.power:.0f} %{saved} |"
        )
    lines.append(f"| four SUP of one family | 5 | {100 * family:.1f} % (any) | | |")
    lines += [
        "",
        f"{experiments:,} made-up experiments at each boundary, a quarter of it for each power; sd "
        "is that of a "
        "paired difference. EXACT is computed and has no rate.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--experiments", type=int, default=8000, help="at each boundary; a quarter of it for each power"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    powered = max(1, options.experiments // 4)
    rows = [
        run(case, experiments=options.experiments, powered=powered, seed=options.seed) for case in cases()
    ]
    family = families(experiments=options.experiments, seed=options.seed)
    print(table(rows, experiments=options.experiments, family=family))
    print(direction_simulation.table(experiments=powered, seed=options.seed), end="")


if __name__ == "__main__":
    main()
