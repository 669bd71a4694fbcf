"""results/noise/<setting>.json: how much equal runs differ by their seed alone, as `lab noise` measured
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import plain, read
from lab.store.files import dumps, read_record, write_atomic
from lab.store.run_record import Likeness

SEEDS = 8
TWIN = "optimizer.eps=1.1e-8"  # 1e-8 in the baseline: another path through rounding, and no other change


@dataclass(frozen=True)
class PairedSpread:
    """The standard deviation, over n seeds, of one arm less the baseline of the same seed."""

    n: int
    sd: float


@dataclass(frozen=True)
class MetricNoise:
    """The noise of one metric, in the unit in which arms differ: fractions where the metric is relative.

    seed_sd: of the baseline over n seeds, with its 95 % interval (chi-square); unpaired_difference_sd:
    sqrt(2) times that. paired_sd: of an arm less the baseline of the same seed, pooled over `pairs`; None
    without any. values: the metric of every run by arm and seed, so that the rest can be computed again.
    """

    n: int
    mean: float
    seed_sd: float
    seed_sd_low: float
    seed_sd_high: float
    unpaired_difference_sd: float
    paired_sd: float | None
    pairs: dict[str, PairedSpread]
    values: dict[str, dict[int, float]]


@dataclass(frozen=True)
class NoiseRecord:
    """The noise of a setting: seeds, what its runs have in common, the runs by arm and seed, and each
    metric.
    """

    format: int
    seeds: tuple[int, ...]
    alike: Likeness
    runs: dict[str, dict[int, str]]
    metrics: dict[str, MetricNoise]


@dataclass(frozen=True)
class NoiseArm:
    """The baseline or its near twin: what sets it apart, and its runs by seed."""

    name: str
    overrides: tuple[str, ...]
    runs: dict[int, str]


@dataclass(frozen=True)
class NoisePlan:
    """plan.json of `lab noise`."""

    ablation: str
    setting: str
    device_kind: str
    seeds: tuple[int, ...]
    arms: tuple[NoiseArm, ...]

    def runs_of_arms(self) -> list[tuple[str, str]]:
        """(run, arm) of every run."""
        return [(run, arm.name) for arm in self.arms for run in arm.runs.values()]


def path(results: Path, setting: str) -> Path:
    """The file of a setting, <size>-<data>-<device>, with a digest where the text is the user's."""
    return results / "noise" / f"{setting}.json"


def save(results: Path, setting: str, record: NoiseRecord) -> Path:
    """Write a record where plans find it."""
    file = path(results, setting)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, dumps(plain(record), indent=1) + "\n")
    return file


def load(results: Path, setting: str) -> NoiseRecord | None:
    """The record of a setting; None where its noise has not been measured. Raises ConfigError for a
    damaged file.
    """
    file, fix = path(results, setting), "Remove it and run lab noise again."
    if not file.exists():
        return None
    return read(NoiseRecord, read_record(file, fix=fix), source=str(file), fix=fix)
