"""What an ablation asked for, as plan.json keeps it: the record that reports, verdicts and the ledger read.

Whoever makes a plan writes this record, and nobody else. Plans published before a key existed lack it and
keep loading; what a field has then stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.config.schema import Shape
from lab.config.strict import absent, plain, read
from lab.config.unusual import is_unusual
from lab.store.claim import Claim
from lab.store.files import dumps, read_record, write_atomic
from lab.store.noise_record import NoisePlan, NoiseRecord
from lab.store.run_record import Counts

NOISE = "noise"  # the name of the plans of `lab noise`, which no ablation may have
RunsBySeed = dict[int, str]


def tokens_text(tokens: float) -> str:
    """`1.2M` for 1,228,800 tokens."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if tokens >= size / 10:
            return f"{tokens / size:.1f}{unit}"
    return f"{tokens:.0f}"


@dataclass(frozen=True)
class MatchRecord:
    """What every arm has as much of as the baseline, what was solved for it, and the miss that is
    tolerated.
    """

    what: str
    solve: str
    tolerance: float


@dataclass(frozen=True)
class AxisRecord:
    """What results are drawn against. log: of the first plans alone, read by nobody any more."""

    key: str
    label: str
    numeric: bool
    log: bool | None = absent(None)


@dataclass(frozen=True)
class ReferenceLine:
    """What a table of n-grams reaches on the same text, in bits a byte."""

    label: str
    bpb: float


@dataclass(frozen=True)
class TrainedSeeds:
    """Why a sweep trained so many seeds of those that it might have."""

    seeds: int
    of: int
    why: str


@dataclass(frozen=True)
class ArmRecord:
    """One arm as it is trained: its resolved shape, its counts, and the runs that judge claims by seed.

    mismatch: how much more than the baseline it has of what is held equal, as a fraction. x: its place on
    a numeric axis. Of a searched plan also the best learning rate, which `runs` train with, and the same
    seeds at the rate that all arms share. Of a plan with horizons also the trunks by seed, and the branches
    that end at each horizon by rising horizon; `runs` are those of the last one.
    """

    name: str
    family: str
    label: str
    x: float | None
    overrides: tuple[str, ...]
    baseline: bool
    shape: Shape
    counts: Counts
    steps: int
    tokens: int
    mismatch: float
    runs: RunsBySeed
    runs_same_lr: RunsBySeed | None = absent(None)
    best_lr: float | None = absent(None)
    trunks: RunsBySeed | None = absent(None)
    branches: tuple[RunsBySeed, ...] = absent(())

    @property
    def at_common_rate(self) -> RunsBySeed:
        """The runs at the learning rate that the baseline is configured with."""
        return self.runs if self.runs_same_lr is None else self.runs_same_lr


@dataclass(frozen=True)
class OffGrid:
    """The rate between those of the grid that an arm tried, its final losses by seed and their mean."""

    lr: float
    losses: tuple[float | None, ...]
    mean: float


@dataclass(frozen=True)
class Rung:
    """A search at one horizon: the rates that came so far, their branches by arm, rate and seed, and final
    losses in the order of the seeds, None where a run diverged. tokens: of the horizon.
    """

    tokens: int
    runs: dict[str, dict[float, RunsBySeed]]
    losses: dict[str, dict[float, tuple[float | None, ...]]]


@dataclass(frozen=True)
class LowerRate:
    """One seed of an arm at the last horizon with a lower rate than the one that was chosen at an earlier
    one: its run, and its final loss, None where it diverged.
    """

    lr: float
    seed: int
    run: str
    loss: float | None


@dataclass(frozen=True)
class SearchRecord:
    """A search of learning rates: every arm at every rate of one grid, with tuning seeds that judge nothing.

    key, common: what was searched, and the baseline's own value of it. values: the grid by rising value.
    metric, seeds: the loss, and the tuning seeds. losses: final losses by arm and rate of the grid, in the
    order of the seeds, None where a run diverged. at_init: the loss before training by arm. means: by arm
    and rate of the grid over seeds, each at most the loss before training. arms: the runs by arm, rate and
    seed, the rates of `between` too. best, interior: the best rate of an arm, and whether it lies inside
    the grid. sensitivity: the mean over the grid of the loss less the best, over seeds; None where all
    diverged at every rate. between: of each arm the rate off the grid; None in plans from before it was
    tried. extended: how often the grid grew. rungs: of a search over horizons, by rising horizon; losses
    and means are then those of the last horizon that every rate of the grid reached. lower: what arms gave
    at the last horizon with a lower rate. unigram_bpb: the entropy of single tokens of the validation text,
    in bits a byte, above which a run has learnt nothing; None in plans from before it was noted.
    """

    key: str
    metric: str
    common: float
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    arms: dict[str, dict[float, RunsBySeed]]
    losses: dict[str, dict[float, tuple[float | None, ...]]]
    at_init: dict[str, float]
    means: dict[str, dict[float, float]]
    best: dict[str, float]
    interior: dict[str, bool]
    sensitivity: dict[str, float | None]
    extended: int
    between: dict[str, OffGrid] | None = absent(None)
    rungs: tuple[Rung, ...] = absent(())
    lower: dict[str, LowerRate] | None = absent(None)
    unigram_bpb: float | None = absent(None)

    def learnt(self, loss: float | None) -> bool:
        """Whether a run that ended so has learnt: it did not diverge, nor end above the unigram entropy."""
        return loss is not None and (self.unigram_bpb is None or loss <= self.unigram_bpb)

    def without(self, rate: float) -> SearchRecord:
        """The search as if a rate of its grid had not been tried."""
        losses = {
            arm: {tried: of for tried, of in by_rate.items() if tried != rate}
            for arm, by_rate in self.losses.items()
        }
        return replace(self, values=tuple(value for value in self.values if value != rate), losses=losses)


