"""From an ablation to a plan: what is asked, as the record that reports read, and the jobs that answer.

Planning prepares the data and trains nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import ConfigError, plain
from lab.config.unusual import PATHS, is_unusual
from lab.plan import horizons, planned_arm
from lab.plan.ablation import X_VALUES, Ablation, Match, Search, chosen_arms, compose_arms, load
from lab.plan.job_set import Jobs, JobSet, Preparing
from lab.plan.planned_arm import PlannedArm, accounts, device_kind, job_of, jobs_of, locate_parents, repeats
from lab.store import noise_record, plan_record
from lab.store.identity import PROTOCOL
from lab.store.job import Job
from lab.store.plan_record import (
    ArmRecord,
    AxisRecord,
    MatchRecord,
    PlanRecord,
    ReferenceLine,
    RunsBySeed,
    tokens_text,
)
from lab.store.run_record import Parent
from lab.store.run_store import RunStore

QUICK_HORIZONS, QUICK_SEEDS = 2, 3


@dataclass(frozen=True)
class Plan:
    """What `lab sweep` will do. `record` is what reports read; `arms` and `search` are for the stages."""

    record: PlanRecord
    folder: Path
    work: JobSet
    arms: tuple[PlannedArm, ...]
    search: Search | None

    @property
    def jobs(self) -> Jobs:
        return self.work.jobs

    def save(self) -> None:
        """Write the record where `lab status` and reports find it."""
        plan_record.save(self.record, self.folder)

    def with_jobs(self, jobs: Jobs, record: PlanRecord | None = None) -> Plan:
        """The plan with other jobs to carry out, and perhaps another record."""
        work = dataclasses.replace(self.work, jobs=jobs)
        return dataclasses.replace(self, work=work, record=record or self.record)


def make(
    name: str,
    overrides: Sequence[str],
    *,
    results: Path,
    cache: Path,
    seeds: int | None = None,
    extra_arms: Sequence[str] = (),
    hold: str | None = None,
    progress: Preparing | None = None,
    elsewhere: bool = False,
    horizon: float | None = None,
    quick: bool = False,
    first_seed: int = 0,
) -> Plan:
    """The plan of an ablation with the user's overrides. Raises ConfigError with every problem before
    anything is prepared.

    elsewhere: the plan is for another machine, which may have a device that this one lacks. horizon: the
    tokens at which to end, of an ablation with horizons; its last one where nothing is said. quick: where
    nothing else is said end at the second horizon, and take QUICK_SEEDS seeds at most, judged once.
    first_seed: of those that judge.
    """
    ablation = load(name)
    arms = chosen_arms(ablation, extra_arms)
    configs = compose_arms(name, ablation, arms, overrides, elsewhere=elsewhere)
    how = ablation.match if hold is None else Match(hold, "none", ablation.match.tolerance)
    store = RunStore(results / "runs")
    given = any(text.startswith("init_from=") for text in overrides)
    source = "command line" if given else f"ablations/{name}.yaml"
    locate_parents(configs.values(), store, source)
    planned = planned_arm.resolve_all(
        arms,
        configs,
        baseline=ablation.baseline,
        how=how,
        cache=cache,
        store=store,
        progress=progress,
        source=source,
    )
    planned, merged = _distinct(planned, ablation.baseline)
    baseline = next(item for item in planned if item.name == ablation.baseline)
    if baseline.parent:  # where "last" or the beginning of an id may mean another checkpoint one day
        overrides = [
            f"init_from={baseline.run.init_from}" if text.startswith("init_from=") else text
            for text in overrides
        ]
    quick = quick and ablation.horizons is not None
    few = quick and seeds is None
    count = min(ablation.seeds, QUICK_SEEDS) if few else seeds or ablation.seeds
    paired_seeds, reached = list(range(first_seed, first_seed + count)), tuple[int, ...]()
    first = baseline.config
    device, setting = device_kind(first), setting_of(baseline, overrides, hold)
    if ablation.horizons:
        horizons.refuse(planned, ablation, overrides, source=f"ablations/{name}.yaml")
        reached = _reached(baseline, ablation.horizons, asked=horizon, quick=quick)
        setting = f"{setting}-{tokens_text(reached[-1])}"
    if first_seed:
        setting = f"{setting}-s{first_seed}"
    if horizon is not None and not ablation.horizons:
        raise ConfigError(
            f"--horizon {tokens_text(horizon)}: {source} has no horizons; its runs are trained to the "
            "budget. Use budget.amount."
        )
    tags = [ablation.axis.key, first.size.name, first.data.name]
    jobs, entries = _runs_of(
        planned,
        ablation,
        seeds=paired_seeds,
        count=len(reached),
        results=results,
        group=name,
        tags=tags,
    )
    record = PlanRecord(
        ablation=name,
        title=ablation.title,
        question=ablation.question,
        source=ablation.source,
        setting=setting,
        size=first.size.name,
        data=first.data.name,
        device_kind=device,
        overrides=tuple(re.sub(r"(path)=.*", r"\1=PATH", text) for text in overrides),
        flags=(*(f"--with {arm}" for arm in extra_arms), *([f"--match {hold}"] if hold else [])),
        seeds=tuple(paired_seeds),
        match=MatchRecord(how.hold, how.solve, how.tolerance),
        x=AxisRecord(ablation.axis.key, ablation.axis.label, ablation.axis.numeric),
        arms=entries,
        claims=tuple(ablation.claims),
        notes=(
            *ablation.notes,
            *merged,
            *_branches(planned),
            *_repeats(planned, len(reached)),
            *baseline.corpus.notes,
        ),
        reference_lines=_reference_lines(baseline, len(reached)),
        looks=() if few else tuple(ablation.looks),
        seeds_in_file=ablation.seeds if len(paired_seeds) != ablation.seeds else None,
        noise=noise_record.load(results, setting_of(baseline, overrides, None)),
        side_by_side=tuple(map(tuple, ablation.side_by_side)),
        protocol=PROTOCOL,
        horizons=reached,
    )
    work = JobSet(setting, jobs, first.engine, first.tracker, accounts(planned))
    return Plan(record, results / "sweeps" / name / setting, work, tuple(planned), ablation.search)


def _reached(baseline: PlannedArm, count: int, *, asked: float | None, quick: bool) -> tuple[int, ...]:
    """Tokens at each horizon up to the one that a sweep ends at."""
    tokens = horizons.tokens_of(baseline, count)
    if asked is not None:
        return tokens[: horizons.chosen(asked, tokens) + 1]
    return tokens[:QUICK_HORIZONS] if quick else tokens


def setting_of(baseline: PlannedArm, overrides: Sequence[str], hold: str | None) -> str:
    """<size>-<data>-<device>, with a digest of whatever else was asked that changes a result."""
    asked = sorted({text for text in overrides if is_unusual(text)})
    paths = [text for text in overrides if text.partition("=")[0] in PATHS]
    config = baseline.config
    setting = f"{config.size.name}-{config.data.name}-{device_kind(config)}"
    if not asked and not paths and hold is None:
        return setting
    content = baseline.corpus.fingerprint if paths else ""
    return f"{setting}-{hashlib.sha256(json.dumps([asked, content, hold]).encode()).hexdigest()[:6]}"


def _distinct(planned: Sequence[PlannedArm], baseline: str) -> tuple[list[PlannedArm], list[str]]:
    """Arms that are one and the same at this size stand once, the baseline first; a note tells of the
    others.
    """
    kept: dict[str, PlannedArm] = {}
    notes = []
    for item in sorted(planned, key=lambda item: item.name != baseline):
        same = kept.setdefault(json.dumps(plain(item.run)), item)
        if same is not item:
            notes.append(f"Arm {item.name} is the same model as arm {same.name} here and was left out.")
    return [item for item in planned if item in kept.values()], notes


def _repeats(planned: Sequence[PlannedArm], horizons_reached: int) -> list[str]:
    """A note where the budget, or the last horizon, needs the training text more than once."""
    needed = [
        horizons.tokens_of(item, horizons_reached)[-1]
        if horizons_reached
        else item.tokens + _read_before(item)
        for item in planned
    ]
    return repeats(planned, needed)


def _read_before(item: PlannedArm) -> int:
    """Tokens of the arm's data that its parents were trained on."""
    read = item.parent.read if item.parent else ()
    return sum(text.rows.length * text.rows.rows for text in read if text.data == item.run.data_fingerprint)


