"""Which values of some keys are best? Optuna asks, runs answer, and what is dropped early is dropped on
the way.

A study lives in results/tune/<name>.journal, or at any RDB URL; it is made once and the same command goes
on with it. Trials come in batches. With pruning a batch is a bracket of successive halving (Jamieson &
Talwalkar 2016, arXiv:1502.07943): all its runs train to the first rung, the best 1 / `factor` of them to
the next, and so on; a promoted run goes on from its checkpoint, with the schedule of the whole budget in
every rung. Rungs are steps at which a run is evaluated.

A diverged run is told as its loss before training, so that the sampler learns from it; a failed one as
failed. Trials that a killed process left running are told as failed and asked again with the same values:
their runs go on where they were. A trial's suggestion depends on the seed, its number and the trials told
before, so a study repeats from its seed, killed or not.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError
from lab.sweep.space import Range
from lab.sweep.storage import of_database, of_journal

PATIENCE = 8  # suggested trials in a row that may fail
Point = dict[str, float]
Score = Callable[[dict[int, Point], int], dict[int, float | None]]


@dataclass(frozen=True)
class Rungs:
    """The steps at which a batch is thinned, the last of them the end; which share goes on is 1 / factor."""

    steps: tuple[int, ...]
    factor: int

    @classmethod
    def of(cls, steps: int, *, points: int, factor: int | None) -> Rungs:
        """Rungs at evaluated steps of a run that is evaluated `points` times; the end alone without a
        factor.
        """
        if factor is None:
            return cls((steps,), 1)
        evaluated = {round(points / factor**k) for k in range(points) if points / factor**k >= 1}
        return cls(tuple(round(steps * number / points) for number in sorted(evaluated)), factor)


@dataclass
class Outcome:
    """What came of a study: trials by state, the best, how often the order of promoted trials changed,
    importances.

    stopped: why it ended before it had all its trials.
    """

    best: dict[str, Any] | None
    trials: list[dict[str, Any]]
    stopped: str | None = None
    order: list[dict[str, Any]] = field(default_factory=list)
    importances: dict[str, Any] | None = None


def open_study(name: str, *, storage: str | None, folder: Path, about: dict[str, Any]) -> Any:
    """The study of that name, made if there is none. Raises ConfigError where it is about something else,
    or can't be opened.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    where = of_database(storage) if storage else of_journal(folder / f"{name}.journal")
    study = optuna.create_study(study_name=name, storage=where, direction="minimize", load_if_exists=True)
    known = study.user_attrs.get("about")
    if known is None:
        study.set_user_attr("about", about)
    elif known != about:
        differs = ", ".join(sorted(key for key in {*known, *about} if known.get(key) != about.get(key)))
        raise ConfigError(f"{name}: this study was made with other {differs}. Choose another name.")
    return study


@contextlib.contextmanager
def owner(name: str, folder: Path) -> Iterator[None]:
    """Hold the study, so that a trial left running by anyone else is known to be stale. Raises
    ConfigError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{name}: another process is tuning it. Wait for it, or choose another name."
            ) from None
        yield


def recover(study: Any) -> int:
    """Tell stale trials as failed and queue their values again; how many there were."""
    from optuna.trial import TrialState

    stale = study.get_trials(states=(TrialState.RUNNING,))
    for trial in stale:
        if trial.params:
            study.enqueue_trial(trial.params, user_attrs={"retry_of": trial.number})
        study.tell(trial.number, state=TrialState.FAIL)
    return len(stale)


def search(
    study: Any,
    ranges: Sequence[Range],
    score: Score,
    *,
    sampler: str,
    seed: int,
    trials: int,
    batch: int,
    rungs: Rungs,
    drop: Callable[[dict[int, Point]], None] = lambda points: None,
) -> Outcome:
    """Go on with a study until `trials` of it have been told.

    score(points by trial number, step) trains those trials to that step and returns their loss there: a
    diverged one's loss before training, None where a run failed. drop(points) is told of those that go no
    further.
    """
    recover(study)
    points = _points(sampler, ranges, seed=seed, trials=trials)
    trials = min(trials, len(points)) if sampler == "grid" else trials
    stopped, idle = None, 0
    while (told := _told(study)) < trials:
        spent = told + len(_failed(study))
        size = min(batch - spent % batch, trials - told)
        asked = [trial for k in range(size) if (trial := _ask(study, ranges, points, seed=seed + spent + k))]
        if not asked:
            break  # no point is left
        _bracket(study, {trial.number: trial for trial in asked}, score, rungs, drop)
        idle = idle + len(asked) if _told(study) == told else 0
        if not points and idle >= max(batch, PATIENCE):
            stopped = f"none of the last {idle} trials could be trained"
            break
    return replace(outcome(study, ranges, rungs), stopped=stopped)


def outcome(study: Any, ranges: Sequence[Range], rungs: Rungs) -> Outcome:
    """What a study knows so far."""
    from optuna.trial import TrialState

    listed = [
        {
            "id": str(trial.number),
            "state": trial.state.name.lower(),
            "value": trial.value,
            "params": trial.params,
            "rung": max(trial.intermediate_values, default=None),
            "retry_of": trial.user_attrs.get("retry_of"),
        }
        for trial in study.trials
        if trial.state != TrialState.WAITING
    ]
    complete = [row for row in listed if row["state"] == "complete"]
    best = min(complete, key=lambda row: (row["value"], int(row["id"])), default=None)
    return Outcome(
        best, listed, order=_order(study, rungs), importances=_importances(study, ranges, len(complete))
    )


def told(found: Outcome) -> list[str]:
    """The outcome in words."""
    best, lines = found.best, []
    retried = {row["retry_of"] for row in found.trials}
    failed = [row for row in found.trials if row["state"] == "fail" and int(row["id"]) not in retried]
    if failed:
        lines.append(
            f"{len(failed)} of {len(found.trials)} trials failed and taught nothing; lab status says "
            "why of those that ran"
        )
    if found.stopped:
        lines.append(f"stopped: {found.stopped}")
    if best is not None:
        lines.append(f"best: trial {best['id']}, {best['value']:.4f}")
    for at in found.order:
        lines.append(
            f"at step {at['step']} {at['changed']} of {at['pairs']} pairs of trials that both ended "
            "stood in the other order"
        )
    if found.importances is not None:
        weights = ", ".join(f"{key} {weight:.2f}" for key, weight in found.importances["weights"].items())
        lines.append(f"importance {found.importances['where']}: {weights}")
    return lines


def check_name(name: str) -> None:
    """Raises ConfigError for a name that is no plain file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,99}", name):
        raise ConfigError(
            f"{name}: needs 1 to 100 letters, digits and - _ +, beginning with a letter or digit."
        )


