"""What do reports and publishing keep of a run's log? Thinned curves, small enough for one line of a
published file.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from lab.config.schema import Monitor
from lab.store import log_line
from lab.store.log_line import LogLine
from lab.store.run_record import Curves, FirstMovers, SkillPoint, SpikePoint, TrainPoint, ValidationPoint
from lab.store.spikes import by_chance, first_mover

RECORD_POINTS, RECORD_EVALUATIONS, RECORD_SPIKES = 60, 20, 20
EXCESS = "val/excess/"
PEAKS = ("attention/logit_max", "residual/rms")
T = TypeVar("T")


def curves(lines: Sequence[LogLine], monitor: Monitor) -> Curves:
    """Training and validation curves with at most RECORD_POINTS points; spikes stay, the largest
    RECORD_SPIKES of them.

    monitor: that of the run's configuration. Where it diagnoses every step, the curves have what moved first
    before each of the spikes, and spikes cost points.
    """
    steps, evaluations = _of(lines, log_line.STEP), _of(lines, log_line.EVALUATION)
    listed = [
        SpikePoint(line.step, line.values["signal"], line.values["value"], line.values["score"])
        for line in _of(lines, log_line.SPIKE)
    ]
    spikes = sorted(sorted(listed, key=lambda s: -s.score)[:RECORD_SPIKES], key=lambda s: s.step)
    kept = {spike.step for spike in spikes}
    attributed = monitor.diagnostics_every == 1
    points = RECORD_POINTS - (2 * len(kept) if attributed else 0)
    train = {
        line.step: line for line in [*_thinned(steps, points), *(line for line in steps if line.step in kept)]
    }
    movers = _first_movers(lines, [spike.step for spike in spikes], monitor) if attributed else None
    return Curves(
        train=tuple(
            TrainPoint(step, line.tokens, _short(line.number("train/loss")), _short(line.number("grad/norm")))
            for step, line in sorted(train.items())
        ),
        validation=tuple(
            ValidationPoint(
                line.step, line.tokens, _short(line.number("val/loss")), _short(line.number("val/bpb"))
            )
            for line in _thinned(evaluations, RECORD_EVALUATIONS)
        ),
        spikes=tuple(
            spike._replace(value=_short(spike.value), score=float(f"{spike.score:.5g}")) for spike in spikes
        ),
        peaks=_peaks(_of(lines, log_line.DIAGNOSTICS)),
        excess=_excess(evaluations),
        first_movers=movers,
    )


def halved(found: Curves) -> Curves | None:
    """The curves with half the points of each skill, which figures alone read; None where none is left to
    take.
    """
    thinned = {skill: tuple(_thinned(points, len(points) // 2)) for skill, points in found.excess.items()}
    return dataclasses.replace(found, excess=thinned) if thinned != found.excess else None


def _of(lines: Sequence[LogLine], kind: str) -> list[LogLine]:
    return [line for line in lines if line.kind == kind]


def _first_movers(lines: Sequence[LogLine], kept: Sequence[int], monitor: Monitor) -> FirstMovers:
    diagnosed = _of(lines, log_line.DIAGNOSTICS)
    names = {name for line in diagnosed for name in line.values}
    series = {name: [line.number(name) for line in diagnosed] for name in sorted(names)}
    rule: dict[str, Any] = {"window": monitor.spike_window, "threshold": monitor.spike_threshold}
    spiked = [line.step for line in _of(lines, log_line.SPIKE)]
    spikes, quiet = by_chance(series, spiked, steps=len(diagnosed), **rule)
    return FirstMovers(spikes, quiet, tuple(first_mover(series, step, **rule) for step in kept))


def _peaks(diagnostics: Sequence[LogLine]) -> dict[str, float | None]:
    """The largest attention logit and the largest stream that any diagnosed step and layer had; steps are
    thinned.
    """
    found = {}
    for name in PEAKS:
        values = [
            value
            for line in diagnostics
            for key, value in line.values.items()
            if key.startswith(f"{name}/") and value is not None
        ]
        if values:
            found[name] = _short(max(values))
    return found


def _excess(evaluations: Sequence[LogLine]) -> dict[str, tuple[SkillPoint, ...]]:
    names = [key for key in (evaluations[-1].values if evaluations else ()) if key.startswith(EXCESS)]
    points = _thinned(evaluations, RECORD_EVALUATIONS)
    return {
        name.removeprefix(EXCESS): tuple(
            SkillPoint(line.tokens, _short(line.number(name))) for line in points
        )
        for name in sorted(names)
    }


def _thinned(lines: Sequence[T], points: int) -> list[T]:
    """About `points` of the lines, evenly, with the first and the last."""
    stride = max(1, math.ceil(len(lines) / max(1, points)))
    return [*lines[::stride], *(lines[-1:] if (len(lines) - 1) % stride else [])]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
