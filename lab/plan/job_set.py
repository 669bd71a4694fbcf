"""Jobs to carry out, and how: what a run, a measurement of noise and each stage of a sweep come down to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.config.schema import Engine, Tracker
from lab.store.job import Job

Jobs = dict[str, Job]  # by run id
Preparing = Callable[[str, float], None]  # shows how far the preparation of data is


@dataclass(frozen=True)
class JobSet:
    """Jobs with the engine that trains them and the tracker that shows them.

    setting is the name of their size, text and kind of device; accounts: what was read of the user's text,
    and what of that is worth knowing before it is trained on.
    """

    setting: str
    jobs: Jobs
    engine: Engine
    tracker: Tracker
    accounts: tuple[str, ...] = ()
