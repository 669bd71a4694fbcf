"""Seed noise of a baseline, against statistics' own functions, and what plans and reports make of it."""

import statistics

import pytest
import scipy.stats

from lab.config.strict import ConfigError, plain, read
from lab.report import markdown
from lab.report.page import page
from lab.store.metric import named
from lab.store.noise_record import TWIN, load, save
from lab.store.run_record import RunRecord
from lab.verdict import seed_noise as noise
from lab.verdict import verdicts
from tests.synthetic_sweep import evidence, record, sweep

BASE = [1.50, 1.52, 1.47, 1.51, 1.49, 1.53, 1.48, 1.50]
BPB = named("val/bpb")


def runs(values, name="base", **options):
    listed = []
    for seed, value in enumerate(values):
        listed.append(read(RunRecord, record(f"{name}-{seed}", value, **options)))
    return listed


def test_seed_sd_is_relative_with_its_chi_square_interval():
    found = noise.summarise(runs(BASE)).metrics["val/bpb"]
    sd = statistics.stdev(BASE) / statistics.fmean(BASE)
    assert found.seed_sd == pytest.approx(sd) and found.n == 8
    low, high = (sd * (7 / scipy.stats.chi2.ppf(q, 7)) ** 0.5 for q in (0.975, 0.025))
    assert (found.seed_sd_low, found.seed_sd_high) == pytest.approx((low, high))
    assert found.paired_sd is None and found.unpaired_difference_sd == pytest.approx(2**0.5 * sd)


def test_paired_sd_is_pooled_over_the_arms_and_loses_what_seeds_share():
    near = [v * (1 + d) for v, d in zip(BASE, [0.001, -0.001] * 4, strict=True)]
    few = [v * (1 + d) for v, d in zip(BASE[:3], [0.01, 0.02, 0.03], strict=True)]
    made = noise.summarise(runs(BASE), {"near": runs(near, "near"), "few": runs(few, "few")})
    found = made.metrics["val/bpb"]
    assert found.pairs["near"].n == 8
    assert found.pairs["near"].sd == pytest.approx(statistics.stdev([0.001, -0.001] * 4))
    assert found.pairs["few"].sd == pytest.approx(0.01)
    assert found.paired_sd == pytest.approx(
        ((7 * statistics.stdev([0.001, -0.001] * 4) ** 2 + 2 * 0.01**2) / 9) ** 0.5
    )


def test_a_case_by_hand():
    """Values 1.9, 2.0, 2.1: mean 2, sd 0.1. The twin is 1 % worse, equal, 1 % better: sd 1 %. Chi-square
    for 2 degrees: 0.0506, 7.378.
    """
    made = noise.summarise(runs([1.9, 2.0, 2.1]), {TWIN: runs([1.919, 2.0, 2.079], "twin")})
    [row] = [row for row in noise.rows(made) if row["id"] == "val/bpb"]
    assert (row["n"], row["mean"], row["seed_sd"]) == (3, pytest.approx(2.0), pytest.approx(0.05))
    assert row["seed_sd_low"] == pytest.approx(0.02603, rel=1e-3)
    assert row["seed_sd_high"] == pytest.approx(0.3142, rel=1e-3)
    assert row["paired_sd"] == pytest.approx(0.01)
    assert row["smallest_margin"] == {"4": pytest.approx(0.01), "8": pytest.approx(0.01 / 2**0.5)}
    assert made.runs[TWIN] == {0: "twin-0", 1: "twin-1", 2: "twin-2"}
    assert made.metrics["val/bpb"].values == {
        "baseline": {0: 1.9, 1: 2.0, 2: 2.1},
        TWIN: {0: 1.919, 1: 2.0, 2: 2.079},
    }
    assert "val/entropy" not in made.metrics  # these runs don't know it


def test_unlike_runs_and_repeated_seeds_are_refused():
    with pytest.raises(ValueError, match="not alike"):
        noise.summarise(runs(BASE), {"other": runs(BASE, "other", torch="1.0.0")})
    with pytest.raises(ValueError, match="same seed"):
        noise.summarise(runs(BASE) + runs(BASE[:1], "again"))
    with pytest.raises(ValueError, match="1 finished runs"):
        noise.summarise(runs([1.5, "failed", "failed"]))
    with pytest.raises(
        ValueError, match=r"1 of \d+ runs diverged: the spread of the others would understate"
    ):
        noise.summarise(runs(BASE), {"near": runs([1.5, "diverged", 1.6])})


def test_stored_noise_is_what_a_plan_reads(tmp_path):
    assert load(tmp_path, "nano-stories-cpu") is None
    summary = noise.summarise(runs(BASE), {"near": runs(BASE, "near")})
    path = save(tmp_path, "nano-stories-cpu", summary)
    assert path == tmp_path / "noise" / "nano-stories-cpu.json"
    found = load(tmp_path, "nano-stories-cpu")
    assert found == summary and noise.seed_sd(found, BPB) == summary.metrics["val/bpb"].seed_sd
    assert noise.smallest_margin(found, BPB, seeds=4) == 0.0  # the twin repeats the baseline


def test_a_damaged_file_is_named(tmp_path):
    save(tmp_path, "nano-stories-cpu", noise.summarise(runs(BASE))).write_text("{")
    with pytest.raises(ConfigError, match="nano-stories-cpu.json: cannot be read .* run lab noise again"):
        load(tmp_path, "nano-stories-cpu")
    path = tmp_path / "noise" / "nano-stories-cpu.json"
    path.write_text('{"format": 1}')
    with pytest.raises(
        ConfigError, match="nano-stories-cpu.json: metrics: must be given. .* run lab noise again"
    ):
        load(tmp_path, "nano-stories-cpu")


def reported(measured):
    """(page, confounds) of a sweep of two arms, three seeds each, whose plan holds this noise."""
    plan, records = sweep({"plain_x4": [1.5, 1.5, 1.5], "plain_x8": [1.52, 1.53, 1.54]}, claims=[])
    plan["noise"] = plain(measured)
    found = evidence(plan, records)
    judged = verdicts.verdict(found)
    assert (found.noise is None) == ("left out" in " ".join(judged.confounds))
    return page(found, judged, []), judged.confounds


def test_reports_say_the_noise_next_to_the_verdicts_and_whose_it_is():
    measured = noise.summarise(runs([1.9, 2.0, 2.1]), {TWIN: runs([1.919, 2.0, 2.079], "twin")})
    content, confounds = reported(measured)
    line = (
        "Measured by lab noise: val/bpb of the baseline varies from seed to seed by 5 % (seed sd of "
        "3 seeds, 95 % interval 2.6 % to 31.4 %), "
        "its difference to a near twin of the same seed by 1 % (paired sd). Arms that differ by "
        "more than a twin vary by more than that: what these seeds can tell is in the intervals."
    )
    assert content.noise == (line,) and line in markdown.render(content)
    assert [c for c in confounds if "others than those of the baseline arm" in c]
    measured.runs["baseline"][0] = "plain_x4-0"
    assert not [c for c in reported(measured)[1] if "others than those of the baseline arm" in c]


def test_noise_of_unlike_runs_is_left_out_and_named():
    measured = noise.summarise(runs([1.9, 2.0, 2.1], torch="2.12.0"))
    content, confounds = reported(measured)
    assert content.noise == ()
    assert [c for c in confounds if c.endswith("unlike these: torch 2.12.0, not 2.13.0.")]


def test_few_seeds_carry_no_margin():
    few = noise.summarise(runs(BASE[:4]))
    assert noise.seed_sd(few, BPB) is None and noise.seed_sd(None, BPB) is None
