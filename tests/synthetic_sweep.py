"""A made-up sweep in the documented forms (plan.json, run records), for tests of claims and reports."""

import copy
import functools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from lab.config.strict import build, plain, read
from lab.store.claim import Claim, problems_of
from lab.store.exact_check import ExactCheck
from lab.store.plan_record import PlanRecord
from lab.store.run_record import RunRecord
from lab.verdict import verdicts
from lab.verdict.evidence import METRIC, Evidence, gather
from tests.paths import ROOT

BASIN = {
    "id": "basin",
    "statement": "1 to 10 is a basin",
    "source": "a paper",
    "prediction": "reproduced",
    "metric": "val/bpb",
    "needs": [],
    "predicate": {"basin": {"family": "plain", "inside": [1, 10], "margin": 0.025}},
}


def evidence(
    plan: dict[str, Any],
    records: Iterable[dict[str, Any]],
    *,
    metric: str = METRIC,
    exact: Sequence[dict[str, Any]] = (),
) -> Evidence:
    """The evidence of a plan and records in their forms on disk; checks may leave out what no verdict
    reads.
    """
    checks = [
        read(ExactCheck, {"expected": None, "measured": None, "note": "", "notes": None, **line})
        for line in exact
    ]
    listed = [read(RunRecord, found) for found in records]
    return gather(read(PlanRecord, plan), listed, exact=checks).by(metric)


def verdict(
    plan: dict[str, Any], records: Iterable[dict[str, Any]], *, exact: Sequence[dict[str, Any]] = ()
) -> Any:
    """verdict.json of a plan and records in their forms on disk."""
    return json.loads(json.dumps(plain(verdicts.verdict(evidence(plan, records, exact=exact)))))


def search_of(
    losses: dict[str, dict[str, list[float | None]]], *, at_init: dict[str, float] | None = None
) -> dict[str, Any]:
    """A search on seeds 100, 101, ... that knows its losses and picks no rate, as plan.json has it."""
    rates = next(iter(losses.values()))
    return {
        "key": "optimizer.lr",
        "metric": METRIC,
        "common": 0.006,
        "values": sorted(map(float, rates)),
        "seeds": [100 + n for n in range(len(next(iter(rates.values()))))],
        "arms": {},
        "losses": losses,
        "at_init": at_init or {},
        "means": {},
        "best": {},
        "interior": {},
        "sensitivity": {},
        "extended": 0,
    }


def noise_of(**metrics: dict[str, Any]) -> dict[str, Any]:
    """Noise measured beforehand on runs like those of `record`, as plan.json has it, with these numbers."""
    rest = {
        "mean": 1.5,
        "seed_sd_low": 0.0,
        "seed_sd_high": 1.0,
        "unpaired_difference_sd": 0.0,
        "pairs": {},
        "values": {},
    }
    alike = {
        "data": "d41d8cd98f",
        "device kind": "cpu",
        "numerics": 1,
        "precision": "float32",
        "scored bytes": 40_000,
        "torch": "2.13.0",
    }
    return {
        "format": 1,
        "seeds": list(range(8)),
        "alike": alike,
        "runs": {"baseline": {"0": "plain_x4-0"}},
        "metrics": {name: rest | numbers for name, numbers in metrics.items()},
    }


def decided(plan: dict[str, Any], records: Iterable[dict[str, Any]]) -> bool:
    """Whether further seeds could change no outcome any more."""
    return verdicts.decided(evidence(plan, records))


def claim_problems(claims: Sequence[Any], *, arms: Sequence[str], families: Sequence[str]) -> list[str]:
    """Everything wrong with claims in their form on disk."""
    problems: list[str] = []
    found = [
        build(Claim, values, where=f"claims[{number}].", problems=problems)
        for number, values in enumerate(claims)
    ]
    return problems + problems_of(found, arms=arms, families=families)


@functools.cache
def _config() -> str:
    """The configuration of a real run, as JSON."""
    lines = (ROOT / "results/ffn-ratio/nano-stories-cpu/runs.jsonl").read_text().splitlines()
    return json.dumps(json.loads(lines[0])["config"])


def config(**changed: Any) -> Any:
    """The configuration of a run, with `key=value` changed and `key={...}` merged in."""
    found = json.loads(_config())
    for key, value in changed.items():
        found[key] = found[key] | value if isinstance(value, dict) else value
    return found


def claim(**predicate: Any) -> dict[str, Any]:
    return {**BASIN, "id": "-".join(predicate), "predicate": predicate}


