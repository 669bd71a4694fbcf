"""What is known of each claim of the lecture? One row a claim, joined from committed files alone.

    ablations/ledger/*.yaml             what the notes say, and the source where it says otherwise (its README has the keys)
    ablations/*.yaml                    the statement under test and its prediction, for trained claims
    results/exact.jsonl                 checks of computed claims            (lab/lecture/exact/verify.py)
    results/measured/*.json             claims on fresh models and on time   (lab/lecture/exact/measuring.py)
    results/<ablation>/<setting>/       published sweeps: verdict.json, plan.json, runs.jsonl

The same files give the same rows. Core-minutes are CPU seconds of one core over 60; an estimate stands
beside every trained claim before it runs, from its number of runs and the pace of the published ones.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lab.store.files import read_lines
from lab.verdict.evidence import conditions
from lab.verdict.outcomes import BEYOND, CONTRADICTED, DECIDED, INCONCLUSIVE, NOT_RUN, REPRODUCED, SMALL

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("exact", "init", "cost", "trained")
Row = dict[str, Any]


def rows(results: Path, *, root: Path = ROOT) -> list[Row]:
    """Every claim of the register, in its order, with its state, evidence and core-minutes."""
    checks, measured, swept = _checks(results), _measured(results), list(_swept(results))
    pace = seconds_per_flop(results)
    tests = tested(root)
    found = []
    for entry in register(root):
        names = claims_of(entry)
        evidence = [
            *(_of_checks(checks[name]) for name in names if name in checks),
            *(record for record in measured if record["claim"] in names),
            *(item for item in swept if item["claim"] in names and item["outcome"] != NOT_RUN),
        ]
        whole, alone = state(entry, evidence), state({**entry, "parts": (), "against": ()}, evidence)
        found.append(
            {
                **{key: entry[key] for key in ("id", "section", "says", "notes", "kind")},
                **{key: entry.get(key) for key in ("source", "beyond")},
                "papers": [
                    dict(zip(("authors", "year", "where"), paper, strict=True)) for paper in entry["papers"]
                ],
                "ablation": tests[entry["id"]]["ablation"] if entry["id"] in tests else None,
                "statement": tests[entry["id"]]["statement"] if entry["id"] in tests else None,
                "prediction": tests[entry["id"]]["prediction"] if entry["id"] in tests else None,
                "state": whole,
                "alone": alone if alone != whole else None,
                "as_printed": as_printed(checks.get(entry["id"], ())),
                "why": _why(entry, evidence),
                "evidence": evidence,
                "core_minutes": {
                    "estimate": estimate(entry, tests, pace, root),
                    "spent": _spent(evidence),
                },
            }
        )
    return found


def beyond_register(results: Path, *, root: Path = ROOT) -> list[dict[str, Any]]:
    """Evidence on claims that no row of the register names."""
    known = {name for entry in register(root) for name in claims_of(entry)}
    return [item for item in _swept(results) if item["claim"] not in known]


def claims_of(entry: dict[str, Any]) -> tuple[str, ...]:
    """The ids of all claims that a row rests on, its own first."""
    return (entry["id"], *entry.get("parts", ()), *entry.get("against", ()))


def state(entry: dict[str, Any], evidence: Sequence[dict[str, Any]]) -> str:
    """The one state of a row from the outcomes of its evidence.

    The claim of its own id, and each of its parts that was tested, must all hold; one of `against` that
    holds contradicts it.
    """
    own = _of_claim(entry["kind"], [item for item in evidence if item["claim"] == entry["id"]])
    if not own:
        return BEYOND if entry.get("beyond") else NOT_RUN
    outcomes = [*own]
    for name in claims_of(entry)[1:]:
        told = [item for item in evidence if item["claim"] == name]
        kinds = [item["kind"] for item in told]
        found = _of_claim("trained" if "trained" in kinds else kinds[0], told) if told else []
        if name not in entry.get("against", ()):
            outcomes += found
        elif found and set(found) == {REPRODUCED}:
            outcomes.append(CONTRADICTED)
    return next((o for o in (CONTRADICTED, INCONCLUSIVE, SMALL) if o in outcomes), REPRODUCED)


def _of_claim(kind: str, evidence: Sequence[dict[str, Any]]) -> list[str]:
    """What became of one claim, as the outcomes that must all be good.

    Computed and measured parts must all hold, and a trained claim is not decided by its computed part
    alone. Sweeps of other sizes and data decide where those that are decided agree; where they disagree
    the claim is open. Sweeps with conditions of their own (lab/verdict/evidence.py) count where there are
    no others: or else one more override would be one more chance.
    """
    trained = [item for item in evidence if item["kind"] == "trained" and item["outcome"] != NOT_RUN]
    unconditional = [item for item in trained if not item["conditions"]]
    sweeps = _agreed([item["outcome"] for item in unconditional or trained])
    parts = [item["outcome"] for item in evidence if item["kind"] != "trained"]
    if kind == "trained" or not any(item["kind"] == kind for item in evidence):
        return sweeps
    return parts + sweeps


def _spent(evidence: Sequence[dict[str, Any]]) -> float | None:
    """Core-minutes behind a row, a sweep that serves several of its claims once."""
    known = {item["where"]: item["core_minutes"] for item in evidence if item["core_minutes"] is not None}
    return round(sum(known.values()), 2) if known else None


def _agreed(outcomes: Sequence[str]) -> list[str]:
    decided = {outcome for outcome in outcomes if outcome in DECIDED}
    if len(decided) == 1:
        return [*decided]
    return [INCONCLUSIVE] if outcomes else []


def as_printed(checks: Iterable[dict[str, Any]]) -> str | None:
    """Whether what the notes print holds: "holds", "fails", "holds in part", or None where no check is
    about it.
    """
    answers = {check["notes"] for check in checks} - {None}
    return "holds in part" if len(answers) == 2 else next(iter(answers), None)


@cache
def register(root: Path = ROOT) -> tuple[dict[str, Any], ...]:
    """The claims of ablations/ledger/, with their section."""
    import yaml

    sections = [
        yaml.safe_load(path.read_text()) for path in sorted((root / "ablations/ledger").glob("*.yaml"))
    ]
    return tuple(
        {**claim, "section": section["section"]}
        for section in sorted(sections, key=lambda section: section["order"])
        for claim in section["claims"]
    )


@cache
def tested(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Claim id -> statement and prediction of the ablation that tests it, with the arms and seeds that takes."""
    import yaml

    found = {}
    for path in sorted((root / "ablations").glob("*.yaml")):
        ablation = yaml.safe_load(path.read_text())
        optional = ablation.get("optional_arms", {})
        for claim in ablation.get("claims", ()):
            mentioned = set(claim["needs"]) | set(_texts(claim["predicate"]))
            needs = sorted(mentioned & optional.keys())
            found[claim["id"]] = {
                "ablation": path.stem,
                "statement": claim["statement"],
                "prediction": claim["prediction"],
                "needs": needs,
                "runs": (len(ablation["arms"]) + len(needs)) * ablation["seeds"],
                "seeds": ablation["seeds"],
                "search": "search" in ablation,
                "core_minutes": ablation.get("core_minutes"),
            }
    return found


