"""How does a trial of a study become a run, and what is its loss at a step? The runs are ordinary ones of
the store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lab.config.strict import ConfigError
from lab.plan.job_set import Jobs, JobSet
from lab.plan.single import single_runs
from lab.store.log_line import EVALUATION
from lab.store.metric import value_at_init, value_of
from lab.store.run_store import RunStore
from lab.sweep.space import Range
from lab.sweep.study import Point

METRIC = "val/bpb"


class Trials:
    """Trains the trials of a study to a step. `steps` and `points`: those of a run, and its evaluations,
    at all low ends; accounts: what is told of their text.
    """

    def __init__(
        self,
        overrides: Sequence[str],
        ranges: Sequence[Range],
        store: RunStore,
        *,
        results: Path,
        cache: Path,
        carry_out: Callable[[JobSet], object],
    ):
        self.overrides, self.ranges, self.store = list(overrides), ranges, store
        self.results, self.cache = results, cache
        self.carry_out = carry_out
        self._refuse_ends()
        first = self.plan({0: {found.key: found.low for found in ranges}})
        job = next(iter(first.jobs.values()))
        self.accounts = first.accounts
        self.steps, self.points = job.config.steps, job.config.evaluation.points

    def _refuse_ends(self) -> None:
        """Raises ConfigError where an end of a range, or the whole number after its low end, is refused."""
        low = {found.key: found.low for found in self.ranges}
        for found in self.ranges:
            tried = [found.low, found.high, *([found.low + found.step] if found.whole else [])]
            for value in tried:
                self.plan({0: low | {found.key: value}})

    def plan(self, points: dict[int, Point]) -> JobSet:
        """One run for each point. Raises ConfigError with the problems of all of them."""
        return single_runs(
            [
                self.overrides + [found.override(point[found.key]) for found in self.ranges]
                for point in points.values()
            ],
            results=self.results,
            cache=self.cache,
        )

    def score(self, points: dict[int, Point], step: int) -> dict[int, float | None]:
        """The loss of each trial at a step, which they are trained to where they aren't there yet; None
        where one can't be.

        A run of another number of steps is taken at the evaluation of the same number, after as large a
        share of its training.
        """
        jobs, ends = Jobs(), {}
        evaluation = round(step * self.points / self.steps)
        for number, point in points.items():
            try:
                plan = self.plan({number: point})
            except ConfigError as error:  # of this point alone: the low ends have been planned
                print(f"trial {number}: {error}", file=sys.stderr)
                continue
            [(name, job)] = plan.jobs.items()
            end = round(job.config.steps * evaluation / self.points)
            jobs[name] = replace(job, until_step=end if end < job.config.steps else None)
            ends[number] = name, end
        if jobs:
            self.carry_out(replace(plan, jobs=jobs))
        return dict.fromkeys(points) | {number: self._loss(name, end) for number, (name, end) in ends.items()}

    def drop(self, points: dict[int, Point]) -> None:
        """Mark the runs of trials that are behind."""
        for point in points.values():
            for name in self.plan({0: point}).jobs:
                self.store.prune(name)

    def _loss(self, name: str, step: int) -> float | None:
        """At an evaluated step. A run taken from published lines has no log, but its curve has the
        evaluations.
        """
        state = self.store.state(name)
        if state in ("failed", "pending"):
            return None
        record = self.store.record(name)
        if state == "finished" and step == record.config.steps:
            return value_of(record, METRIC)
        if self.store.adopted(name):
            known = {point.step: point.bpb for point in record.curves.validation}
        else:
            lines = self.store.metrics(name)
            known = {line.step: line.number(METRIC) for line in lines if line.kind == EVALUATION}
        if state == "diverged" or known.get(step, 0.0) is None:
            return value_at_init(record, METRIC)
        return known.get(step)
