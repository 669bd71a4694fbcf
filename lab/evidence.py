"""What did each arm of a plan measure, seed by seed?

`gather` joins a plan with run records (both plain JSON, the forms documented in lab/runs.py) into arms whose values
pair by seed. Only like runs pair: equal mathematics (NUMERICS), device kind, precision, torch version, data and
scored text. Where records differ in those, the largest group is kept; the others are excluded and named, never averaged
in. A run that never evaluated is not unlike for that.

A diverged run counts as worse than every run that did not diverge. A run that failed, was lost, was pruned or has
not ended leaves its arm incomplete: the planned seeds are the sample, and no verdict rests on part of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

METRIC = "val/bpb"


@dataclass(frozen=True)
class Arm:
    """One arm: the state of every planned seed, the records that may be paired, and the metric of finished runs.

    `states` maps seed to run state ("excluded" for a run unlike the others); `values` maps seed to metric and holds
    finished runs only; `x` is None on an axis without numbers; `records` maps seed to the record of every run that is neither pending nor excluded.
    """

    name: str
    family: str
    label: str
    x: float | None
    baseline: bool
    states: dict[int, str]
    records: dict[int, dict[str, Any]]
    values: dict[int, float]

    @property
    def diverged(self) -> bool:
        return "diverged" in self.states.values()

    @property
    def missing(self) -> dict[int, str]:
        """Seeds without a result, with their state."""
        return {
            seed: state
            for seed, state in self.states.items()
            if seed not in self.values and state != "diverged"
        }


@dataclass(frozen=True)
class Evidence:
    """The arms of a plan, what their paired runs have in common, and the runs left out as {run_id, arm, seed, reason}.

    `lines` maps the labels of the plan's reference lines to bits per byte.
    """

    arms: tuple[Arm, ...]
    lines: dict[str, float]
    alike: dict[str, Any]
    excluded: tuple[dict[str, Any], ...]

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


def gather(plan: dict[str, Any], records: Sequence[dict[str, Any]], *, metric: str = METRIC) -> Evidence:
    """The evidence of `plan` in `records`; records of runs outside the plan are ignored."""
    by_id = {record["run_id"]: record for record in records}
    planned = {run_id for arm in plan["arms"] for run_id in arm["runs"].values()}
    kinds = {run_id: likeness(by_id[run_id]) for run_id in sorted(planned & by_id.keys())}
    alike = _largest_group(list(kinds.values()))

    arms, excluded = [], []
    for entry in plan["arms"]:
        states, used, values = {}, {}, {}
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
                if record["state"] == "finished" and record["summary"][metric] is not None:
                    values[seed] = record["summary"][metric]
        described = {key: entry[key] for key in ("name", "family", "label", "x", "baseline")}
        arms.append(Arm(**described, states=states, records=used, values=values))
    lines = {line["label"]: line["bpb"] for line in plan["reference_lines"]}
    return Evidence(tuple(arms), lines, alike, tuple(excluded))


def likeness(record: dict[str, Any]) -> dict[str, Any]:
    """What two runs must share before their difference says anything about the arm; None where a run doesn't know it."""
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


def relative_differences(a: Arm, b: Arm) -> list[float]:
    """a / b - 1 per seed that both arms finished, by rising seed."""
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
