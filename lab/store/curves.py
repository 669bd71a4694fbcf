"""What do reports and publishing keep of a run's log? Thinned curves, small enough for one line of a
published file.
"""

import math
from typing import Any

from lab.store.spikes import by_chance, first_mover

RECORD_POINTS, RECORD_EVALUATIONS, RECORD_SPIKES = 60, 20, 20
EXCESS = "val/excess/"
PEAKS = ("attention/logit_max", "residual/rms")


def curves(lines: list[dict[str, Any]], monitor: dict[str, Any]) -> dict[str, Any]:
    """Training and validation curves with at most RECORD_POINTS points; spikes stay, the largest
    RECORD_SPIKES of them.

    train         [[step, tokens, train/loss, grad/norm]], those of spikes among them
    validation    [[step, tokens, val/loss, val/bpb]]
    excess        {skill: [[tokens, bits a byte over the floor]]}
    spikes        [[step, signal, value, score]]
    peaks         {statistic: its largest value over steps and layers}

    monitor: that of the run's configuration. Where it diagnoses every step, `first_movers` has what moved
    first before each of the spikes, and spikes cost points.
    """
    kind: dict[str, list[dict[str, Any]]] = {"step": [], "evaluation": [], "spike": []}
    for line in lines:
        kind.setdefault(line["kind"], []).append(line)
    spikes = sorted(kind["spike"], key=lambda s: -s["score"])[:RECORD_SPIKES]
    spikes.sort(key=lambda s: s["step"])
    kept = {s["step"] for s in spikes}
    attributed = monitor["diagnostics_every"] == 1
    points = RECORD_POINTS - (2 * len(kept) if attributed else 0)
    train = _thinned(kind["step"], points) + [s for s in kind["step"] if s["step"] in kept]
    unique = {
        s["step"]: [s["step"], s["tokens"], _short(s["train/loss"]), _short(s["grad/norm"])] for s in train
    }
    return {
        "peaks": _peaks(kind.get("diagnostics", [])),
        "train": [unique[step] for step in sorted(unique)],
        "validation": [
            [e["step"], e["tokens"], _short(e["val/loss"]), _short(e["val/bpb"])]
            for e in _thinned(kind["evaluation"], RECORD_EVALUATIONS)
        ],
        "excess": _excess(kind["evaluation"]),
        "spikes": [[s["step"], s["signal"], _short(s["value"]), _short(s["score"])] for s in spikes],
        **({"first_movers": _first_movers(kind, [s["step"] for s in spikes], monitor)} if attributed else {}),
    }


def halved(found: dict[str, Any]) -> dict[str, Any] | None:
    """The curves with half the points of each skill, which figures alone read; None where none is left to
    take.
    """
    thinned = {skill: _thinned(points, len(points) // 2) for skill, points in found["excess"].items()}
    return found | {"excess": thinned} if thinned != found["excess"] else None


def _first_movers(
    kind: dict[str, list[dict[str, Any]]], kept: list[int], monitor: dict[str, Any]
) -> dict[str, Any]:
    """`of`: for each kept spike [steps before it, statistic], or null; the rest as lab.spikes.by_chance
    counts it.
    """
    diagnosed = kind.get("diagnostics", [])
    names = {key for line in diagnosed for key in line} - {"kind", "step", "tokens"}
    series = {name: [line.get(name) for line in diagnosed] for name in sorted(names)}
    rule = {"window": monitor["spike_window"], "threshold": monitor["spike_threshold"]}
    return {
        "of": [first_mover(series, step, **rule) for step in kept],
        **by_chance(series, (s["step"] for s in kind["spike"]), steps=len(diagnosed), **rule),
    }


def _peaks(diagnostics: list[dict[str, Any]]) -> dict[str, float | None]:
    """The largest attention logit and the largest stream that any diagnosed step and layer had; steps are
    thinned.
    """
    found = {}
    for name in PEAKS:
        values = [
            v
            for line in diagnostics
            for key, v in line.items()
            if key.startswith(f"{name}/") and v is not None
        ]
        if values:
            found[name] = _short(max(values))
    return found


def _excess(evaluations: list[dict[str, Any]]) -> dict[str, list[list[float | None]]]:
    """Per skill, (tokens, excess over the floor in bits a byte of the exact part)."""
    names = [key for key in (evaluations[-1] if evaluations else ()) if key.startswith(EXCESS)]
    points = _thinned(evaluations, RECORD_EVALUATIONS)
    return {
        name.removeprefix(EXCESS): [[e["tokens"], _short(e.get(name))] for e in points]
        for name in sorted(names)
    }


def _thinned(lines: list[Any], points: int) -> list[Any]:
    """About `points` of the lines, evenly, with the first and the last."""
    stride = max(1, math.ceil(len(lines) / max(1, points)))
    return lines[::stride] + (lines[-1:] if (len(lines) - 1) % stride else [])


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
