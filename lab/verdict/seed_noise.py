"""How much do equal runs differ by their seed alone, before any arm is compared?

`lab noise` measures it with 8 seeds of the baseline per size and data. The *seed sd* is the spread of the
baseline itself: what an unpaired comparison has to beat by sqrt(2). The *paired sd* is the spread, over
seeds, of an arm less the baseline of the same seed. One arm can't show it, so it is pooled over whatever
other arms ran with these seeds; best is an arm that changes nothing that matters, the near twin: then it
is what pairing leaves of the noise.

    results/noise/<setting>.json    {"format", "seeds", "alike", "runs": {"baseline": {seed: run}, ARM: ...}, "metrics": {NAME: ...}}

Each metric has its value of every run, so that the rest can be computed again. A plan holds the content of
the file of its setting under "noise"; margins may refer to it as {seed_sds: 2}.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.store.files import dumps, read_record, write_atomic
from lab.verdict.evidence import likeness
from lab.verdict.metric import Metric, named, value_of

SEEDS = 8
ENOUGH = 5  # seeds a margin may refer to
TWIN = "optimizer.eps=1.1e-8"  # 1e-8 in the baseline: another path through rounding, and no other change
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
SEEDS_TOLD = (4, 8)  # for which `lab noise` prints the smallest margin


def summarise(
    baseline: Sequence[dict[str, Any]],
    arms: dict[str, Sequence[dict[str, Any]]] | None = None,
    *,
    metrics: Sequence[str] = METRICS,
) -> dict[str, Any]:
    """Seed sd of the finished `baseline` records and paired sd of the `arms`' records against them, by
    metric.

    Standard deviations have the unit in which arms differ: fractions for relative metrics. `seed_sd_low`
    and `_high` are the 95 % interval of the seed sd (chi-square). Raises ValueError for records that are
    not alike or repeat a seed, and where some diverged.
    """
    every = [*baseline, *(record for of in (arms or {}).values() for record in of)]
    if diverged := sum(record["state"] == "diverged" for record in every):
        raise ValueError(
            f"{diverged} of {len(every)} runs diverged: the spread of the others would understate the noise. Lower optimizer.lr"
        )
    first = _finished(baseline)
    others = {name: _finished(records) for name, records in (arms or {}).items()}
    kinds = {
        json.dumps(likeness(record), sort_keys=True)
        for of in (first, *others.values())
        for record in of.values()
    }
    if len(kinds) > 1:
        raise ValueError(
            "the runs are not alike: they differ in mathematics, device, precision, torch, data or scored text. "
            "lab noise --retry trains those of another torch or kind of device again"
        )
    if len(first) < 2:
        raise ValueError(f"{len(first)} finished runs of the baseline: noise needs 2 seeds at least")
    return {
        "format": 1,
        "seeds": sorted(first),
        "runs": {
            name: {str(seed): records[seed]["run_id"] for seed in sorted(records)}
            for name, records in ({"baseline": first} | others).items()
        },
        "alike": json.loads(kinds.pop()),
        "metrics": {name: found for name in metrics if (found := _measure(named(name), first, others))},
    }


def seed_sd(noise: dict[str, Any] | None, metric: Metric) -> float | None:
    """The baseline's seed sd in the unit of the metric's differences; None where it was not measured with
    enough seeds.
    """
    found = (noise or {"metrics": {}})["metrics"].get(metric.name)
    return found["seed_sd"] if found and found["n"] >= ENOUGH else None


def paired_sd(noise: dict[str, Any] | None, metric: Metric) -> float | None:
    """The spread of paired differences in their unit; None where it was not measured."""
    found = (noise or {"metrics": {}})["metrics"].get(metric.name)
    return found["paired_sd"] if found else None


def smallest_margin(noise: dict[str, Any] | None, metric: Metric, *, seeds: int) -> float | None:
    """The margin below which so many seeds can hardly tell: two paired standard errors."""
    sd = paired_sd(noise, metric)
    return None if sd is None else SDS_PER_MARGIN * sd / math.sqrt(seeds)


def in_numbers(margin: Any, noise: dict[str, Any] | None, metric: Metric) -> float | None:
    """A margin of a claim in the unit of the metric's differences; None where it refers to noise that is
    not known.
    """
    if not isinstance(margin, dict):
        return None if margin is None else float(margin)
    sd = seed_sd(noise, metric)
    return None if sd is None else float(margin["seed_sds"] * sd)


def path(results: Path, setting: str) -> Path:
    """The file of a setting, <size>-<data>-<device>, with a digest where the text is the user's
    (lab/plan/planning.py).
    """
    return results / "noise" / f"{setting}.json"


def store(results: Path, setting: str, summary: dict[str, Any]) -> Path:
    """Write a summary where plans find it."""
    file = path(results, setting)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, dumps(summary, indent=1) + "\n")
    return file


def load(results: Path, setting: str) -> dict[str, Any] | None:
    """The summary of a setting; None where its noise has not been measured. Raises ConfigError for a
    damaged file.
    """
    file = path(results, setting)
    return read_record(file, fix="Remove it and run lab noise again.") if file.exists() else None


def rows(noise: dict[str, Any]) -> list[dict[str, Any]]:
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
            **{
                key: found[key]
                for key in ("n", "mean", "seed_sd", "seed_sd_low", "seed_sd_high", "paired_sd")
            },
            "smallest_margin": {str(n): smallest_margin(noise, named(name), seeds=n) for n in SEEDS_TOLD},
        }
        for name, found in noise["metrics"].items()
    ]


def sentence(noise: dict[str, Any], metric: Metric) -> str | None:
    """What was measured of a metric; None where it was not measured."""
    found = noise["metrics"].get(metric.name)
    if found is None:
        return None
    text = (
        f"{metric.name} of the baseline varies from seed to seed by {metric.amount(found['seed_sd'])} (seed sd of {found['n']} "
        f"seeds, 95 % interval {metric.amount(found['seed_sd_low'])} to {metric.amount(found['seed_sd_high'])})"
    )
    if found["paired_sd"] is None:
        return f"{text}."
    return (
        f"{text}, its difference to a near twin of the same seed by {metric.amount(found['paired_sd'])} (paired sd). Arms that differ "
        "by more than a twin vary by more than that: what these seeds can tell is in the intervals."
    )


def _finished(records: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The finished records by seed."""
    ended = [record for record in records if record["state"] == "finished"]
    found = {record["config"]["seed"]: record for record in ended}
    if len(found) < len(ended):
        raise ValueError("two runs of one arm have the same seed")
    return found