def sweep(
    values: dict[str, list[float | str | None]], *, claims: list[dict[str, Any]] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(plan, records) of arms named `<family>_x<ratio>`, the first one the baseline.

    `values` holds bits per byte per seed; a word is the state of a run that did not finish, None a run not
    started.
    """
    seeds = list(range(len(next(iter(values.values())))))
    arms, records = [], []
    for number, (name, results) in enumerate(values.items()):
        family, _, ratio = name.partition("_x")
        arms.append(
            {
                "name": name,
                "family": family,
                "label": f"{family} {ratio}x",
                "x": float(ratio),
                "overrides": [f"ffn_ratio={ratio}"],
                "shape": {
                    "d_model": 96,
                    "num_layers": 4,
                    "num_heads": 3,
                    "head_dim": 32,
                    "d_ff": 256,
                    "vocab_size": 1024,
                    "context_length": 256,
                },
                "counts": {
                    "parameters": 640_000 + 1_000 * number,
                    "body_parameters": 443_000,
                    "embedding_parameters": 197_000,
                    "flops_per_token": 4_000_000,
                },
                "mismatch": 0.001 * number,
                "steps": 300,
                "tokens": 307_200,
                "baseline": number == 0,
                "runs": {str(seed): f"{name}-{seed}" for seed in seeds},
            }
        )
        records += [
            record(f"{name}-{seed}", value)
            for seed, value in zip(seeds, results, strict=True)
            if value is not None
        ]
    plan = {
        "ablation": "ffn-ratio",
        "title": "Feed-forward width",
        "question": "Does d_ff / d_model matter?",
        "source": "CS336 lecture 3",
        "setting": "nano-stories-cpu",
        "size": "nano",
        "data": "stories",
        "device_kind": "cpu",
        "overrides": [],
        "flags": [],
        "seeds": seeds,
        "match": {"what": "body_parameters", "solve": "d_ff", "tolerance": 0.01},
        "x": {"key": "ffn_ratio", "label": "d_ff / d_model", "numeric": True},
        "arms": arms,
        "claims": [BASIN] if claims is None else claims,
        "notes": ["Nothing here speaks to sizes above 1M parameters."],
        "reference_lines": [{"label": "4-gram, Witten-Bell", "bpb": 1.15}],
    }
    return copy.deepcopy(plan), records


def record(run_id: str, value: float | str, *, torch: str = "2.13.0", lr: float = 0.003) -> dict[str, Any]:
    """One run record: finished with `value` bits per byte, or ended in the state `value`."""
    finished = not isinstance(value, str)
    final = value if finished else 2.0
    steps = range(1, 301)
    spikes = {
        "events": 1,
        "window": 100,
        "threshold": 4.0,
        "score_k4": 0.005,
        "score_k7": 0.0,
        "p999_over_median": 3.1,
    }
    evaluations = [60, 120, 180, 240, 300]
    summary = {
        "state": "finished" if finished else value,
        "reason": None if finished else "the loss was not finite",
        "steps": 300,
        "tokens": 307_200,
        "bytes": 970_000,
        "seconds": 40.0,
        "val/loss": 2.0,
        "val/bpb": value if finished else None,
        "val/bytes": 40_000 if finished else None,
        "val/excess_bpb": value - 1.0 if finished else None,
        "val/floor_bpb": 1.0 if finished else None,
        "skills": {
            "copy": {"words": 900, "floor": 0.0, "excess": 3 * value - 3, "accuracy": 0.9},
            "lexical": {"words": 500, "floor": 6.5, "excess": value - 1, "accuracy": 0.75},
        }
        if finished
        else {},
        "warning": None,
        "spikes": {"grad/norm": spikes, "train/loss": spikes},
        "unigram_bpb": 2.6,
    }
    wobble = sum(map(ord, run_id)) % 7 / 50
    return {
        "run_id": run_id,
        "state": summary["state"],
        "numerics": 1,
        "config": config(
            seed=int(run_id.rpartition("-")[2]) if "-" in run_id else 0,
            optimizer={"lr": lr},
            data_fingerprint="d41d8cd98f",
        ),
        "counts": {
            "parameters": 640_000,
            "body_parameters": 443_000,
            "embedding_parameters": 197_000,
            "flops_per_token": 4_000_000,
        },
        "provenance": {
            "commit": "0123abc",
            "clean": True,
            "source_hash": "0" * 16,
            "python": "3.11.7",
            "torch": torch,
            "device_kind": "cpu",
            "device": "Some CPU",
            "cores": 2,
            "threads": 1,
            "started": "2026-01-01T12:00:00+00:00",
        },
        "summary": summary if finished or value in ("diverged", "failed", "pruned") else None,
        "curves": {
            "train": [
                [
                    s,
                    s * 1024,
                    3 + 4 * math.exp(-s / 60),
                    (1 + 5 * math.exp(-s / 20)) * (1 + wobble * math.sin(s)),
                ]
                for s in steps[4::5]
            ],
            "validation": [[s, s * 1024, 2.0, final + 1.2 * math.exp(-s / 70)] for s in evaluations],
            "spikes": [[150, "grad/norm", 4.2, 7.5], [200, "train/loss", 3.3, 5.0]] if wobble > 0.05 else [],
        },
    }
