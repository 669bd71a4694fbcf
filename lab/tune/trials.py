"""How does a trial of a study become a run, and what is its loss at a step? The runs are ordinary ones of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.plan import Plan, make_single
from lab.runs import RunStore
from lab.tune.space import Range
from lab.tune.study import Point
from lab.verdict.metric import value_at_init, value_of

METRIC = "val/bpb"


class Trials:
    """Trains the trials of a study to a step. `steps` and `points`: those of a run, and its evaluations, at all low ends."""

    def __init__(
        self, overrides: Sequence[str], ranges: Sequence[Range], store: RunStore,
        *, results: Path, cache: Path, carry_out: Callable[[Plan], Any],
    ):  # fmt: skip
        self.overrides, self.ranges, self.store = list(overrides), ranges, store
        self.results, self.cache = results, cache
        self.carry_out = carry_out
        job = next(iter(self.plan({0: {found.key: found.low for found in ranges}}).jobs.values()))
        self.steps, self.points = int(job["config"]["steps"]), int(job["config"]["evaluation"]["points"])

    def plan(self, points: dict[int, Point]) -> Plan:
        """One run for each point. Raises ConfigError with the problems of all of them."""
        return make_single(
            [self.overrides + [found.override(point[found.key]) for found in self.ranges] for point in points.values()],
            results=self.results, cache=self.cache,
        )  # fmt: skip

    def score(self, points: dict[int, Point], step: int) -> dict[int, float | None]:
        """The loss of each trial at a step, which they are trained to where they aren't there yet.

        A run of another number of steps is taken at the evaluation of the same number, after as large a share of its training.
        """
        jobs, ends = {}, {}
        evaluation = round(step * self.points / self.steps)
        for number, point in points.items():
            plan = self.plan({number: point})
            [(name, job)] = plan.jobs.items()
            end = round(job["config"]["steps"] * evaluation / self.points)
            jobs[name] = job | ({"until_step": end} if end < job["config"]["steps"] else {})
            ends[number] = name, end
        for name in filter(self.store.adopted, jobs):
            self.store.clear(name)  # it has no log, so no loss at an early step
        self.carry_out(Plan(plan.record, plan.folder, jobs, plan.engine, plan.tracker))
        return {number: self._loss(name, end) for number, (name, end) in ends.items()}

    def _loss(self, name: str, step: int) -> float | None:
        state = self.store.state(name)
        if state == "diverged":
            return value_at_init(self.store.record(name), METRIC)
        if state == "failed":
            return None
        at = [
            line for line in self.store.metrics(name) if line["kind"] == "evaluation" and line["step"] == step
        ]
        if at:
            return float(at[-1][METRIC])
        return value_of(self.store.record(name), METRIC) if state == "finished" else None
