"""How much do equal runs differ by their seed alone, before any arm is compared?

`lab noise` measures it with 8 seeds of the baseline per size and data. The *seed sd* is the spread of the
baseline itself: what an unpaired comparison has to beat by sqrt(2). The *paired sd* is the spread, over
seeds, of an arm less the baseline of the same seed. One arm can't show it, so it is pooled over whatever
other arms ran with these seeds; best is an arm that changes nothing that matters, the near twin: then it
is what pairing leaves of the noise.

Each metric has its value of every run, so that the rest can be computed again. A plan holds the content of
the file of its setting under "noise"; margins may refer to it as {seed_sds: 2}.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from lab.store.metric import Metric, named, value_of
from lab.store.noise_record import MetricNoise, NoiseRecord, PairedSpread
from lab.store.predicate_forms import Margin
from lab.store.run_record import RunRecord, likeness
from lab.verdict import wording
from lab.verdict.comparison import compare
from lab.verdict.evidence import Evidence

ENOUGH = 5  # seeds a margin may refer to
METRICS = (
    "val/bpb",
    "val/excess_bpb",
    "val/entropy",
    "train/loss",
    "gap",
    "peak/attention/logit_max",
    "spikes/grad/norm/score_k4",
)
SDS_PER_MARGIN = 2
SHOWN = ("n", "mean", "seed_sd", "seed_sd_low", "seed_sd_high", "paired_sd")
SEEDS_TOLD = (4, 8)  # for which `lab noise` prints the smallest margin


def summarise(
    baseline: Sequence[RunRecord],
    arms: dict[str, Sequence[RunRecord]] | None = None,
    *,
    metrics: Sequence[str] = METRICS,
) -> NoiseRecord:
    """Seed sd of the finished `baseline` records and paired sd of the `arms`' records against them, by
    metric.

    Standard deviations have the unit in which arms differ: fractions for relative metrics. `seed_sd_low`
    and `_high` are the 95 % interval of the seed sd (chi-square). Raises ValueError for records that are
    not alike or repeat a seed, and where some diverged.
    """
    every = [*baseline, *(record for of in (arms or {}).values() for record in of)]
    if diverged := sum(record.state == "diverged" for record in every):
        raise ValueError(
            f"{diverged} of {len(every)} runs diverged: the spread of the others would understate the noise. "
            "Lower optimizer.lr"
        )
    first = _finished(baseline)
    others = {name: _finished(records) for name, records in (arms or {}).items()}
    kinds = {likeness(record) for of in (first, *others.values()) for record in of.values()}
    if len(kinds) > 1:
        raise ValueError(
            "the runs are not alike: they differ in mathematics, device, precision, torch, data or scored "
            "text. lab noise --retry trains those of another torch or kind of device again"
        )
    if len(first) < 2:
        raise ValueError(f"{len(first)} finished runs of the baseline: noise needs 2 seeds at least")
    return NoiseRecord(
        format=1,
        seeds=tuple(sorted(first)),
        runs={
            name: {seed: records[seed].run_id for seed in sorted(records)}
            for name, records in ({"baseline": first} | others).items()
        },
        alike=kinds.pop(),
        metrics={name: found for name in metrics if (found := _measure(named(name), first, others))},
    )


def seed_sd(noise: NoiseRecord | None, metric: Metric) -> float | None:
    """The baseline's seed sd in the unit of the metric's differences; None where it was not measured with
    enough seeds.
    """
    found = noise.metrics.get(metric.name) if noise else None
    return found.seed_sd if found and found.n >= ENOUGH else None


def paired_sd(noise: NoiseRecord | None, metric: Metric) -> float | None:
    """The spread of paired differences in their unit; None where it was not measured."""
    found = noise.metrics.get(metric.name) if noise else None
    return found.paired_sd if found else None


def pooled_sd(sweeps: Iterable[Evidence]) -> float | None:
    """The spread of paired differences to the baseline over seeds, pooled over the arms of sweeps, in the
    unit of their metric; None without two seeds of a pair.
    """
    degrees, total = 0, 0.0
    for evidence in sweeps:
        for arm in evidence.arms:
            pair = compare(arm, evidence.baseline, evidence.metric)
            if arm.baseline or pair.diverged or len(pair.sample) < 2:
                continue
            degrees += len(pair.sample) - 1
            total += (len(pair.sample) - 1) * statistics.variance(pair.sample)
    return math.sqrt(total / degrees) if degrees else None


def smallest_margin(noise: NoiseRecord | None, metric: Metric, *, seeds: int) -> float | None:
    """The margin below which so many seeds can hardly tell: two paired standard errors."""
    sd = paired_sd(noise, metric)
    return None if sd is None else SDS_PER_MARGIN * sd / math.sqrt(seeds)


def in_numbers(margin: Margin, noise: NoiseRecord | None, metric: Metric) -> float | None:
    """A margin of a claim in the unit of the metric's differences; None where it refers to noise that is
    not known.
    """
    if margin.seed_sds is None:
        return margin.number
    sd = seed_sd(noise, metric)
    return None if sd is None else margin.seed_sds * sd


def rows(noise: NoiseRecord) -> list[dict[str, Any]]:
    """A record for each metric: mean, seed sd, paired sd and, for each of `SEEDS_TOLD`, the smallest
    margin they tell.

    All but n and the mean have the unit in which arms differ: fractions where `relative`.
    """
    return [
        {
            "id": name,
            "state": "measured",
            "relative": named(name).relative,
            "unit": named(name).unit,
            **{key: getattr(found, key) for key in SHOWN},
            "smallest_margin": {str(n): smallest_margin(noise, named(name), seeds=n) for n in SEEDS_TOLD},
        }
        for name, found in noise.metrics.items()
    ]


def sentence(noise: NoiseRecord, metric: Metric) -> str | None:
    """What was measured of a metric; None where it was not measured."""
    found = noise.metrics.get(metric.name)
    if found is None:
        return None
    sd, low, high = (
        wording.amount(metric, size) for size in (found.seed_sd, found.seed_sd_low, found.seed_sd_high)
    )
    text = (
        f"{metric.name} of the baseline varies from seed to seed by {sd} (seed sd of {found.n} "
        f"seeds, 95 % interval {low} to {high})"
    )
    if found.paired_sd is None:
        return f"{text}."
    return (
        f"{text}, its difference to a near twin of the same seed by "
        f"{wording.amount(metric, found.paired_sd)} "
        "(paired sd). Arms that differ by more than a twin vary by more than that: what these seeds can tell "
        "is in the intervals."
    )


def _finished(records: Sequence[RunRecord]) -> dict[int, RunRecord]:
    """The finished records by seed."""
    ended = [record for record in records if record.state == "finished"]
    found = {record.seed: record for record in ended}
    if len(found) < len(ended):
        raise ValueError("two runs of one arm have the same seed")
    return found


def _measure(
    metric: Metric, baseline: dict[int, RunRecord], others: dict[str, dict[int, RunRecord]]
) -> MetricNoise | None:
    """The noise of one metric; None where a run doesn't know it or its mean, which is to be divided by, is
    0.
    """
    from scipy.special import chdtri

    values = _values(metric, baseline)
    if len(values) < len(baseline):
        return None
    listed = {"baseline": values}
    n, mean = len(values), math.fsum(values.values()) / len(values)
    unit = mean if metric.relative else 1.0
    if unit == 0:
        return None
    sd = statistics.stdev(values.values()) / unit
    pairs = {}
    for name, records in others.items():
        listed[name] = rival = _values(metric, records)
        sample = [metric.worse_by(rival[seed], values[seed]) for seed in sorted(values.keys() & rival.keys())]
        if len(sample) > 1:
            pairs[name] = PairedSpread(len(sample), statistics.stdev(sample))
    degrees = sum(pair.n - 1 for pair in pairs.values())
    pooled = sum((pair.n - 1) * pair.sd**2 for pair in pairs.values())
    return MetricNoise(
        n=n,
        mean=mean,
        seed_sd=sd,
        seed_sd_low=sd * math.sqrt((n - 1) / float(chdtri(n - 1, 0.025))),
        seed_sd_high=sd * math.sqrt((n - 1) / float(chdtri(n - 1, 0.975))),
        unpaired_difference_sd=math.sqrt(2) * sd,
        paired_sd=math.sqrt(pooled / degrees) if degrees else None,
        pairs=pairs,
        values={name: {seed: of[seed] for seed in sorted(of)} for name, of in listed.items()},
    )


def _values(metric: Metric, records: dict[int, RunRecord]) -> dict[int, float]:
    found = {seed: value_of(record, metric.name) for seed, record in records.items()}
    return {seed: value for seed, value in found.items() if value is not None}
