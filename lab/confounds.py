"""What else differs between the arms of a plan, and what can its runs not show? Plain sentences, with figures.

Each function answers for one confound and returns sentences, none where there is nothing to say.
"""

from __future__ import annotations

from typing import Any

from lab.evidence import Evidence
from lab.stats import in_percent, t_quantile


def confounds(plan: dict[str, Any], evidence: Evidence) -> list[str]:
    """Every confound of the plan's comparison, most basic first."""
    return [
        *_matching(plan),
        *_total_parameters(plan),
        *_flops(plan),
        *_learning_rate(evidence),
        *_tokens(evidence),
        *_seeds(plan),
        *_machines(evidence),
        *_ended_badly(evidence),
        *_warned(evidence),
        *_excluded(evidence),
        *plan["notes"],
    ]


def _matching(plan: dict[str, Any]) -> list[str]:
    if plan["match"]["what"] == "none":
        return ["Nothing is matched between the arms: they also differ in parameters."]
    worst = max(plan["arms"], key=lambda arm: (abs(arm["mismatch"]), arm["name"]))
    what, tolerance = plan["match"]["what"].replace("_", " "), in_percent(plan["match"]["tolerance"])
    misses = ", ".join(f"{arm['label']} {100 * arm['mismatch']:+.2f} %" for arm in plan["arms"])
    return [
        f"Matched: {what}, to within {tolerance} of the baseline arm; the largest miss is "
        f"{100 * worst['mismatch']:+.2f} % ({worst['label']}). Per arm: {misses}."
    ]


def _total_parameters(plan: dict[str, Any]) -> list[str]:
    few, many = _extremes(plan, "parameters")
    if few["counts"]["parameters"] == many["counts"]["parameters"]:
        return []
    return [
        f"Total parameters, embeddings included, run from {few['counts']['parameters']:,} ({few['label']}) to "
        f"{many['counts']['parameters']:,} ({many['label']}), {_spread(few, many, 'parameters')} apart."
    ]


def _flops(plan: dict[str, Any]) -> list[str]:
    few, many = _extremes(plan, "flops_per_token")
    held = plan["match"]["what"] == "flops_per_token"
    if held or few["counts"]["flops_per_token"] == many["counts"]["flops_per_token"]:
        return []
    return [
        f"FLOPs per token are not matched: {few['counts']['flops_per_token']:.3g} ({few['label']}) to "
        f"{many['counts']['flops_per_token']:.3g} ({many['label']}), {_spread(few, many, 'flops_per_token')} apart."
    ]


def _learning_rate(evidence: Evidence) -> list[str]:
    rates = sorted(
        {record["config"]["optimizer"]["lr"] for arm in evidence.arms for record in arm.records.values()}
    )
    if not rates:
        return []
    if len(rates) > 1:
        return [f"Arms use different learning rates ({', '.join(f'{rate:g}' for rate in rates)})."]
    return [
        f"The learning rate was not searched per arm: all use {rates[0]:g}. An arm whose best rate lies elsewhere looks "
        "worse than it is."
    ]


def _tokens(evidence: Evidence) -> list[str]:
    budgets = {
        record["summary"]["tokens"]
        for arm in evidence.arms
        for seed, record in arm.records.items()
        if seed in arm.values
    }
    if not budgets:
        return []
    if len(budgets) > 1:
        return [f"Finished runs saw different numbers of tokens: {min(budgets):,} to {max(budgets):,}."]
    return [
        f"Each finished run saw {next(iter(budgets)):,} tokens; rankings can change with longer training."
    ]


def _seeds(plan: dict[str, Any]) -> list[str]:
    count, claims = len(plan["seeds"]), len(plan["claims"])
    if count == 1:
        return ["One seed per arm: seed noise can't be told from an effect, so there is no verdict."]
    return [
        f"{count} seeds per arm, paired: the 95 % interval is {t_quantile(0.975, degrees=count - 1):.2f} standard errors "
        "to each side and takes differences between seeds to be roughly normal.",
        f"Reproduced and contradicted are each wrong in at most 5 % of experiments, claim by claim; {claims} claims are judged "
        "without a correction across them. A better-than claim is tested against no difference, and its margin applies to "
        "the mean alone. The arm shown as best was picked from the seeds that judge it, so its level is a little flattered; the verdicts "
        "compare with every rival instead and do not rest on that choice.",
    ]


def _machines(evidence: Evidence) -> list[str]:
    if not evidence.alike:
        return []
    shared = ", ".join(f"{key} {value}" for key, value in evidence.alike.items() if value is not None)
    return [f"Only runs alike in these are paired: {shared}."]


def _ended_badly(evidence: Evidence) -> list[str]:
    found = []
    for arm in evidence.arms:
        diverged = sorted(seed for seed, state in arm.states.items() if state == "diverged")
        if diverged:
            found.append(
                f"{arm.label} diverged for {_seed_list(diverged)}: it counts as worse than every arm that did not"
                + (", and its mean is over the other seeds only." if arm.values else ".")
            )
        if arm.missing:
            states = ", ".join(f"seed {seed} {state}" for seed, state in sorted(arm.missing.items()))
            found.append(f"{arm.label} is incomplete ({states}); claims that rest on it stay open.")
    return found


def _warned(evidence: Evidence) -> list[str]:
    """What finished runs say is wrong with their own numbers, such as an excess below the floor."""
    return [
        f"{arm.label}, seed {seed}: {record['summary']['warning']}."
        for arm in evidence.arms
        for seed, record in arm.records.items()
        if (record["summary"] or {}).get("warning")
    ]


def _excluded(evidence: Evidence) -> list[str]:
    return [
        f"Excluded, because unlike the other runs: {left['run_id']} ({left['arm']}, seed {left['seed']}): {left['reason']}."
        for left in evidence.excluded
    ]


def _extremes(plan: dict[str, Any], count: str) -> tuple[dict[str, Any], dict[str, Any]]:
    ordered = sorted(plan["arms"], key=lambda arm: (arm["counts"][count], arm["name"]))
    return ordered[0], ordered[-1]


def _spread(few: dict[str, Any], many: dict[str, Any], count: str) -> str:
    return in_percent(many["counts"][count] / few["counts"][count] - 1)


def _seed_list(seeds: list[int]) -> str:
    return ("seed " if len(seeds) == 1 else "seeds ") + ", ".join(map(str, seeds))