@dataclass(frozen=True)
class PlanRecord:
    """The record of an ablation's plan.

    setting is the name of its folder: size, data, device kind and what else sets it apart. overrides and
    flags are what was asked beside, without paths. seeds are those that judge; seeds_in_file the file's
    number where that is another; looks the numbers of seeds at which claims are judged, none: once, at
    all. notes are sentences for the report. side_by_side: pairs of arms or families to draw over each
    other. searching: the runs of a search while it lasts. stopped: why no more seeds were trained.
    """

    ablation: str
    title: str
    question: str
    source: str
    setting: str
    size: str
    data: str
    device_kind: str
    overrides: tuple[str, ...]
    flags: tuple[str, ...]
    seeds: tuple[int, ...]
    match: MatchRecord
    x: AxisRecord
    arms: tuple[ArmRecord, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    reference_lines: tuple[ReferenceLine, ...]
    looks: tuple[int, ...] = absent(())
    seeds_in_file: int | None = absent(None)
    noise: NoiseRecord | None = absent(None)
    side_by_side: tuple[tuple[str, ...], ...] = absent(())
    search: SearchRecord | None = absent(None)
    searching: dict[str, dict[float, RunsBySeed]] | None = absent(None)
    stopped: TrainedSeeds | None = absent(None)
    protocol: int = absent(1)
    horizons: tuple[int, ...] = absent(())

    @property
    def baseline(self) -> ArmRecord:
        return next(arm for arm in self.arms if arm.baseline)

    def arm(self, name: str) -> ArmRecord:
        return next(arm for arm in self.arms if arm.name == name)

    def run_ids(self) -> list[str]:
        """Every run, each once: those that judge, those at one learning rate, those of the search."""
        return list(dict.fromkeys(run_id for run_id, _ in self.runs_of_arms()))

    def judging_ids(self) -> set[str]:
        """The runs that judge, at every horizon of a plan with some."""
        return {run for arm in self.arms for of in (arm.runs, *arm.branches) for run in of.values()}

    def runs_of_arms(self) -> list[tuple[str, str]]:
        """(run, arm) of every run."""
        search, arms = self.search, self.arms
        by_seed = [(arm.runs, arm.name) for arm in arms]
        by_seed += [(arm.runs_same_lr or {}, arm.name) for arm in arms]
        by_seed += [(of, arm.name) for arm in arms for of in (arm.trunks or {}, *arm.branches)]
        tried = [rung.runs for rung in search.rungs] if search else []
        tried.append(self.searching or (search.arms if search else {}))
        by_seed += [(of, arm) for runs in tried for arm, rates in runs.items() for of in rates.values()]
        lower = (search.lower if search else None) or {}
        by_seed += [({one.seed: one.run}, arm) for arm, one in lower.items()]
        return [(run, arm) for of, arm in by_seed for run in of.values()]

    def at_one_rate(self) -> PlanRecord:
        """The searched plan as if every arm had been trained with the common learning rate."""
        return replace(self, arms=tuple(replace(arm, runs=arm.at_common_rate) for arm in self.arms))

    def at_horizon(self, number: int) -> PlanRecord:
        """The plan as if it ended at its horizon of that number, counted from 0."""
        arms = tuple(
            replace(
                arm,
                runs=arm.branches[number],
                branches=arm.branches[: number + 1],
                steps=arm.steps * self.horizons[number] // self.horizons[-1],
                tokens=arm.tokens * self.horizons[number] // self.horizons[-1],
            )
            for arm in self.arms
        )
        return replace(self, arms=arms, horizons=self.horizons[: number + 1])

    def with_seeds(self, seeds: Sequence[int]) -> PlanRecord:
        """The plan as if just these seeds judged, with the whole of its search."""

        def kept(runs: RunsBySeed) -> RunsBySeed:
            return {seed: run for seed, run in runs.items() if seed in seeds}

        arms = tuple(
            replace(
                arm,
                runs=kept(arm.runs),
                runs_same_lr=None if arm.runs_same_lr is None else kept(arm.runs_same_lr),
                trunks=None if arm.trunks is None else kept(arm.trunks),
                branches=tuple(map(kept, arm.branches)),
            )
            for arm in self.arms
        )
        return replace(self, seeds=tuple(seeds), arms=arms)

    def unusual(self) -> list[str]:
        """The overrides that set it apart from other sweeps of its size and text."""
        return [text for text in self.overrides if is_unusual(text)]


def load(path: Path, *, fix: str = "Remove it, then repeat the sweep.") -> PlanRecord:
    """The record of a plan.json. Raises ConfigError naming the file, the key and the fix."""
    return read(PlanRecord, read_record(path, fix=fix), source=str(path), fix=fix)


def save(record: PlanRecord | NoisePlan, folder: Path) -> None:
    """Write plan.json where `lab status` and reports find it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "plan.json", dumps(plain(record), indent=1))


def load_any(path: Path) -> PlanRecord | NoisePlan:
    """The record of any plan.json, of an ablation or of `lab noise`."""
    fix = "Remove it, then repeat the sweep."
    values = read_record(path, fix=fix)
    if values.get("ablation") == NOISE:
        return read(NoisePlan, values, source=str(path), fix=fix)
    return read(PlanRecord, values, source=str(path), fix=fix)
