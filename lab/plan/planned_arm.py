"""An arm as it will be trained: its data prepared, its rules resolved, matched to the baseline, and its
runs named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.config.compose import has_gpu
from lab.config.schema import Config, Data, RunConfig, Vocab
from lab.config.strict import ConfigError, collected
from lab.plan import branch
from lab.plan.ablation import OF_TEXT, AblationArm, Match
from lab.plan.job_set import Jobs, Preparing
from lab.store.identity import run_id
from lab.store.job import Job, JobManifest
from lab.store.plan_record import RunsBySeed
from lab.store.run_record import Counts, Parent
from lab.store.run_store import RunStore

if TYPE_CHECKING:
    from lab.plan.budget import TrainingText  # loads torch


@dataclass(frozen=True)
class PlannedArm:
    """An arm with its rules resolved; `mismatch` is relative to what the baseline has of the held count."""

    name: str
    arm: AblationArm
    config: Config
    run: RunConfig
    counts: Counts
    mismatch: float
    shards: Path
    corpus: TrainingText
    parent: Parent | None

    @property
    def tokens(self) -> int:
        return self.run.steps * self.run.rows * self.run.shape.context_length


def device_kind(config: Config) -> str:
    """cpu or cuda."""
    return ("cuda" if has_gpu() else "cpu") if config.engine.device == "auto" else config.engine.device


def job_of(item: PlannedArm, *, seed: int, results: Path, group: str, tags: Sequence[str]) -> Job:
    """All that a worker needs to train one run of the arm."""
    run, device = dataclasses.replace(item.run, seed=seed), device_kind(item.config)
    return Job(
        config=run,
        run_id=run_id(run),
        store=str(results / "runs"),
        shards=str(item.shards),
        device=device,
        threads=1 if device == "cpu" else 4,
        checkpoint_seconds=item.config.engine.checkpoint_seconds,
        keep_every=item.config.engine.keep_every,
        manifest=JobManifest(
            group=group,
            job_type=item.name,
            tags=tuple(tags),
            counts=item.counts,
            tokenizer_hash=item.corpus.tokenizer_hash,
            parent=item.parent,
        ),
    )


def jobs_of(
    planned: Iterable[PlannedArm], *, seeds: Sequence[int], results: Path, group: str, tags: Sequence[str]
) -> tuple[Jobs, dict[str, RunsBySeed]]:
    """The jobs of all arms and seeds by run id, and {arm: {seed: run id}}; arms that share a run share its
    job.
    """
    jobs: Jobs = {}
    runs: dict[str, RunsBySeed] = {}
    for item in planned:
        of_arm = [job_of(item, seed=seed, results=results, group=group, tags=tags) for seed in seeds]
        for job in of_arm:
            jobs.setdefault(job.run_id, job)
        runs[item.name] = {seed: job.run_id for seed, job in zip(seeds, of_arm, strict=True)}
    return jobs, runs


def prepared(config: Config, *, cache: Path, progress: Preparing | None) -> tuple[Path, TrainingText]:
    """The folder of the configuration's shards and what a budget needs to know of them."""
    from lab.data.account import account
    from lab.data.evaluation import scored_tokens
    from lab.data.prepare import prepare
    from lab.data.shards import Shards
    from lab.plan.budget import TrainingText

    folder = prepare(config.data, config.vocab, cache=cache, progress=progress)
    shards = Shards.open(folder)
    found, notes = shards.near_duplicates, []
    if found.validation_documents:
        dropped = found.training_documents_dropped
        done = f"the {dropped} training documents like them were left out" if dropped else "they were kept"
        notes = [
            f"{found.validation_documents} validation documents stand nearly in the training text; {done}."
        ]
    return folder, TrainingText(
        shards.fingerprint,
        shards.bytes_per_token,
        shards.train_tokens,
        shards.tokenizer_hash,
        tuple(notes),
        account(config.data, folder),
        scored_tokens(shards, documents=config.evaluation.documents, most_bytes=config.evaluation.bytes),
    )


def accounts(planned: Iterable[PlannedArm]) -> tuple[str, ...]:
    """What was read of the user's own text, once for each text."""
    return tuple(dict.fromkeys(item.corpus.account for item in planned if item.corpus.account))


def repeats(planned: Sequence[PlannedArm], needed: Sequence[int]) -> list[str]:
    """A note where arms that need so many tokens read their training text more than once."""
    epochs = [tokens / item.corpus.train_tokens for tokens, item in zip(needed, planned, strict=True)]
    if not epochs or max(epochs) <= 1:
        return []
    least, most = (f"{share:.1f}" for share in (min(epochs), max(epochs)))
    times = most if least == most else f"{least} to {most}"
    return [f"Training passes over the text {times} times; repeated text is worth less than new."]


def locate_parents(configs: Iterable[Config], store: RunStore, source: str) -> None:
    """Refuse parents that aren't there before data is prepared. Raises ConfigError."""
    problems: list[str] = []
    for init_from in sorted({config.init_from for config in configs if config.init_from}):
        with collected(problems):
            branch.locate(init_from, store, source=source)
    if problems:
        raise ConfigError(problems)


def resolve_all(
    arms: dict[str, AblationArm],
    configs: dict[str, Config],
    *,
    baseline: str,
    how: Match,
    cache: Path,
    store: RunStore,
    source: str,
    progress: Preparing | None,
) -> list[PlannedArm]:
    """Every arm resolved and matched to the baseline. Raises ConfigError with the problems of all arms."""
    from lab.plan import budget, matching

    corpora: dict[str, tuple[Path, TrainingText]] = {}
    once: dict[tuple[Data, Vocab], tuple[Path, TrainingText]] = {}
    for name, config in configs.items():
        key = (config.data, config.vocab)
        if key not in once:
            once[key] = prepared(config, cache=cache, progress=progress)
        corpora[name] = once[key]
    first = budget.resolve(configs[baseline], corpora[baseline][1])
    target = 0.0 if how.hold == "none" else matching.held(first, corpora[baseline][1], how.hold)
    planned = []
    problems: dict[str, list[str]] = {}
    for name, arm in arms.items():
        config, (folder, corpus) = configs[name], corpora[name]
        try:
            run = budget.resolve(config, corpus)
            if how.hold != "none" and name != baseline:
                matched = matching.match(config, run, hold=how.hold, target=target, solve=how.solve)
                run = budget.resolve(config, corpus, shape_=matched)
            run, parent = branch.resolve(run, store, tokenizer_hash=corpus.tokenizer_hash, source=source)
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(name)
            continue
        counted = budget.counts(run)
        mismatch = matching.held(run, corpus, how.hold) / target - 1 if target else 0.0
        if abs(mismatch) > how.tolerance:
            way = f"Choose budget={how.hold}" if how.hold in OF_TEXT else "Choose another match.solve"
            problem = (
                f"{how.hold} differ from the baseline's by {mismatch:+.1%} (limit {100 * how.tolerance:g}%). "
                f"{way}, raise match.tolerance, or run with --match none."
            )
            problems.setdefault(problem, []).append(name)
        planned.append(PlannedArm(name, arm, config, run, counted, mismatch, folder, corpus, parent))
    if problems:
        raise ConfigError(
            problem if len(names) == len(arms) else f"arm {', '.join(names)}: {problem}"
            for problem, names in problems.items()
        )
    return planned