def _branches(planned: Sequence[PlannedArm]) -> list[str]:
    """A note for each checkpoint that arms start from."""
    arms: dict[Parent, list[str]] = {}
    for item in planned:
        if item.parent:
            arms.setdefault(item.parent, []).append(item.name)
    return [
        f"{'Every arm starts' if len(names) == len(planned) else 'Starting'} from checkpoint "
        f"{parent.run_id}@{parent.step}, after {parent.tokens:,} tokens"
        + ("." if len(names) == len(planned) else f": {', '.join(names)}.")
        + " Budgets count from there; seeds differ in what follows alone."
        for parent, names in arms.items()
    ]


def _runs_of(
    planned: Sequence[PlannedArm],
    ablation: Ablation,
    *,
    seeds: Sequence[int],
    count: int,
    results: Path,
    group: str,
    tags: Sequence[str],
) -> tuple[Jobs, tuple[ArmRecord, ...]]:
    """The jobs of all arms and seeds, at `count` horizons or without any, and the arms' records."""
    if not count:
        jobs, runs = jobs_of(planned, seeds=seeds, results=results, group=group, tags=tags)
        return jobs, tuple(_arm_record(item, ablation, runs[item.name]) for item in planned)
    climbing: Jobs = {}
    entries = []

    def make(item: PlannedArm, seed: int) -> Job:
        return job_of(item, seed=seed, results=results, group=group, tags=tags)

    for item in planned:
        climb = horizons.climb(item, make, seeds=seeds, numbers=range(count))
        climbing |= {name: job for name, job in climb.jobs.items() if name not in climbing}
        steps, tokens = horizons.ladder_of(item).steps(count - 1), horizons.tokens_of(item, count)[-1]
        entry = climb.entered(_arm_record(item, ablation, runs={}))
        entries.append(dataclasses.replace(entry, steps=steps, tokens=tokens))
    return climbing, tuple(entries)


