"""The table of arms: where each one ends, how far from the baseline, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable

from lab.report.cells import Cell, SortableTable
from lab.report.other_metrics import of_claims
from lab.store.plan_record import ArmRecord
from lab.store.run_record import Counts, SpikeSummary
from lab.store.states import RESULT_STATES
from lab.verdict import stats
from lab.verdict.evidence import Evidence, MeasuredArm, is_searched
from lab.verdict.standing import ranks, standings
from lab.verdict.stats import Estimate
from lab.verdict.verdict_record import ArmVerdict, Verdict


def arm_table(evidence: Evidence, verdict: Verdict) -> SortableTable:
    """A row an arm, in the order of the plan; of a searched plan with the columns of its search."""
    plan = evidence.plan
    arms = [evidence.arm(arm.name) for arm in plan.arms]
    found = standings(evidence)
    columns = [
        ("arm", [_name(arm) for arm in plan.arms]),
        (plan.x.label, [_x(arm) for arm in plan.arms]),
        ("val/bpb", [_level(judged) for judged in verdict.arms]),
        (
            "difference to baseline",
            [_difference(judged, arm, evidence) for judged, arm in zip(verdict.arms, arms, strict=True)],
        ),
        *([("standing", [Cell(found[arm.name].word) for arm in plan.arms])] if ranks(plan) else []),
        *(_of_search(evidence, verdict) if is_searched(plan) else []),
        *(_of_metric(evidence.by(name)) for name in of_claims(plan)),
        ("runs", [_states(judged) for judged in verdict.arms]),
        ("mismatch", [Cell(f"{100 * arm.mismatch:+.2f} %", arm.mismatch) for arm in plan.arms]),
        ("d_model", [_whole(arm.shape.d_model) for arm in plan.arms]),
        ("layers", [_whole(arm.shape.num_layers) for arm in plan.arms]),
        ("heads x size", [_heads(arm) for arm in plan.arms]),
        ("d_ff", [_whole(arm.shape.d_ff) for arm in plan.arms]),
        ("body parameters", _counts(plan.arms, lambda counts: counts.body_parameters)),
        ("all parameters", _counts(plan.arms, lambda counts: counts.parameters)),
        ("spike score k=4", [_spike_score(arm, lambda spikes: spikes.score_k4) for arm in arms]),
        ("k=7", [_spike_score(arm, lambda spikes: spikes.score_k7) for arm in arms]),
    ]
    return SortableTable.of_columns(columns)


def _name(arm: ArmRecord) -> Cell:
    return Cell(arm.label + (" (baseline)" if arm.baseline else ""))


def _x(arm: ArmRecord) -> Cell:
    return Cell("" if arm.x is None else f"{arm.x:.2f}", arm.x)


def _level(judged: ArmVerdict) -> Cell:
    """Mean and standard deviation over seeds, diverged runs with their loss before training."""
    level = judged.bpb
    if level is None:
        return Cell("no finished run")
    spread = f" (sd {level.sd:.4f})" if level.sd is not None else " (one seed)"
    diverged = f", {len(judged.at_init)} of {level.n} at its first loss" if judged.at_init else ""
    return Cell(f"{level.mean:.4f}{spread}{diverged}", level.mean)


def _difference(judged: ArmVerdict, arm: MeasuredArm, evidence: Evidence) -> Cell:
    """With its interval, but not where some seeds diverged: around a mean of two heaps an interval says
    nothing.
    """
    percent = judged.difference_percent
    if percent is None:
        return Cell("")
    some = any(0 < len(of.diverged) < len(of.states) for of in (arm, evidence.baseline))
    return Cell(f"{percent.mean:+.2f} %" if some else _percent_text(percent), percent.mean)


def _percent_text(percent: Estimate) -> str:
    return percent.times(0.01).percent_text()


def _of_search(evidence: Evidence, verdict: Verdict) -> list[tuple[str, list[Cell]]]:
    """The columns of a search: best rate, difference at the common one, sensitivity in bits a byte."""
    assert evidence.search is not None
    return [
        ("best learning rate", [_best_rate(judged) for judged in verdict.arms]),
        (
            f"difference at {evidence.search.common:g}",
            [_difference_at_one_rate(judged) for judged in verdict.arms],
        ),
        (
            "loss above its best, mean of the rates (bits a byte)",
            [_sensitivity(judged) for judged in verdict.arms],
        ),
    ]


def _best_rate(judged: ArmVerdict) -> Cell:
    edge = "" if judged.interior else " (edge of the grid)"
    return Cell(f"{judged.best_lr:g}{edge}", judged.best_lr)


def _difference_at_one_rate(judged: ArmVerdict) -> Cell:
    percent = judged.same_lr.difference_percent if judged.same_lr else None
    return Cell(_percent_text(percent), percent.mean) if percent else Cell("")


def _sensitivity(judged: ArmVerdict) -> Cell:
    mean = judged.lr_sensitivity
    return Cell("diverged at every rate" if mean is None else f"{mean:.3f}", mean)


def _of_metric(evidence: Evidence) -> tuple[str, list[Cell]]:
    """The column of a metric that claims are about."""
    metric, plan = evidence.metric, evidence.plan
    heading = ", ".join(filter(None, [metric.name, metric.unit]))
    return heading, [_mean(evidence.arm(arm.name)) for arm in plan.arms]


def _mean(arm: MeasuredArm) -> Cell:
    """Mean and standard deviation over the seeds that know a metric, and how many where some don't."""
    if not arm.scores:
        return Cell("")
    found = stats.estimate(list(arm.scores.values()))
    spread = f" (sd {found.sd:.2g})" if found.sd is not None else ""
    counted = f", {found.n} of {len(arm.states)} runs" if arm.missing else ""
    return Cell(f"{found.mean:.4g}{spread}{counted}", found.mean)


def _states(judged: ArmVerdict) -> Cell:
    return Cell(", ".join(f"{count} {state}" for state, count in judged.states.items()))


def _whole(number: int) -> Cell:
    return Cell(str(number), number)


def _heads(arm: ArmRecord) -> Cell:
    heads, size = arm.shape.num_heads, arm.shape.head_dim
    return Cell(f"{heads} x {size}", heads * size)


def _counts(arms: tuple[ArmRecord, ...], of: Callable[[Counts], int]) -> list[Cell]:
    return [Cell(f"{of(arm.counts):,}", of(arm.counts)) for arm in arms]


def _spike_score(arm: MeasuredArm, of: Callable[[SpikeSummary], float | None]) -> Cell:
    """Mean of a score of the gradient norm over the seeds that finished or diverged."""
    ended = [record.ended for record in arm.records.values() if record.state in RESULT_STATES]
    known = [score for summary in ended if (score := of(summary.spikes["grad/norm"])) is not None]
    if not known:
        return Cell("")
    mean = sum(known) / len(known)
    return Cell(f"{100 * mean:.2f} %", mean)
