"""verdict.json: what became of each arm and of each claim of a plan, with the figures behind it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lab.config.strict import absent, plain, read
from lab.store.files import read_record
from lab.store.plan_record import AxisRecord, MatchRecord
from lab.store.predicate_forms import Predicate
from lab.store.run_record import Likeness
from lab.verdict.direction import Direction
from lab.verdict.evidence import Excluded
from lab.verdict.stats import Estimate


@dataclass(frozen=True, kw_only=True)
class Triple:
    """A number for each of: the claim is true, it is false, its difference is too small to matter.

    small is None where nothing has a margin to be small by.
    """

    true: float
    false: float
    small: float | None


@dataclass(frozen=True)
class ArmLevel:
    """How an arm did at a learning rate that all arms share, in bits a byte."""

    lr: float
    states: dict[str, int]
    bpb: Estimate | None
    difference: Estimate | None
    difference_percent: Estimate | None


@dataclass(frozen=True)
class ArmAtHorizon:
    """How an arm did at one horizon: bits a byte, those above the exact floor, and the paired difference to
    the baseline.
    """

    tokens: int
    bpb: Estimate | None
    excess_bpb: Estimate | None
    difference_percent: Estimate | None


@dataclass(frozen=True)
class ArmVerdict:
    """One arm: level, spread, and paired difference to the baseline over the seeds both have, in bits a byte.

    states counts the runs; values has the finished seeds, at_init what diverged ones enter with. There is
    no difference where both diverged for the same seed. Of a searched plan also the best learning rate,
    whether it lies inside the grid, the mean loss above the best one, and how the arm does at the common
    rate, if it was trained there. path: of a plan with horizons, how it did at each.
    """

    name: str
    family: str
    label: str
    x: float | None
    baseline: bool
    states: dict[str, int]
    values: dict[int, float]
    at_init: dict[int, float]
    bpb: Estimate | None
    difference: Estimate | None
    difference_percent: Estimate | None
    best_lr: float | None = absent(None)
    interior: bool | None = absent(None)
    lr_sensitivity: float | None = absent(None)
    same_lr: ArmLevel | None = absent(None)
    path: tuple[ArmAtHorizon, ...] = absent(())

    def to_plain(self) -> dict[str, Any]:
        searched = ("best_lr", "interior", "lr_sensitivity")  # null stands for a range that is not known
        left_out = [*(searched if self.best_lr is None else ())]
        left_out += [name for name in ("same_lr", "path") if not getattr(self, name)]
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name not in left_out}


@dataclass(frozen=True)
class PairEstimate:
    """What one arm differs from another by: in percent where the metric is relative, else in its unit.

    Both are None where no test was made. diverged has the arms with diverged runs.
    """

    arm: str
    against: str
    relative_percent: Estimate | None
    diverged: tuple[str, ...]
    difference: Estimate | None = absent(None)
    unit: str | None = absent(None)

    def to_plain(self) -> dict[str, Any]:
        left_out = (
            ("difference", "unit") if self.unit is None else ()
        )  # null stands for a test that was not made
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name not in left_out}


@dataclass(frozen=True)
class PartVerdict:
    """One statement of a claim: "holds", "fails", "too small to matter", "open" or "not run", and its p
    values.
    """

    statement: str
    answer: str
    p_values: Triple | None


@dataclass(frozen=True)
class SameRateOutcome:
    """What a claim comes to with all arms at the common learning rate."""

    lr: float
    outcome: str
    why: str
    seeds: int
    looks: tuple[int, ...]


@dataclass(frozen=True)
class ClaimVerdict:
    """What became of one claim.

    p_values and levels are those of all its statements together. detectable: the smallest effect that
    these seeds find with 80 % power, in words, None where it isn't seeds that leave the claim open;
    detectable_percent the same as a number where the metric is relative. seeds and looks: after how many
    seeds it was judged, and those at which it might have been.
    """

    id: str
    statement: str
    source: str
    prediction: str
    metric: str
    predicate: Predicate
    family: str | None
    outcome: str
    why: str
    parts: tuple[PartVerdict, ...]
    estimates: tuple[PairEstimate, ...]
    p_values: Triple | None
    levels: Triple | None
    detectable: str | None
    detectable_percent: float | None
    margins_percent: tuple[float, ...]
    seeds: int
    looks: tuple[int, ...]
    same_lr: SameRateOutcome | None = absent(None)
    direction: Direction | None = absent(None)


@dataclass(frozen=True)
class Verdict:
    """The whole of verdict.json. alike: what all paired runs share, None where nothing ran."""

    format: int
    ablation: str
    title: str
    question: str
    source: str
    setting: str
    seeds: tuple[int, ...]
    match: MatchRecord
    x: AxisRecord
    metric: str
    alike: Likeness | None
    arms: tuple[ArmVerdict, ...]
    claims: tuple[ClaimVerdict, ...]
    excluded: tuple[Excluded, ...]
    confounds: tuple[str, ...]
    protocol: int = absent(1)
    horizons: tuple[int, ...] = absent(())


def load(path: Path) -> Verdict:
    """The verdict of a file. Raises ConfigError naming the file, the key and the fix."""
    fix = "Rebuild it with lab report."
    return read(Verdict, read_record(path, fix=fix), source=str(path), fix=fix)