def _measure(
    metric: Metric, baseline: dict[int, dict[str, Any]], others: dict[str, dict[int, dict[str, Any]]]
) -> dict[str, Any] | None:
    """The noise of one metric; None where a run doesn't know it or its mean, which is to be divided by, is 0."""
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
            pairs[name] = {"n": len(sample), "sd": statistics.stdev(sample)}
    degrees = sum(pair["n"] - 1 for pair in pairs.values())
    pooled = sum((pair["n"] - 1) * pair["sd"] ** 2 for pair in pairs.values())
    return {
        "n": n,
        "mean": mean,
        "seed_sd": sd,
        "seed_sd_low": sd * math.sqrt((n - 1) / float(chdtri(n - 1, 0.025))),
        "seed_sd_high": sd * math.sqrt((n - 1) / float(chdtri(n - 1, 0.975))),
        "unpaired_difference_sd": math.sqrt(2) * sd,
        "paired_sd": math.sqrt(pooled / degrees) if degrees else None,
        "pairs": pairs,
        "values": {name: {str(seed): of[seed] for seed in sorted(of)} for name, of in listed.items()},
    }


def _values(metric: Metric, records: dict[int, dict[str, Any]]) -> dict[int, float]:
    found = {seed: value_of(record, metric.name) for seed, record in records.items()}
    return {seed: value for seed, value in found.items() if value is not None}