def _texts(node: Any) -> Iterable[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for item in node.values() if isinstance(node, dict) else node:
            yield from _texts(item)


def seconds_per_flop(results: Path) -> float | None:
    """Median pace of one core over the published CPU runs; None before any was published."""
    paces = [
        record["summary"]["seconds"] / (record["counts"]["flops_per_token"] * record["summary"]["tokens"])
        for folder in _settings(results)
        for record in read_lines(folder / "runs.jsonl")
        if record["state"] == "finished" and record["provenance"]["device_kind"] == "cpu"
    ]
    return statistics.median(paces) if paces else None


@cache
def flops(size: str, root: Path = ROOT) -> float:
    """Training FLOPs of one run of the baseline at a size: 12 L d^2 body weights, the head, and scores."""
    import yaml

    s = yaml.safe_load((root / "conf/size" / f"{size}.yaml").read_text())
    weights = 12 * s["num_layers"] * s["d_model"] ** 2 + s["vocab_size"] * s["d_model"]
    scores = 4 * s["context_length"] * s["d_model"] * s["num_layers"]
    return float(3 * (2 * weights + scores) * s["tokens"])


def estimate(
    entry: dict[str, Any], tests: dict[str, Any], pace: float | None, root: Path = ROOT
) -> float | None:
    """Core-minutes that testing a trained claim takes on CPUs at most; None for other kinds, or without a
    pace.

    As its ablation states them, or else from the number of runs; an ablation serves all its claims at
    once.
    """
    if entry["kind"] != "trained" or pace is None:
        return None
    if entry["id"] in tests:
        if (stated := tests[entry["id"]]["core_minutes"]) is not None:
            return float(stated)
        size, runs = "nano", tests[entry["id"]]["runs"]
    else:
        size, runs = entry["plan"]["size"], entry["plan"]["runs"]
    return float(f"{runs * flops(size, root) * pace / 60:.2g}")


def _of_checks(checks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The checks of one claim as evidence."""
    holding = sum(check["holds"] for check in checks)
    printed = as_printed(checks)
    refuted = [check for check in checks if check["notes"] == "fails"]
    outcome = CONTRADICTED if holding < len(checks) or printed == "fails" else REPRODUCED
    why = f"{holding} of {len(checks)} checks hold"
    if refuted:
        why += "; against what the notes print: " + "; ".join(_sentence(check) for check in refuted)
    return {
        "claim": checks[0]["claim"],
        "kind": "exact",
        "outcome": outcome,
        "why": why,
        "checks": list(checks),
        "where": "exact.jsonl",
        "figures": [],
        "n": None,
        "size": None,
        "data": None,
        "device": None,
        "commit": None,
        "confounds": [],
        "core_minutes": None,
    }


def _sentence(check: dict[str, Any]) -> str:
    return f"{check['check']} ({check['measured']})"


def _measured(results: Path) -> list[dict[str, Any]]:
    """Records of fresh models and of time, as evidence."""
    found = []
    for path in sorted((results / "measured").glob("*.json")):
        record = json.loads(path.read_text())
        failing = [part["statement"] for part in record["parts"] if not part["holds"]]
        texts = failing or [part["statement"] for part in record["parts"]]
        lead = "does not hold: " if failing else ""
        found.append(
            {
                **{
                    key: record[key]
                    for key in (
                        "claim",
                        "kind",
                        "outcome",
                        "n",
                        "size",
                        "confounds",
                        "core_minutes",
                        "table",
                        "parts",
                    )
                },
                "why": lead + "; ".join(texts),
                "where": f"measured/{path.name}",
                "figures": [],
                "data": "random tokens",
                **{key: record["provenance"][key] for key in ("device", "commit")},
            }
        )
    return found


def _swept(results: Path) -> Iterable[dict[str, Any]]:
    """The claims of every published sweep, as evidence."""
    for folder in _settings(results):
        verdict, plan = (json.loads((folder / name).read_text()) for name in ("verdict.json", "plan.json"))
        records = list(read_lines(folder / "runs.jsonl"))
        spent = sum((record["summary"] or {}).get("seconds") or 0.0 for record in records) / 60
        shared = {
            key: ", ".join(sorted({str(record["provenance"][key]) for record in records}))
            for key in ("device", "commit")
        }
        for claim in verdict["claims"]:
            yield {
                "claim": claim["id"],
                "kind": "trained",
                "outcome": claim["outcome"],
                "why": claim["why"],
                "where": f"{folder.parent.name}/{folder.name}",
                "n": f"{claim['seeds']} {'' if claim['looks'] else 'tuning '}seeds",
                "figures": [f"figures/{path.name}" for path in sorted((folder / "figures").glob("*.png"))],
                "size": plan["size"],
                "data": plan["data"],
                "conditions": conditions(plan, records),
                **shared,
                "confounds": verdict["confounds"],
                "core_minutes": round(spent, 2),
            }


def _settings(results: Path) -> list[Path]:
    """Folders of published sweeps."""
    return [
        path.parent
        for path in sorted(results.glob("*/*/verdict.json"))
        if path.parts[-3] not in ("runs", "sweeps") and (path.parent / "plan.json").exists()
    ]


def _checks(results: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for check in read_lines(results / "exact.jsonl"):
        found.setdefault(check["claim"], []).append(check)
    return found


def _why(entry: dict[str, Any], evidence: Sequence[dict[str, Any]]) -> str:
    """The evidence on the row's own claim, what became of its parts, or what is missing."""
    own = [f"{_setting(item)}{item['why']}" for item in evidence if item["claim"] == entry["id"]]
    if not own:
        return f"beyond small models on a CPU: {entry['beyond']}" if entry.get("beyond") else ""
    for name in claims_of(entry)[1:]:
        ends = [f"{item['outcome']} ({_where(item)})" for item in evidence if item["claim"] == name]
        role = "Against it, where it holds, is" if name in entry.get("against", ()) else "Its part is"
        own += [f"{role} {name}, {', '.join(ends)}"] if ends else []
    return ". ".join(own)


def _setting(item: dict[str, Any]) -> str:
    return f"{_where(item)}, {item['outcome']}: " if item["kind"] == "trained" else ""


def _where(item: dict[str, Any]) -> str:
    if item["kind"] != "trained":
        return str(item["kind"])
    return ", ".join([f"{item['size']} on {item['data']}", *item["conditions"]])
