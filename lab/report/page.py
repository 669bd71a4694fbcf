"""What does the report say? The words, tables and figures' captions that report.html and REPORT.md both show.

Everything is plain text here; each form escapes it in its own way.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.report import other_metrics as metrics
from lab.report import spike_tables as spikes
from lab.store.spikes import LOOK_BACK
from lab.verdict import seed_noise as noise
from lab.verdict import stats
from lab.verdict.evidence import METRIC, Arm, Evidence, conditions, gather, is_searched
from lab.verdict.metric import named
from lab.verdict.stats import ALPHA, Estimate, in_percent
from lab.verdict.verdicts import OPEN

CAPTIONS = {
    "final": (
        "Where the arms end",
        "Top: final bits per byte, mean over seeds and the single seeds, against the value that results from "
        "matching; broken grey lines are references, the entropy of the corpus among them where it is known and one for "
        "all arms (over each story from its start, as far as a row reaches). Bottom: relative difference to the baseline "
        "arm, paired by seed, with its 95 % interval. Lines join arms of one family and carry no fit. Diverged runs are in the table, not here.",
    ),
    "curves": (
        "Loss curves",
        "Left: validation bits per byte. Right: the same as a gap to the baseline arm at equal tokens. Lines are means, bands "
        "reach from the lowest to the highest seed.",
    ),
    "gradients": (
        "Gradient norm before clipping",
        "One panel an arm, one line a seed, thinned to 60 points with the spikes kept; grey lines are the other arms.",
    ),
    "side_by_side": (
        "Side by side",
        "A pair of arms a row, the first in blue, the second in orange. Lines are seeds, thinned, with the largest 20 spikes of a run "
        "kept; counts are of all spikes. So that a run that diverges flattens no other, the axes end at "
        f"{spikes.TOP_LOSS:g} times the lower first loss and {spikes.TOP_NORM:,.0f} times the higher median norm; in the panels by arm at "
        f"{spikes.TOP_NORM:,.0f} times the median of all.",
    ),
    "rates": (
        "Loss against the learning rate",
        "Final loss of every arm at every rate of the search, mean over its tuning seeds, which judge nothing; dots are seeds. A rate "
        "between the marked ones is an arm's own, where a parabola through its best loss there and those beside it was lowest. "
        "Open markers are diverged runs, which count as the loss before training. The ring marks the rate an arm is judged at.",
    ),
    "metrics": (
        "The other metrics of the claims",
        "Left: seeds and their mean. Right: the difference to the baseline, mean and 95 % interval. Runs that diverged, or don't know "
        "a metric, are counted and not drawn.",
    ),
    "skills": (
        "By skill",
        "Left: what the words that test a skill cost beyond their exact surprisal, in bits a word, mean over seeds; 0 is a "
        "perfect model. Middle: the same against the baseline's, paired by seed, with 95 % intervals. Right, where it was measured: how "
        "often the true continuation is likelier than one that the grammar forbids there.",
    ),
}
BY_ARM = (
    "Scores are means over the runs that finished or diverged. First mover: of all statistics of layers, the one that rose by the rule "
    f"of spikes first in the {LOOK_BACK} steps up to a spike; of several at one step the one that rose furthest. With so many statistics "
    "some rise by chance: the same search before quiet steps says how often, and only what is more than that speaks of spikes. Of "
    f"spikes within {LOOK_BACK} steps of each other that comparison counts the first. Layers count from 0."
)
ONE_BY_ONE = f"The {spikes.LARGEST} with the highest scores among those that records keep, 20 a run. What rose first need not be the cause."
READING = (
    "Bits per byte is the cross-entropy of the validation text over its UTF-8 bytes; lower is better. Every arm is scored on "
    "the same documents, whole, so it compares across tokenizers. A document longer than a row continues in further rows "
    "without the text before them, so where tokens are longer less context is lost.",
    "Seeds are paired: in arms of one vocabulary and one context length a seed means the same data in the same order. Another "
    "vocabulary or context length cuts the same documents into other rows, and the same seed puts those in an order of "
    "their own. Differences are taken within a seed first, so what a seed does to all arms alike cancels.",
    "Reproduced, contradicted and too small to matter are each wrong, for any claim of a family, in at most 5 % of experiments. A "
    "better-than claim is tested against no difference, and its margin applies to the mean alone. Too small to matter: the difference "
    "is shown to lie inside the margin fixed beforehand. Inconclusive: these seeds can't tell, and the smallest effect they would "
    "find in four of five experiments is given. A diverged run enters as its loss before training.",
    "A spike is a step whose gradient norm or loss lies k standard deviations above the mean of the steps before it; the score "
    "is the share of such steps.",
)


@dataclass(frozen=True)
class Table:
    """A header and rows of text; `sort` has a number per cell where sorting by text would be wrong, else
    None.
    """

    header: list[str]
    rows: list[list[str]]
    sort: list[list[float | None]]


def page(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], found: dict[str, Any], figures: Sequence[str]
) -> dict[str, Any]:
    """The content of a report from a plan, its records, their verdict and the names of its figures."""
    evidence = gather(plan, records)
    return {
        "title": plan["title"],
        "question": plan["question"],
        "source": plan["source"],
        "setting": ", ".join(
            [
                f"{plan['size']} on {plan['data']}",
                *conditions(plan, records),
                plan["device_kind"],
                f"{len(plan['seeds'])} seeds an arm",
            ]
        ),
        "claims": [{**claim, "details": _details(claim)} for claim in found["claims"]],
        "noise": _noise(plan, evidence),
        "no_claim": "No claim was fixed beforehand for this ablation: the table and figures stand for themselves.",
        "figures": [(name, *CAPTIONS[name]) for name in figures],
        "arms": _arms(plan, records, evidence, found),
        "tables": _spike_tables(evidence) if plan.get("side_by_side") else [],
        "confounds": found["confounds"],
        "failures": _failures(evidence),
        "reading": READING,
        "provenance": _provenance(evidence),
        "command": _command(plan),
    }


def _noise(plan: dict[str, Any], evidence: Evidence) -> list[str]:
    """What was measured beforehand of the metrics that are judged, where its runs are like those of the plan."""
    if evidence.noise is None:
        return []
    metrics = dict.fromkeys([METRIC, *(claim["metric"] for claim in plan["claims"])])
    found = [noise.sentence(evidence.noise, named(name)) for name in metrics]
    return [f"Measured by lab noise: {text}" for text in found if text is not None]


def _command(plan: dict[str, Any]) -> str:
    """The make command whose plan this is."""
    rest = [text for text in plan["overrides"] if text.partition("=")[0] not in ("size", "data")]
    rest = [*" ".join(plan["flags"]).split(), *rest]
    command = f"make sweep-{plan['ablation']} SIZE={plan['size']} DATA={plan['data']}"
    command += "" if "stopped" in plan else f" SEEDS={len(plan['seeds'])}"
    command += " SEARCH=1" if is_searched(plan) else ""
    return command + (f" ARGS={shlex.quote(shlex.join(rest))}" if rest else "")


def _details(claim: dict[str, Any]) -> list[str]:
    """The lines under a claim's sentence: parts, intervals, and what could have been found."""
    lines = [
        f"{part['answer']}: {part['statement']}"
        for part in claim["parts"]
        if part["statement"] not in claim["why"]
    ]
    if same := claim.get("same_lr"):
        look = (
            f" (the look at {same['seeds']} of {same['looks'][-1]} seeds)" if len(same["looks"]) > 1 else ""
        )
        lines.append(f"at one rate of {same['lr']:g} for all arms: {same['outcome']}{look}; {same['why']}")
    if claim["levels"]:
        lines += [_open(part, claim) for part in claim["parts"] if part["answer"] == OPEN]
    if claim["detectable"] is not None:
        lines.append(
            f"smallest effect that {claim['seeds']} seeds find with 80 % power: {claim['detectable']}"
        )
    if claim["levels"] and claim["levels"]["true"] < ALPHA:
        looks = claim["looks"]
        look = f", at the look at {claim['seeds']} of {looks[-1]} seeds" if len(looks) > 1 else ""
        lines.append(
            f"judged at {in_percent(claim['levels']['true'])}, its share of the {in_percent(ALPHA)} of its family{look}"
        )
    return lines


