"""What else differs between the arms of a plan, and what can its runs not show? Plain sentences, with
figures.

Each function answers for one confound and returns sentences, none where there is nothing to say.
"""

from __future__ import annotations

from lab.store.metric import named
from lab.store.plan_record import ArmRecord, PlanRecord, SearchRecord
from lab.store.predicate_forms import margin_of
from lab.verdict import lr_range, seed_noise, wording
from lab.verdict.comparison import seeds as seed_list
from lab.verdict.evidence import Evidence, is_searched
from lab.verdict.stats import FLIPPED_INTERVAL_FROM, FLIPS_FROM, FLIPS_TO, in_percent, t_quantile


def confounds(plan: PlanRecord, evidence: Evidence) -> list[str]:
    """Every confound of the plan's comparison, most basic first."""
    return [
        *_matching(plan),
        *_total_parameters(plan),
        *_flops(plan),
        *_learning_rate(plan, evidence),
        *_tokens(evidence),
        *_seeds(plan),
        *_noise(plan, evidence),
        *_machines(evidence),
        *_ended_badly(evidence),
        *_warned(evidence),
        *_excluded(evidence),
        *plan.notes,
    ]


def _matching(plan: PlanRecord) -> list[str]:
    if plan.match.what == "none":
        few, many = _extremes(plan, "body_parameters")
        differ = few.counts.body_parameters != many.counts.body_parameters
        return [
            "Nothing is matched between the arms" + (": they also differ in parameters." if differ else ".")
        ]
    worst = max(plan.arms, key=lambda arm: (abs(arm.mismatch), arm.name))
    what, tolerance = plan.match.what.replace("_", " "), in_percent(plan.match.tolerance)
    misses = ", ".join(f"{arm.label} {100 * arm.mismatch:+.2f} %" for arm in plan.arms)
    return [
        f"Matched: {what}, to within {tolerance} of the baseline arm; the largest miss is "
        f"{100 * worst.mismatch:+.2f} % ({worst.label}). Per arm: {misses}."
    ]


def _total_parameters(plan: PlanRecord) -> list[str]:
    few, many = _extremes(plan, "parameters")
    if few.counts.parameters == many.counts.parameters:
        return []
    return [
        f"Total parameters, embeddings included, run from {few.counts.parameters:,} ({few.label}) to "
        f"{many.counts.parameters:,} ({many.label}), {_spread(few, many, 'parameters')} apart."
    ]


def _flops(plan: PlanRecord) -> list[str]:
    few, many = _extremes(plan, "flops_per_token")
    held = plan.match.what == "flops_per_token"
    if held or few.counts.flops_per_token == many.counts.flops_per_token:
        return []
    return [
        f"FLOPs per token are not matched: {few.counts.flops_per_token:.3g} ({few.label}) to "
        f"{many.counts.flops_per_token:.3g} ({many.label}), {_spread(few, many, 'flops_per_token')} apart."
    ]


def _learning_rate(plan: PlanRecord, evidence: Evidence) -> list[str]:
    rates = {
        arm.label: sorted({record.config.optimizer.lr for record in arm.records.values()})
        for arm in evidence.arms
    }
    used = sorted({rate for of_arm in rates.values() for rate in of_arm})
    if not used:
        return []
    if search := plan.search:
        cut = [evidence.arm(name).label for name in lr_range.cut_off(search)]
        of_arm = "; ".join(
            f"{label} {', '.join(f'{rate:g}' for rate in of)}" for label, of in rates.items() if of
        )
        return [
            f"The learning rate was searched for each arm with {seed_list(search.seeds)}, which "
            f"judge nothing. Used: {of_arm}.",
            *(
                [f"Stable up to the highest rate that was tried, so perhaps beyond: {', '.join(cut)}."]
                if cut
                else []
            ),
            *(_edges(search, evidence) if is_searched(plan) else []),
        ]
    if len(used) > 1:
        return [f"Arms use different learning rates ({', '.join(f'{rate:g}' for rate in used)})."]
    return [
        f"The learning rate was not searched per arm: all use {used[0]:g}. An arm whose best rate "
        "lies elsewhere looks "
        "worse than it is."
    ]


