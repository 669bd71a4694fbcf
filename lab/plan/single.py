"""The runs of `lab train`: one for each point of overrides, as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.config.compose import Override, compose
from lab.config.schema import Config
from lab.config.strict import ConfigError, collected
from lab.plan import branch, planned_arm
from lab.plan.ablation import AblationArm
from lab.plan.job_set import Jobs, JobSet, Preparing
from lab.plan.planned_arm import PlannedArm, accounts, device_kind, job_of, locate_parents, repeats
from lab.store.run_store import RunStore

STEP_COSTS = 3  # a token that is trained on costs a forward pass and a backward one of twice that


def single_runs(
    points: Sequence[Sequence[str]],
    *,
    results: Path,
    cache: Path,
    progress: Preparing | None = None,
    elsewhere: bool = False,
) -> JobSet:
    """One run for each point. Raises ConfigError with the problems of all points.

    elsewhere: for another machine, which may have a device that this one lacks.
    """
    from lab.plan import budget

    configs: list[Config] = []
    problems: list[str] = []
    for point in points:
        with collected(problems):
            configs.append(compose([Override(text) for text in point], elsewhere=elsewhere))
    if problems:
        raise ConfigError(problems)
    store, jobs, planned = RunStore(results / "runs"), Jobs(), list[PlannedArm]()
    locate_parents(configs, store, "command line")
    shared = {text for text in points[0] if all(text in point for point in points)}
    for config, point in zip(configs, points, strict=True):
        name = " ".join(t for t in point if t not in shared and not t.startswith("seed=")) or "run"
        folder, corpus = planned_arm.prepared(config, cache=cache, progress=progress)
        arm = AblationArm(family="", label=name, overrides=list(point))
        with collected(problems):
            run = budget.resolve(config, corpus)
            run, parent = branch.resolve(
                run, store, tokenizer_hash=corpus.tokenizer_hash, source="command line"
            )
            item = PlannedArm(name, arm, config, run, budget.counts(run), 0.0, folder, corpus, parent)
            tags = [config.size.name, config.data.name]
            job = job_of(item, seed=config.seed, results=results, group="train", tags=tags)
            jobs[job.run_id] = job
            planned.append(item)
    if problems:
        raise ConfigError(problems)
    settings = dict.fromkeys(f"{c.size.name}-{c.data.name}-{device_kind(c)}" for c in configs)
    told = (*accounts(planned), *repeats(planned, [item.tokens for item in planned]), *_scored(planned))
    return JobSet("/".join(settings), jobs, configs[0].engine, configs[0].tracker, told)


def _scored(planned: Sequence[PlannedArm]) -> list[str]:
    """A note where evaluations take longer than training, as with long documents and a small budget."""
    for item in planned:
        points = item.run.evaluation.points
        if (tokens := points * item.corpus.scored_tokens) > STEP_COSTS * item.tokens:
            return [
                f"Its {points} evaluations score {tokens:,} tokens in all and take longer than training on "
                f"{item.tokens:,}; evaluation.points=1 or a smaller evaluation.bytes makes them shorter."
            ]
    return []