def _open(part: dict[str, Any], claim: dict[str, Any]) -> str:
    """Why a statement is open: its p values, corrected for all pairs and parts, and what they would have
    to be.
    """
    levels, answers = claim["levels"], {"true": "holds", "false": "fails", "small": "is too small to matter"}
    asked = [
        f"that it {answers[key]} p = {value:.2g}, {levels[key]:.2g} needed"
        for key, value in part["p_values"].items()
        if value is not None
    ]
    return f"open after correction for all pairs and parts ({'; '.join(asked)}): {part['statement'].partition(' (')[0]}"


def _arms(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], evidence: Evidence, found: dict[str, Any]
) -> Table:
    header = [
        "arm",
        plan["x"]["label"],
        "val/bpb",
        "difference to baseline",
        "runs",
        "mismatch",
        "d_model",
        "layers",
        "heads x size",
        "d_ff",
        "body parameters",
        "all parameters",
        "spike score k=4",
        "k=7",
    ]
    judged_by = [gather(plan, records, metric=name) for name in metrics.of_claims(plan)]
    header[4:4] = [", ".join(filter(None, [of.metric.name, of.metric.unit])) for of in judged_by]
    if is_searched(plan):
        header[4:4] = [
            "best learning rate",
            f"difference at {plan['search']['common']:g}",
            "loss above its best, mean of the rates (bits a byte)",
        ]
    rows, sort = [], []
    for entry, judged in zip(plan["arms"], found["arms"], strict=True):
        shape, counts, arm = entry["shape"], entry["counts"], evidence.arm(entry["name"])
        level, difference = judged["bpb"], judged["difference_percent"]
        spikes = [_spike_score(arm, key) for key in ("score_k4", "score_k7")]
        gap = _difference(difference, evidence, arm) if difference else ""
        cells: list[tuple[str, float | None]] = [
            (entry["label"] + (" (baseline)" if entry["baseline"] else ""), None),
            ("" if entry["x"] is None else f"{entry['x']:.2f}", entry["x"]),
            (_level(level, judged), level["mean"] if level else None),
            (gap, difference["mean"] if difference else None),
            (", ".join(f"{count} {state}" for state, count in judged["states"].items()), None),
            (f"{100 * entry['mismatch']:+.2f} %", entry["mismatch"]),
            *((str(shape[key]), shape[key]) for key in ("d_model", "num_layers")),
            (f"{shape['num_heads']} x {shape['head_dim']}", shape["num_heads"] * shape["head_dim"]),
            (str(shape["d_ff"]), shape["d_ff"]),
            *((f"{counts[key]:,}", counts[key]) for key in ("body_parameters", "parameters")),
            *((f"{100 * score:.2f} %" if score is not None else "", score) for score in spikes),
        ]
        cells[4:4] = [_mean(of.arm(entry["name"])) for of in judged_by]
        if is_searched(plan):
            cells[4:4] = _searched(judged)
        rows.append([text for text, _ in cells])
        sort.append([number for _, number in cells])
    return Table(header, rows, sort)