def _edges(search: SearchRecord, evidence: Evidence) -> list[str]:
    """How the grid grew, and arms whose best rate is nevertheless at its edge."""
    values, times = search.values, search.extended
    edge = [
        f"{arm.label} {search.best[arm.name]:g}" for arm in evidence.arms if not search.interior[arm.name]
    ]
    grid = f"Every arm tried the same {len(values)} rates, {values[0]:g} to {values[-1]:g}"
    grid += f"; the grid was extended {times} time{'s' * (times > 1)}" if times else ""
    if tried := search.between:
        without = [arm.label for arm in evidence.arms if arm.name not in tried]
        grid += ", and one more where its losses pointed"
        grid += f" (not {', '.join(without)}, best at the edge)" if without else ""
    return [
        grid + ".",
        f"Differences are those at each arm's best rate; the table has those at {search.common:g} "
        "for all as well.",
        *(
            [f"The best rate is at the edge of the grid, so a better one may lie beyond: {', '.join(edge)}."]
            if edge
            else []
        ),
    ]


def _tokens(evidence: Evidence) -> list[str]:
    budgets = {
        record.ended.tokens or 0
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


def _seeds(plan: PlanRecord) -> list[str]:
    count, claims, looks = len(plan.seeds), plan.claims, plan.looks
    if count == 1:
        return [
            "One seed per arm: seed noise can't be told from an effect, so no difference between "
            "two arms has a verdict."
        ]
    flipped = FLIPPED_INTERVAL_FROM <= count <= FLIPS_TO
    found = [
        f"{count} seeds per arm, paired: the 95 % interval comes from changes of sign, as the tests do."
        if flipped
        else f"{count} seeds per arm, paired: the 95 % interval is "
        f"{t_quantile(0.975, degrees=count - 1):.2f} standard errors "
        "to each side and takes differences between seeds to be roughly normal."
    ]
    if FLIPS_FROM <= count <= FLIPS_TO:
        found.append(
            f"From {FLIPS_FROM} seeds on tests of differences rest on changes of sign, all "
            f"{2**count:,} of them, and ask for symmetry "
            f"only; no p value of theirs is below 1/{2**count:,}."
        )
    families = sorted({claim.family or "" for claim in claims})
    if claims:
        found.append(
            "Reproduced, contradicted and too small are each wrong for any claim of a family in at "
            "most 5 % of experiments (Holm); "
            f"{len(claims)} claim{'s' * (len(claims) > 1)} in {len(families)} "
            f"famil{'y' if len(families) == 1 else 'ies'}. A better-than claim is tested "
            "against no difference, and its margin applies to the mean alone. The arm shown as best "
            "was picked from the seeds that "
            "judge it, so its level is a little flattered; the verdicts compare with every rival "
            "instead and do not rest on that choice."
        )
    if registered := plan.seeds_in_file:
        found.append(
            f"The ablation's file asks for {registered} seeds and this sweep for {count}: the 5 % "
            "hold where that number was chosen "
            "before any outcome was seen, and not where seeds are added until something is decided."
        )
    if stopped := plan.stopped:
        found.append(f"{stopped.seeds} of at most {stopped.of} seeds were trained: {stopped.why}.")
    if len(looks) > 1:
        found.append(
            f"Looks at {' and '.join(map(str, looks))} seeds, fixed beforehand, share the 5 %; a "
            "claim keeps the outcome of the first "
            "look that decides it, whose effect is a little flattered."
        )
    return found


def _noise(plan: PlanRecord, evidence: Evidence) -> list[str]:
    """Whose noise was measured, and margins below what it lets these seeds tell."""
    if plan.noise is None:
        return []
    measured = evidence.noise
    if measured is None:
        unlike = evidence.alike.unlike(plan.noise.alike) if evidence.alike else []
        differs = ", ".join(f"{key} {there}, not {value}" for key, value, there in unlike)
        return [f"The noise measured beforehand is left out, because its runs are unlike these: {differs}."]
    found = []
    if not _baselines(plan) & set(measured.runs["baseline"].values()):
        found.append(
            "The noise was measured on the default baseline of this size and text, whose runs are "
            "others than those of the baseline arm here."
        )
    for claim in plan.claims if len(plan.seeds) > 1 else ():
        metric = named(claim.metric)
        least = seed_noise.smallest_margin(measured, metric, seeds=len(plan.seeds))
        asked = [margin for part in claim.predicate.parts if (margin := margin_of(part)) is not None]
        given = [seed_noise.in_numbers(margin, measured, metric) for margin in asked]
        margins = [margin for margin in given if margin is not None]
        if least is not None and margins and min(margins) < least:
            found.append(
                f"{claim.id}: its margin of {wording.amount(metric, min(margins))} is below "
                f"{wording.amount(metric, least)}, two standard errors of a "
                f"paired difference over {len(plan.seeds)} seeds as measured beforehand: these seeds "
                "can hardly tell."
            )
    return found


def _baselines(plan: PlanRecord) -> set[str]:
    """The runs of the baseline arm at its configured learning rate."""
    return set(plan.baseline.at_common_rate.values())


def _machines(evidence: Evidence) -> list[str]:
    if not evidence.alike:
        return []
    shared = ", ".join(f"{key} {value}" for key, value in evidence.alike.named() if value is not None)
    return [f"Only runs alike in these are paired: {shared}."]


def _ended_badly(evidence: Evidence) -> list[str]:
    diverged: dict[str, list[str]] = {}
    for arm in evidence.arms:
        if of := [seed for seed, state in arm.states.items() if state == "diverged"]:
            diverged.setdefault(seed_list(of), []).append(arm.label)
    found = [
        f"Diverged for {of}: {'; '.join(labels)}. Each enters as the loss it had before training, in "
        "its mean as well; the "
        "figure of final values draws the finished runs alone, those of whole runs draw all."
        for of, labels in diverged.items()
    ]
    for arm in evidence.arms:
        ended = {seed: record.summary for seed, record in arm.records.items() if record.summary}
        if of := [seed for seed, summary in ended.items() if summary.learnt is False]:
            found.append(
                f"{arm.label} learnt nothing for {seed_list(of)}: it ended above the unigram entropy of the "
                "validation text. It enters with its own loss."
            )
    for arm in evidence.arms:
        if arm.missing:
            states = ", ".join(f"seed {seed} {state}" for seed, state in sorted(arm.missing.items()))
            found.append(f"{arm.label} is incomplete ({states}); claims that rest on it stay open.")
    return found


def _warned(evidence: Evidence) -> list[str]:
    """What finished runs say is wrong with their own numbers, such as an excess below the floor."""
    return [
        f"{arm.label}, seed {seed}: {record.ended.warning}."
        for arm in evidence.arms
        for seed, record in arm.records.items()
        if record.summary and record.summary.warning
    ]


def _excluded(evidence: Evidence) -> list[str]:
    return [
        f"Excluded, because unlike the other runs: {left.run_id} ({left.arm}, seed {left.seed}): "
        f"{left.reason}."
        for left in evidence.excluded
    ]


def _extremes(plan: PlanRecord, count: str) -> tuple[ArmRecord, ArmRecord]:
    ordered = sorted(plan.arms, key=lambda arm: (getattr(arm.counts, count), arm.name))
    return ordered[0], ordered[-1]


def _spread(few: ArmRecord, many: ArmRecord, count: str) -> str:
    return in_percent(getattr(many.counts, count) / getattr(few.counts, count) - 1)