def _arm_record(item: PlannedArm, ablation: Ablation, runs: RunsBySeed) -> ArmRecord:
    x = X_VALUES[ablation.axis.key](item.run) if ablation.axis.numeric else None
    return ArmRecord(
        name=item.name,
        family=item.arm.family,
        label=item.arm.label.format(x="" if x is None else f"{x:.3g}"),
        x=x,
        overrides=tuple(item.arm.overrides),
        baseline=item.name == ablation.baseline,
        shape=item.run.shape,
        counts=item.counts,
        steps=item.run.steps,
        tokens=item.tokens,
        mismatch=item.mismatch,
        runs=runs,
    )


def _reference_lines(baseline: PlannedArm, horizons_reached: int) -> tuple[ReferenceLine, ...]:
    """The bigram and the best n-gram table on the baseline's shards: what a model must beat to have done more
    than count.
    """
    from lab.data.ngram import baselines

    scored = horizons.scored(baseline.run, max(0, horizons_reached - 1))
    lines = baselines(
        baseline.shards,
        documents=scored.documents,
        most_bytes=scored.bytes,
        context_length=baseline.run.shape.context_length,
    )
    best = min(lines, key=lambda line: line.bpb)
    counted = best.counted_tokens
    part = f" on {counted / 1e6:.0f} M tokens" if counted < baseline.corpus.train_tokens else ""
    return tuple(
        ReferenceLine(f"{line.order}-gram, Witten-Bell{part}", line.bpb)
        for line in lines
        if line is best or line.order == 2
    )