def _spike_tables(evidence: Evidence) -> list[tuple[str, str, Table]]:
    """Heading, caption and table of the spikes by arm, and of the largest one by one."""
    return [
        (
            heading,
            caption,
            Table(header, [[text for text, _ in row] for row in rows], [[n for _, n in row] for row in rows]),
        )
        for heading, caption, (header, rows) in (
            ("Spikes by arm", BY_ARM, spikes.of_arms(evidence)),
            ("The largest spikes", ONE_BY_ONE, spikes.one_by_one(evidence)),
        )
    ]


def _searched(judged: dict[str, Any]) -> list[tuple[str, float | None]]:
    """The cells of an arm's search: best rate, difference at the common one, sensitivity in bits a byte."""
    same = judged["same_lr"]["difference_percent"]
    return [
        (f"{judged['best_lr']:g}" + ("" if judged["interior"] else " (edge of the grid)"), judged["best_lr"]),
        (Estimate(**same).times(0.01).percent_text() if same else "", same["mean"] if same else None),
        (
            f"{steady:.3f}" if (steady := judged["lr_sensitivity"]) is not None else "diverged at every rate",
            steady,
        ),
    ]


def _difference(difference: dict[str, Any], evidence: Evidence, arm: Arm) -> str:
    """With its interval, but not where some seeds diverged: around a mean of two heaps an interval says
    nothing.
    """
    estimate = Estimate(**difference)
    some = any(0 < len(of.diverged) < len(of.states) for of in (arm, evidence.baseline))
    return f"{estimate.mean:+.2f} %" if some else estimate.times(0.01).percent_text()


def _level(level: dict[str, Any] | None, judged: dict[str, Any]) -> str:
    """Mean and standard deviation over seeds, diverged runs with their loss before training."""
    if level is None:
        return "no finished run"
    diverged = f", {len(judged['at_init'])} of {level['n']} at its first loss" if judged["at_init"] else ""
    return (
        f"{level['mean']:.4f}"
        + (f" (sd {level['sd']:.4f})" if level["sd"] is not None else " (one seed)")
        + diverged
    )


def _mean(arm: Arm) -> tuple[str, float | None]:
    """The cell of a metric: mean and standard deviation over the seeds that know it, how many where some
    don't.
    """
    if not arm.scores:
        return "", None
    found = stats.estimate(list(arm.scores.values()))
    text = f"{found.mean:.4g}" + (f" (sd {found.sd:.2g})" if found.sd is not None else "")
    return text + (f", {found.n} of {len(arm.states)} runs" if arm.missing else ""), found.mean


def _spike_score(arm: Arm, key: str) -> float | None:
    """Mean of the gradient norm's spike score over seeds that finished or diverged."""
    ended = [record for record in arm.records.values() if record["state"] in ("finished", "diverged")]
    scores = [record["summary"]["spikes"]["grad/norm"][key] for record in ended]
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def _failures(evidence: Evidence) -> list[str]:
    """Runs that ended badly, with the reason they gave, an arm a sentence."""
    ended = {
        arm.label: [
            f"seed {seed} ({record['run_id']}) {record['state']}: {record['summary']['reason']}"
            for seed, record in arm.records.items()
            if record["summary"] and record["state"] != "finished"
        ]
        for arm in evidence.arms
    }
    return [f"{label}: {'; '.join(runs)}" for label, runs in ended.items() if runs]


def _provenance(evidence: Evidence) -> list[tuple[str, str]]:
    """Every field of the runs' provenance with the values it takes; many values as their first and last."""
    found: dict[str, set[str]] = {}
    for arm in evidence.arms:
        for record in arm.records.values():
            for key, value in record["provenance"].items():
                found.setdefault(key, set()).add(str(value))
    listed = {key: sorted(values) for key, values in found.items()}
    return [
        (key, " to ".join(v[:: len(v) - 1]) if len(v) > 2 else ", ".join(v))
        for key, v in sorted(listed.items())
    ]
