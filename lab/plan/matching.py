"""The solver that gives every arm of an ablation as much of one count as the baseline has.

A count of the model (lab/plan/budget.py, Counts) is met by solving d_ff, the width or the depth; a count
of the text that training reads is the budget's own, and is held where the budget is counted in it. What is
missed is measured, never assumed.
"""

import dataclasses
import math
from collections.abc import Iterable

from lab.config.schema import Config, RunConfig, Shape
from lab.config.strict import ConfigError
from lab.plan.budget import TrainingText, counts, networks_passed, ratio, shape

WIDEST = 48  # head sizes across, of the widths that are tried
DEEPEST = 1024
AROUND = 2  # depths tried on either side of the exact one


def held(run: RunConfig, corpus: TrainingText, hold: str) -> float:
    """How much the run has of what `hold` names: tokens or UTF-8 bytes that it is trained on, or a count
    of its model.
    """
    tokens = run.steps * run.rows * run.shape.context_length
    if hold in ("tokens", "bytes"):
        return tokens * (corpus.bytes_per_token if hold == "bytes" else 1.0)
    return float(getattr(counts(run), hold))


def match(config: Config, run: RunConfig, *, hold: str, target: float, solve: str) -> Shape:
    """The shape of an arm whose `hold` count comes nearest to `target`.

    solve: "none" keeps the shape; "d_ff" solves d_ff; "width" steps d_model by the head size, "depth" the
    number of layers, and solves d_ff at each, and takes the one whose ratio is nearest to the asked one.
    Raises ConfigError where no d_ff fits.
    """
    if solve == "none":
        return run.shape
    if solve == "d_ff":
        return _solve_d_ff(run, hold, target)
    if solve == "width":
        step = config.heads.head_dim or config.size.head_dim
        tried = [(d_model, run.shape.num_layers) for d_model in range(step, WIDEST * step, step)]
        missing = f"size.head_dim = {step}: no width that is a multiple of it holds {target:.0f} {hold}."
    else:
        tried = [(run.shape.d_model, depth) for depth in _depths(run, hold, target)]
        missing = f"d_model = {run.shape.d_model}: no number of layers holds {target:.0f} {hold}."
    candidates = []
    for d_model, depth in tried:
        try:
            other = shape(config, d_model=d_model, num_layers=depth)
            candidates.append(_solve_d_ff(dataclasses.replace(run, shape=other), hold, target))
        except ConfigError:
            continue
    if not candidates:
        raise ConfigError(missing)
    return min(
        candidates,
        key=lambda s: abs(math.log(s.d_ff * networks_passed(config) / s.d_model / ratio(config))),
    )


def _depths(run: RunConfig, hold: str, target: float) -> Iterable[int]:
    """Numbers of layers around the one that meets the target at the asked ratio; every count is linear in
    them.
    """
    depth = run.shape.num_layers
    twice = dataclasses.replace(run, shape=dataclasses.replace(run.shape, num_layers=2 * depth))
    here = getattr(counts(run), hold)
    a_layer = (getattr(counts(twice), hold) - here) / depth
    exact = round(depth + (target - here) / a_layer)
    return range(max(1, exact - AROUND), min(DEEPEST, max(1, exact) + AROUND) + 1)


def _solve_d_ff(run: RunConfig, hold: str, target: float) -> Shape:
    def count(d_ff: int) -> float:
        return float(
            getattr(counts(dataclasses.replace(run, shape=dataclasses.replace(run.shape, d_ff=d_ff))), hold)
        )

    one, two = count(1), count(2)
    d_ff = round(1 + (target - one) / (two - one))  # every count is linear in d_ff
    if d_ff < 1:
        raise ConfigError(
            f"d_model = {run.shape.d_model}: {one:.0f} {hold} without a feed-forward layer, above "
            f"the {target:.0f} to match."
        )
    return dataclasses.replace(run.shape, d_ff=d_ff)