def _bracket(
    study: Any, trials: dict[int, Any], score: Score, rungs: Rungs, drop: Callable[[dict[int, Point]], None]
) -> None:
    """Train a batch rung by rung, then tell all of it: what is killed before is asked again whole, and no
    run is lost.
    """
    from optuna.trial import TrialState

    left, ended = dict(trials), dict[int, dict[str, Any]]()
    for rung, step in enumerate(rungs.steps):
        if not left:
            break
        losses = score({number: trial.params for number, trial in left.items()}, step)
        for number in [number for number in left if losses[number] is None]:
            ended[number] = {"state": TrialState.FAIL}
            del left[number]
        for number, trial in left.items():
            trial.report(losses[number], step)
        if rung == len(rungs.steps) - 1:
            ended |= {number: {"values": losses[number]} for number in left}
            break
        ranked = sorted(left, key=lambda number: (losses[number], number))
        for number in ranked[max(1, len(ranked) // rungs.factor) :]:
            ended[number] = {"state": TrialState.PRUNED}
            del left[number]
    drop(
        {number: trials[number].params for number in ended if ended[number].get("state") == TrialState.PRUNED}
    )
    for number in sorted(ended):
        study.tell(number, **ended[number])


def _ask(study: Any, ranges: Sequence[Range], points: Sequence[Point], *, seed: int) -> Any:
    """The next trial: one that waits, else the next of the listed points, else what TPE suggests; None
    where no point is left.
    """
    import warnings

    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    if points and not waiting:
        used = [trial.params for trial in study.get_trials(deepcopy=False)]
        new = next((point for point in points if point not in used), None)
        if new is None:
            return None
        study.enqueue_trial(new)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.sampler = TPESampler(seed=seed, constant_liar=True, multivariate=len(ranges) > 1)
    return study.ask({found.key: found.distribution() for found in ranges})


def _points(sampler: str, ranges: Sequence[Range], *, seed: int, trials: int) -> list[Point]:
    """The points of a grid or of a scrambled Sobol sequence, in order; none where they are suggested one
    by one.
    """
    keys = [found.key for found in ranges]
    if sampler == "grid":
        return [
            dict(zip(keys, values, strict=True)) for values in product(*(found.grid() for found in ranges))
        ]
    if sampler == "sobol":
        from scipy.stats.qmc import Sobol

        shares = Sobol(len(ranges), rng=seed).random_base2(math.ceil(math.log2(max(trials, 2))))[:trials]
        return [
            {found.key: found.at(float(share)) for found, share in zip(ranges, row, strict=True)}
            for row in shares
        ]
    return []


def _told(study: Any) -> int:
    """How many trials have an outcome; failed ones have none."""
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))


def _failed(study: Any) -> list[Any]:
    """Failed trials whose values were not asked again."""
    from optuna.trial import TrialState

    retried = {trial.user_attrs.get("retry_of") for trial in study.get_trials(deepcopy=False)}
    failed = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
    return [trial for trial in failed if trial.number not in retried]


def _order(study: Any, rungs: Rungs) -> list[dict[str, Any]]:
    """For each rung before the end, how many pairs of trials that both finished stood in the other order
    there.
    """
    from optuna.trial import TrialState

    ended = study.get_trials(states=(TrialState.COMPLETE,))
    found = []
    for step in rungs.steps[:-1]:
        known = [(t.intermediate_values[step], t.value) for t in ended if step in t.intermediate_values]
        pairs = [(a, b) for a, b in combinations(known, 2) if a[0] != b[0] and a[1] != b[1]]
        changed = sum((a[0] < b[0]) != (a[1] < b[1]) for a, b in pairs)
        found.append({"step": step, "pairs": len(pairs), "changed": changed})
    return found


def _importances(study: Any, ranges: Sequence[Range], complete: int) -> dict[str, Any] | None:
    """How much each key mattered, with the name of what says so; None where there is nothing to weigh."""
    if len(ranges) < 2 or complete < 4:
        return None
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    evaluator = PedAnovaImportanceEvaluator()
    weights = get_param_importances(study, evaluator=evaluator)
    said = "among the best trials (PED-ANOVA, Watanabe et al. 2023, arXiv:2304.10255)"
    return {"evaluator": type(evaluator).__name__, "where": said, "weights": dict(weights)}
