"""How a stage of a sweep is carried out, and what stops the stages: runs that have no result."""

from __future__ import annotations

from collections.abc import Callable

from lab.plan.job_set import Jobs
from lab.plan.planning import Plan
from lab.store.run_store import RunStore
from lab.store.states import RESULT_STATES

CarryOut = Callable[[Plan, str], None]


class Incomplete(Exception):
    """A stage has runs without a result, and what comes next rests on them; `plan` is as far as it is
    known.
    """

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan = plan


def complete(plan: Plan, jobs: Jobs, store: RunStore) -> None:
    """Raises Incomplete where a run that is to end, and not to pause, has no result."""
    ending = [name for name, job in jobs.items() if job.until_step is None]
    if any(store.state(name) not in RESULT_STATES for name in ending):
        raise Incomplete(plan)
