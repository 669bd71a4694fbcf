"""At which numbers of tokens is an arm judged, and which runs lead there?

Horizon k has 2^k times the tokens of the first one. Each arm and seed has one trunk: a warm-up, the same
for all horizons, then a constant rate. A branch leaves the trunk four fifths of the way to its horizon and
takes the rate down to 0 over the last fifth, in a straight line (Hägele et al. 2024, arXiv:2405.18392);
its last loss is the loss at the horizon. Trunk and five branches take 1.2 times the steps of the longest
run, runs of their own 1.9 times.

A trunk is the same run wherever a sweep ends, and so are the branches: nothing is trained twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.config.schema import Evaluation, RunConfig, Schedule
from lab.config.strict import ConfigError
from lab.plan.ablation import MOST_HORIZONS, Ablation
from lab.plan.job_set import Jobs
from lab.plan.planned_arm import PlannedArm
from lab.store.identity import NUMERICS
from lab.store.job import Job
from lab.store.plan_record import ArmRecord, RunsBySeed, tokens_text
from lab.store.run_record import Parent, ReadRows, ReadText

MakeJob = Callable[[PlannedArm, int], Job]
COOLDOWN = Fraction(1, 5)
WARM_UP, WARMED_UP_FOR = "schedule.warmup_fraction", 2  # the horizon of which a warm-up is a fraction
NEAR = 0.05  # how far a horizon that is asked for may lie from one that there is
TRUNK_DOCUMENTS, TRUNK_ROWS = 32, 16
MOST_DOCUMENTS_DOUBLED = 3  # doublings of the documents that a branch is scored on
SAMPLES_FROM, CHOICES_FROM = 1, 2  # the first horizon with each
DECAY = Schedule("linear", warmup_fraction=0.0, final_fraction=0.0)


@dataclass(frozen=True)
class Ladder:
    """The horizons of one arm, in steps of its runs: `first` of horizon 0."""

    first: int

    def steps(self, number: int) -> int:
        """From the first step of the trunk to the end of the branch."""
        return int(self.first * 2**number)

    def leaves(self, number: int) -> int:
        """The step of the trunk after which the branch leaves it."""
        return self.steps(number) - self.cooldown(number)

    def cooldown(self, number: int) -> int:
        """Steps of the branch alone."""
        return max(1, round(self.steps(number) * COOLDOWN))


def ladder_of(item: PlannedArm) -> Ladder:
    """The horizons of an arm: as many steps to the first one as its budget takes of that many tokens."""
    size = item.config.size
    return Ladder(max(2, round(item.run.steps * size.first_horizon / size.tokens)))


def tokens_of(item: PlannedArm, count: int) -> tuple[int, ...]:
    """Tokens at the first `count` horizons of an arm."""
    ladder, run = ladder_of(item), item.run
    return tuple(ladder.steps(k) * run.rows * run.shape.context_length for k in range(count))


def chosen(asked: float, tokens: Sequence[int]) -> int:
    """The number of the horizon that is asked for by its tokens. Raises ConfigError."""
    for number, there in enumerate(tokens):
        if abs(asked / there - 1) <= NEAR:
            return number
    raise ConfigError(
        f"--horizon {tokens_text(asked)}: no such horizon. This ablation has "
        f"{', '.join(map(tokens_text, tokens))}."
    )


def refuse(
    planned: Sequence[PlannedArm], ablation: Ablation, overrides: Sequence[str], *, source: str
) -> None:
    """Raises ConfigError for what no trunk can have: a schedule of its own, points along the way at which to
    evaluate, or a checkpoint to start from.

    overrides: of the command line, source: the file of the ablation.
    """
    given = [(text, "command line") for text in overrides] + [(text, source) for text in ablation.common]
    given += [(text, f"{source}, arm {item.name}") for item in planned for text in item.arm.overrides]
    problems = [
        f"{text} ({where}): {source} has horizons, whose trunks all have a constant rate after their "
        "warm-up. Drop it, or leave horizons out; every run is then trained by itself to its budget."
        for text, where in given
        if (key := text.partition("=")[0]) == "schedule" or key.startswith("schedule.") and key != WARM_UP
    ]
    problems += [
        f"{text} ({where}): {source} has horizons, and each run is evaluated where its horizon ends. Drop it."
        for text, where in given
        if text.partition("=")[0] == "evaluation.points"
    ]
    problems += [
        f"arm {item.name}: starts from {item.run.init_from}, and {source} has horizons, whose branches start "
        "from trunks. Leave one of the two out."
        for item in planned
        if item.parent
    ]
    if problems:
        raise ConfigError(problems)


def scored(run: RunConfig, number: int) -> Evaluation:
    """The evaluation of a branch, at its end alone: the longer it was trained, the more text is scored, so
    that all of it stays below a tenth of the steps. Early branches make no choices, which cost as much as
    20 steps.
    """
    documents = run.evaluation.documents * 2 ** min(number, MOST_DOCUMENTS_DOUBLED)
    of = _of_documents(run, documents, points=1)
    return dataclasses.replace(
        of,
        choices=of.choices if number >= CHOICES_FROM else 0,
        samples=of.samples if number >= SAMPLES_FROM else 0,
    )


def _of_documents(run: RunConfig, documents: int, *, points: int) -> Evaluation:
    """The run's evaluation on another number of validation documents, with the bound of their bytes in
    proportion.
    """
    most = run.evaluation.bytes and max(1, run.evaluation.bytes * documents // run.evaluation.documents)
    return dataclasses.replace(run.evaluation, points=points, documents=documents, bytes=most)


def trunk_of(item: PlannedArm) -> RunConfig:
    """The trunk of an arm, with the seed of its run; as long as the last horizon that there can be needs."""
    ladder, run = ladder_of(item), item.run
    steps = ladder.leaves(MOST_HORIZONS - 1)
    warm_up = round(run.schedule.warmup_fraction * ladder.steps(WARMED_UP_FOR))
    return dataclasses.replace(
        run,
        steps=steps,
        schedule=Schedule("constant", warmup_fraction=warm_up / steps, final_fraction=1.0),
        evaluation=dataclasses.replace(
            _of_documents(
                run, min(TRUNK_DOCUMENTS, run.evaluation.documents), points=2 ** (MOST_HORIZONS - 1)
            ),
            rows=TRUNK_ROWS,
            choices=0,
            samples=0,
            lengths=[],
        ),
    )


@dataclass(frozen=True)
class Climb:
    """The runs of one arm: its jobs, trunks before their branches, and run ids by seed. `branches` has those
    of each horizon from the first on.
    """

    jobs: Jobs
    trunks: RunsBySeed
    branches: tuple[RunsBySeed, ...]

    def entered(self, arm: ArmRecord) -> ArmRecord:
        """The record of the arm with these runs."""
        return dataclasses.replace(arm, runs=self.branches[-1], trunks=self.trunks, branches=self.branches)


def climb(item: PlannedArm, make: MakeJob, *, seeds: Sequence[int], numbers: Sequence[int]) -> Climb:
    """The runs of an arm that are judged at the horizons of these numbers, by rising number.

    make: the job of an arm as it stands, with a seed.
    """
    jobs: Jobs = {}
    trunks: RunsBySeed = {}
    branches: tuple[RunsBySeed, ...] = tuple({} for _ in numbers)
    for seed in seeds:
        trunk = _trunk_job(item, make, seed=seed, until=numbers[-1])
        jobs[trunk.run_id], trunks[seed] = trunk, trunk.run_id
        for number, of in zip(numbers, branches, strict=True):
            job = make(_branch(item, trunk, number), seed)
            jobs[job.run_id], of[seed] = job, job.run_id
    return Climb(jobs, trunks, branches)


def _trunk_job(item: PlannedArm, make: MakeJob, *, seed: int, until: int) -> Job:
    """The job that trains the trunk up to where the branch of horizon `until` leaves it."""
    ladder, job = ladder_of(item), make(dataclasses.replace(item, run=trunk_of(item)), seed)
    leaves = tuple(ladder.leaves(number) for number in range(MOST_HORIZONS))
    pause = leaves[until] if leaves[until] < job.config.steps else None
    return dataclasses.replace(job, until_step=pause, keep_steps=leaves)


def _branch(item: PlannedArm, trunk: Job, number: int) -> PlannedArm:
    """The arm as the branch that ends at the horizon of that number."""
    ladder, run = ladder_of(item), item.run
    step = ladder.leaves(number)
    branch = dataclasses.replace(
        run,
        steps=ladder.cooldown(number),
        schedule=DECAY,
        evaluation=scored(run, number),
        init_from=f"{trunk.run_id}@{step}",
    )
    seed, length = trunk.config.seed, run.shape.context_length
    parent = Parent(
        run_id=trunk.run_id,
        step=step,
        numerics=NUMERICS,
        tokens=step * run.rows * length,
        read=(ReadText(run.data_fingerprint, ReadRows(seed, length, step * run.rows)),),
    )
    return dataclasses.replace(item, run=branch, parent=parent)
