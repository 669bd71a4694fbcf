"""Seed noise of a baseline, against statistics' own functions."""

import statistics

import pytest
import scipy.stats

from lab import noise
from lab.metric import named
from tests.synthetic_sweep import record

BASE = [1.50, 1.52, 1.47, 1.51, 1.49, 1.53, 1.48, 1.50]
BPB = named("val/bpb")


def runs(values, name="base", **options):
    listed = []
    for seed, value in enumerate(values):
        listed.append(record(f"{name}-{seed}", value, **options))
        listed[-1]["config"]["seed"] = seed
    return listed


def test_seed_sd_is_relative_with_its_chi_square_interval():
    found = noise.summarise(runs(BASE))["metrics"]["val/bpb"]
    sd = statistics.stdev(BASE) / statistics.fmean(BASE)
    assert found["seed_sd"] == pytest.approx(sd) and found["n"] == 8
    low, high = (sd * (7 / scipy.stats.chi2.ppf(q, 7)) ** 0.5 for q in (0.975, 0.025))
    assert (found["seed_sd_low"], found["seed_sd_high"]) == pytest.approx((low, high))
    assert found["paired_sd"] is None and found["unpaired_difference_sd"] == pytest.approx(2**0.5 * sd)


def test_paired_sd_is_pooled_over_the_arms_and_loses_what_seeds_share():
    near = [v * (1 + d) for v, d in zip(BASE, [0.001, -0.001] * 4, strict=True)]
    few = [v * (1 + d) for v, d in zip(BASE[:3], [0.01, 0.02, 0.03], strict=True)]
    found = noise.summarise(runs(BASE), {"near": runs(near, "near"), "few": runs(few, "few")})["metrics"][
        "val/bpb"
    ]
    assert found["pairs"]["near"] == {"n": 8, "sd": pytest.approx(statistics.stdev([0.001, -0.001] * 4))}
    assert found["pairs"]["few"]["sd"] == pytest.approx(0.01)
    assert found["paired_sd"] == pytest.approx(
        ((7 * statistics.stdev([0.001, -0.001] * 4) ** 2 + 2 * 0.01**2) / 9) ** 0.5
    )


def test_unlike_runs_and_repeated_seeds_are_refused():
    with pytest.raises(ValueError, match="not alike"):
        noise.summarise(runs(BASE), {"other": runs(BASE, "other", torch="1.0.0")})
    with pytest.raises(ValueError, match="same seed"):
        noise.summarise(runs(BASE) + runs(BASE[:1], "again"))
    with pytest.raises(ValueError, match="1 finished runs"):
        noise.summarise(runs([1.5, "diverged", "failed"]))


def test_stored_noise_is_what_a_plan_reads(tmp_path):
    assert noise.load(tmp_path, "nano-stories-cpu") is None
    summary = noise.summarise(runs(BASE), {"near": runs(BASE, "near")})
    path = noise.store(tmp_path, "nano-stories-cpu", summary)
    assert path == tmp_path / "noise" / "nano-stories-cpu.json"
    read = noise.load(tmp_path, "nano-stories-cpu")
    assert read == summary and noise.seed_sd(read, BPB) == summary["metrics"]["val/bpb"]["seed_sd"]
    assert noise.smallest_margin(read, BPB, seeds=4) == 0.0  # the twin repeats the baseline


def test_few_seeds_carry_no_margin():
    few = noise.summarise(runs(BASE[:4]))
    assert noise.seed_sd(few, BPB) is None and noise.seed_sd(None, BPB) is None
