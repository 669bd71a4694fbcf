"""What did each arm of a plan measure, seed by seed?

`gather` joins a plan with run records (plain JSON, as lab/plan/planning.py and lab/store/run_store.py
write them) into arms whose values pair by seed. Only like runs pair: equal mathematics (NUMERICS), device
kind, precision, torch version, data and scored text. Where records differ in those, the largest group is
kept; the others are excluded and named, never averaged in. A run that never evaluated is not unlike for
that.

A diverged run enters as what it had before training (lab/verdict/metric.py) and is never dropped. A run
that failed, was lost, was pruned or has not ended leaves its arm incomplete: the planned seeds are the
sample, and no verdict rests on part of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.config.unusual import is_unusual
from lab.store.files import read_lines
from lab.verdict import lr_range
from lab.verdict.metric import SEARCHED, Metric, named, value_at_init, value_of

METRIC = "val/bpb"


@dataclass(frozen=True)
class Arm:
    """One arm: the state of every planned seed, the records that may be paired, and the metric of its runs.

    `states` maps seed to run state ("excluded" for a run unlike the others); `values` maps seed to metric
    and holds finished runs only, `at_init` those that diverged; `x` is None on an axis without numbers;
    `records` maps seed to the record of every run that is neither pending nor excluded.
    """

    name: str
    family: str
    label: str
    x: float | None
    baseline: bool
    states: dict[int, str]
    records: dict[int, dict[str, Any]]
    values: dict[int, float]
    at_init: dict[int, float] = field(default_factory=dict)

    @property
    def scores(self) -> dict[int, float]:
        """What each seed enters a test with."""
        return self.values | self.at_init

    @property
    def diverged(self) -> set[int]:
        return {seed for seed, state in self.states.items() if state == "diverged"}

    @property
    def missing(self) -> dict[int, str]:
        """Seeds without a number to enter with, and their state."""
        return {seed: state for seed, state in self.states.items() if seed not in self.scores}

    def only(self, seeds: Sequence[int]) -> Arm:
        """The arm as if just these seeds had been planned."""

        def kept(of: dict[int, Any]) -> dict[int, Any]:
            return {seed: value for seed, value in of.items() if seed in seeds}

        return replace(
            self,
            states=kept(self.states),
            records=kept(self.records),
            values=kept(self.values),
            at_init=kept(self.at_init),
        )


@dataclass(frozen=True)
class Evidence:
    """The arms of a plan by one metric, what their paired runs have in common, and the runs left out.

    `seeds` are those of the values, in the order they join; `lines` maps the labels of the plan's
    reference lines to bits per byte; `excluded` has {run_id, arm, seed, reason}; `search` is that of
    lab/verdict/lr_range.py; `noise` that of lab/verdict/seed_noise.py, None where it was measured on runs
    unlike these; `exact` maps claims to their lines of results/exact.jsonl.
    """

    arms: tuple[Arm, ...]
    metric: Metric
    seeds: tuple[int, ...]
    lines: dict[str, float] = field(default_factory=dict)
    alike: dict[str, Any] = field(default_factory=dict)
    excluded: tuple[dict[str, Any], ...] = ()
    search: dict[str, Any] | None = None
    noise: dict[str, Any] | None = None
    exact: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def baseline(self) -> Arm:
        return next(arm for arm in self.arms if arm.baseline)

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def family(self, name: str) -> list[Arm]:
        """The arms of a family by rising x, so that nothing depends on the order they are listed in."""
        return sorted(
            (arm for arm in self.arms if arm.family == name),
            key=lambda arm: (arm.x is None, arm.x or 0.0, arm.name),
        )

    def chosen(self, group: dict[str, Any]) -> list[Arm]:
        """The arms of {arm: NAME}, {arms: [NAME, ...]} or {family: NAME}."""
        if "family" in group:
            return self.family(group["family"])
        return [self.arm(name) for name in group.get("arms", [group.get("arm")])]

    def only(self, seeds: Sequence[int]) -> Evidence:
        """The evidence as if just these seeds had been planned."""
        if tuple(seeds) == self.seeds:
            return self
        return replace(self, arms=tuple(arm.only(seeds) for arm in self.arms), seeds=tuple(seeds))


def gather(
    plan: dict[str, Any],
    records: Sequence[dict[str, Any]],
    *,
    metric: str = METRIC,
    exact: Sequence[dict[str, Any]] = (),
) -> Evidence:
    """The evidence of `plan` in `records`; records of runs outside the plan are ignored.

    exact: lines of results/exact.jsonl. Metrics of the learning-rate search have the seeds of the search.
    """
    by_id = {record["run_id"]: record for record in records}
    planned = {run_id for arm in plan["arms"] for run_id in arm["runs"].values()}
    kinds = {run_id: likeness(by_id[run_id]) for run_id in sorted(planned & by_id.keys())}
    alike = _largest_group(list(kinds.values()))

    arms, excluded = [], []
    for entry in plan["arms"]:
        states, used = {}, {}
        values: dict[int, float] = {}
        at_init: dict[int, float] = {}
        for seed in plan["seeds"]:
            run_id = entry["runs"][str(seed)]
            if run_id not in by_id:
                states[seed] = "pending"
            elif not fits(kinds[run_id], alike):
                states[seed] = "excluded"
                differs = [
                    f"{key} {kinds[run_id][key]}, not {alike[key]}"
                    for key in alike
                    if kinds[run_id][key] not in (alike[key], None)
                ]
                excluded.append(
                    {"run_id": run_id, "arm": entry["name"], "seed": seed, "reason": "; ".join(differs)}
                )
            else:
                record = by_id[run_id]
                states[seed] = record["state"]
                if record["state"] not in ("pending", "running"):
                    used[seed] = record
                for state, kept, read in (
                    ("finished", values, value_of),
                    ("diverged", at_init, value_at_init),
                ):
                    if record["state"] == state and (value := read(record, metric)) is not None:
                        kept[seed] = value
        described = {key: entry[key] for key in ("name", "family", "label", "x", "baseline")}
        arms.append(Arm(**described, states=states, records=used, values=values, at_init=at_init))
    found = Evidence(
        tuple(arms),
        named(metric),
        tuple(plan["seeds"]),
        lines={line["label"]: line["bpb"] for line in plan["reference_lines"]},
        alike=alike,
        excluded=tuple(excluded),
        search=plan.get("search"),
        noise=_fitting(plan.get("noise"), alike),
        exact={
            claim: [line for line in exact if line["claim"] == claim]
            for claim in sorted({line["claim"] for line in exact})
        },
    )
    return _searched(found) if metric.startswith(SEARCHED) else found


def run_ids(plan: dict[str, Any]) -> list[str]:
    """Every run of a plan, each once: those that judge, those at one learning rate, those of the search."""
    return list(dict.fromkeys(name for names, _ in _runs(plan) for name in names))


def runs_of_arms(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """(run, arm) of every run of a plan."""
    return [
        (name, arm if isinstance(arm, str) else arm["name"]) for names, arm in _runs(plan) for name in names
    ]


def _runs(plan: dict[str, Any]) -> list[tuple[list[str], Any]]:
    """Runs with the entry or the name of their arm."""
    keys = ("runs", "runs_same_lr")
    found: list[tuple[list[str], Any]] = [
        (list(arm.get(key, {}).values()), arm) for key in keys for arm in plan["arms"]
    ]
    searched = plan.get("searching") or plan.get("search", {}).get("arms", {})
    return found + [(list(of.values()), arm) for arm, rates in searched.items() for of in rates.values()]


def is_searched(plan: dict[str, Any]) -> bool:
    """Whether each arm of the plan trains at its own best rate; a bare table of losses picks none."""
    return "best" in (plan.get("search") or {})


def conditions(plan: dict[str, Any], records: Sequence[dict[str, Any]]) -> list[str]:
    """What sets a sweep apart from others of its size and data: overrides of all arms, and stories of the
    recipe before knobs.
    """
    found = [text for text in plan["overrides"] if is_unusual(text)]
    told = [data for record in records if (data := record["config"].get("data", {})).get("name") == "stories"]
    if any("grammar" not in data for data in told):
        found.append("the first recipe of stories")
    return found


def at_one_rate(plan: dict[str, Any]) -> dict[str, Any]:
    """The searched plan as if every arm had been trained with the common learning rate."""
    return plan | {"arms": [arm | {"runs": arm["runs_same_lr"]} for arm in plan["arms"]]}


def exact_lines(results: Path) -> list[dict[str, Any]]:
    """The lines of results/exact.jsonl: {"claim", "check", "expected", "measured", "holds", "note"} each;
    none before it is written.
    """
    return list(read_lines(results / "exact.jsonl"))


def pooled(arms: Sequence[Arm], label: str) -> Arm:
    """Several arms as one, whose score is their mean within a seed; it diverged where one of them did."""
    first, shared = arms[0], set.intersection(*(set(arm.scores) for arm in arms))
    if len(arms) == 1:
        return first
    diverged = set.union(*(arm.diverged for arm in arms))
    scores = {seed: fmean(arm.scores[seed] for arm in arms) for seed in sorted(shared)}
    return Arm(
        name="+".join(arm.name for arm in arms),
        family=first.family,
        label=label,
        x=None,
        baseline=False,
        states={seed: "diverged" if seed in diverged else "finished" for seed in scores},
        records={},
        values={seed: score for seed, score in scores.items() if seed not in diverged},
        at_init={seed: score for seed, score in scores.items() if seed in diverged},
    )


def _searched(found: Evidence) -> Evidence:
    """The same arms with what the search of learning rates measured of them, a value for each of its seeds."""
    search = found.search or {"seeds": [], "losses": {}}
    arms = []
    for arm in found.arms:
        values: dict[int, float] = {}
        if arm.name in search["losses"]:
            values = lr_range.measured(search, arm.name, found.metric.name.removeprefix(SEARCHED))
        without = "diverged" if arm.name in search["losses"] else "pending"
        states = {seed: "finished" if seed in values else without for seed in search["seeds"]}
        arms.append(replace(arm, states=states, values=values, at_init={}, records={}))
    return replace(found, arms=tuple(arms), seeds=tuple(search["seeds"]))


def likeness(record: dict[str, Any]) -> dict[str, Any]:
    """What two runs must share before their difference says anything about the arm; None where a run
    doesn't know it.
    """
    summary = record["summary"] or {}  # none before the run has ended
    return {
        "numerics": record["numerics"],
        "device kind": record["provenance"]["device_kind"],
        "precision": record["config"]["precision"]["dtype"],
        "torch": record["provenance"]["torch"],
        "data": record["config"]["data_fingerprint"],
        "scored bytes": summary.get("val/bytes"),  # a failed run's summary lacks it
    }


def fits(kind: dict[str, Any], group: dict[str, Any]) -> bool:
    """Whether all that is known of a run agrees with a group's likeness."""
    return all(kind[key] in (group[key], None) for key in group)


def _fitting(noise: dict[str, Any] | None, alike: dict[str, Any]) -> dict[str, Any] | None:
    """The noise of the plan, unless its runs are known to be unlike those that are paired."""
    return noise if noise and (not alike or fits(alike, noise["alike"])) else None


def relative_differences(a: Arm, b: Arm) -> list[float]:
    """a / b - 1 per seed that both arms finished, by rising seed: what a figure can draw."""
    return [a.values[seed] / b.values[seed] - 1 for seed in sorted(a.values.keys() & b.values.keys())]


def _largest_group(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """The likeness most runs fit; ties go to the last in text order, so that the choice is reproducible."""
    if not kinds:
        return {}
    counts = Counter(json.dumps(kind, sort_keys=True) for kind in kinds)
    known = {text: json.loads(text) for text in counts}
    sizes = {
        text: sum(counts[other] for other in counts if fits(known[other], group))
        for text, group in known.items()
    }
    return known[max(sizes, key=lambda text: (sizes[text], text))]
