"""The runs of `lab noise`: the baseline of a setting and its near twin, each with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.config.compose import SECRET, Override, compose
from lab.config.strict import ConfigError, collected
from lab.config.unusual import is_unusual
from lab.plan import planned_arm
from lab.plan.ablation import AblationArm, Match
from lab.plan.job_set import JobSet, Preparing
from lab.plan.planned_arm import accounts, device_kind, jobs_of
from lab.plan.planning import setting_of
from lab.store.noise_record import SEEDS, TWIN, NoiseArm, NoisePlan
from lab.store.plan_record import NOISE
from lab.store.run_store import RunStore


def noise_runs(
    overrides: Sequence[str], *, results: Path, cache: Path, progress: Preparing | None = None
) -> tuple[NoisePlan, JobSet]:
    """What is asked, and the jobs that answer.

    Raises ConfigError with every problem before anything is prepared, one for each override that changes the
    baseline.
    """
    problems = [
        f"{text} (command line): lab noise measures the baseline of a size and a text as it is, for "
        "all sweeps "
        "of them. Leave it out; size, data, data.path, data.validation_path, engine.* and tracker.* may be "
        "given."
        for text in overrides
        if is_unusual(text) and not SECRET.search(text)
    ]
    arms = {name: AblationArm("", name, of) for name, of in (("baseline", []), ("twin", [TWIN]))}
    configs = {}
    for name, arm in arms.items():
        with collected(problems):
            configs[name] = compose([Override(text) for text in [*overrides, *arm.overrides]])
    if problems:
        raise ConfigError(problems)
    planned = planned_arm.resolve_all(
        arms,
        configs,
        baseline="baseline",
        how=Match("none", "none", 0.0),
        cache=cache,
        store=RunStore(results / "runs"),
        source="command line",
        progress=progress,
    )
    first = planned[0].config
    tags = [first.size.name, first.data.name]
    jobs, runs = jobs_of(planned, seeds=range(SEEDS), results=results, group=NOISE, tags=tags)
    setting = setting_of(planned[0], overrides, None)
    entries = tuple(NoiseArm(item.name, tuple(item.arm.overrides), runs[item.name]) for item in planned)
    plan = NoisePlan(NOISE, setting, device_kind(first), tuple(range(SEEDS)), entries)
    return plan, JobSet(setting, jobs, first.engine, first.tracker, accounts(planned))
